"""The built-in corpus: a synchronous grammar (first working version)."""
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from importlib import resources
import random, re
@dataclass(frozen=True)
class Example:
    "One sentence pair with its gold alignment and its gold tree."
    en:str # English sentence, tokens separated by one space
    de:str # German sentence, tokens separated by one space
    alignment:tuple # pairs (i, j): English token i stands for German token j, counted from 0
    tree:str # English constituency tree, one bracketed line
    construction:str # name of the main construction
    pairs:tuple=() # word combinations in it: (kind, word, word)

def table(name): # Rows of one lexicon file
    text = resources.files("transformer_nb").joinpath(f"data/lexicon_{name}.tsv").read_text(encoding="utf-8")
    head, *rows = [line.split("\t") for line in text.splitlines()]
    return [dict(zip(head, row)) for row in rows]

@dataclass(frozen=True, eq=False)
class Noun:
    en:str; en_plural:str; de:str; gender:str; de_plural:str; genitive:str
    tags:frozenset; place:tuple; direction:tuple
    def english(self, num): return self.en_plural if num == "p" else self.en
    def german(self, case, num):
        if num == "p": return self.de_plural + ("n" if case == "dat" and self.de_plural[-1] not in "ns" else "")
        if self.gender == "f" or case == "nom": return self.de
        weak = self.genitive[-1] == "n"
        return self.genitive if weak or case == "gen" else self.de
    @property
    def pronoun(self):
        if "person" not in self.tags: return "it"
        return dict(m="he", f="she", n=None)[self.gender]

@dataclass(frozen=True, eq=False)
class Verb:
    en:str; particles:tuple; prep:str; en_forms:dict
    de:str; prefix:str; de_forms:dict; auxiliary:str
    frame:str; de_prep:str; case:str; subjects:tuple; objects:tuple; places:tuple; manners:tuple; flags:frozenset
    @property
    def key(self): return f"{self.en}/{self.prefix}{self.de}"

@dataclass(frozen=True, eq=False)
class Adjective:
    en:str; comparative:str; superlative:str; de:str; de_comparative:str; de_superlative:str; stem:str
    rank:int; tags:frozenset; state:frozenset

def split(text): return tuple(t for t in text.split(",") if t)
def pairs_of(text): return tuple(tuple(t.split(":")) for t in split(text))

def read_noun(r):
    return Noun(r["en"] if r["en"] != "-" else r["en_plural"], r["en_plural"], r["de"], r["gender"], r["de_plural"], r["genitive"],
        frozenset(split(r["tags"]) + (r["en"],) + (("plural",) if r["en"] == "-" else ())), pairs_of(r["place"]), pairs_of(r["direction"]))

PREPOSITIONS = "for of about with to at".split()

def third(verb):
    if verb == "have": return "has"
    if re.search(r"(s|x|ch|sh|o)$", verb): return verb + "es"
    return re.sub(r"([^aeiou])y$", r"\1ie", verb) + "s"

def read_verb(r):
    head, *rest = r["en"].split()
    known = PREPOSITIONS + (["on", "off"] if r["frame"][:2] == "p " else [])
    prep = rest.pop() if rest and rest[-1] in known else ""
    past, pasts = (r["past"].split("/")*2)[:2]
    en = dict(base=head, pres="is" if head == "be" else third(head), press="are" if head == "be" else head,
              past=past, pasts=pasts, part=r["participle"], ing=r["ing"])
    one, many = (r["de_3sg"].split("/") + [r["de"]])[:2]
    pret = r["preterite"]
    de = dict(inf=r["prefix"] + r["de"], zu=f"{r['prefix']}zu{r['de']}" if r["prefix"] else r["de"], pres=one, press=many,
              past=pret, pasts=pret + ("n" if pret[-1] == "e" else "en"), part=r["de_participle"])
    frame, *more = r["frame"].split()
    de_prep, case = more[1:] if more else ("", dict(d="dat").get(frame, "acc"))
    return Verb(r["en"], tuple(rest), prep, en, r["de"], r["prefix"], de, r["auxiliary"], frame, de_prep, case,
        split(r["subjects"]), split(r["objects"]), split(r["places"]), split(r["manners"]), frozenset(split(r["flags"])))

def read_adjective(r):
    return Adjective(r["en"], r["comparative"], r["superlative"], r["de"], r["de_comparative"], r["de_superlative"],
        r["attributive"] or r["de"].removesuffix("e"), int(r["rank"]), frozenset(split(r["tags"])), frozenset(split(r["state"])))

@dataclass(frozen=True)
class Det:
    en:str; de:str; pattern:str; number:str; tag:str

def links_of(text, offset): pass

class Lexicon:
    def __init__(self):
        self.nouns = [read_noun(r) for r in table("nouns")]
        self.verbs = [read_verb(r) for r in table("verbs")]
        self.adjectives = [read_adjective(r) for r in table("adjectives")]
        self.dets = {r["en"]: Det(**r) for r in table("determiners")}
        self.aux = {r["name"]: r for r in table("auxiliaries")}
        self.names, self.prepositions, self.conjunctions = table("names"), table("prepositions"), table("conjunctions")
        self.phrases = {}
        for r in table("phrases"): self.phrases.setdefault(r["kind"], []).append(r)
        self.cache = {}
        self.be = next(v for v in self.verbs if v.frame == "cop")
        self.there = read_verb(dict(en="be", past="was/were", participle="been", ing="being", de="geben", prefix="", de_3sg="gibt/gibt", preterite="gab", de_participle="gegeben", auxiliary="haben", frame="there", subjects="", objects="", places="", manners="", flags=""))
    def nouns_with(self, tags):
        if tags not in self.cache:
            want = frozenset(tags); self.cache[tags] = [n for n in self.nouns if n.tags & want]
        return self.cache[tags]
    def verbs_with(self, frames):
        key = ("v", frames)
        if key not in self.cache: self.cache[key] = [v for v in self.verbs if v.frame in frames.split()]
        return self.cache[key]
    def adjectives_for(self, noun, state=False):
        key = ("a", noun.en, state)
        if key not in self.cache:
            self.cache[key] = [a for a in self.adjectives if (a.state if state else a.tags) & noun.tags]
        return self.cache[key]
    def subject_verbs(self, noun):
        key = ("s", noun.en)
        if key not in self.cache: self.cache[key] = [v for v in self.verbs if noun.tags & frozenset(v.subjects)]
        return self.cache[key]
    def object_verbs(self, noun):
        key = ("o", noun.en)
        if key not in self.cache:
            self.cache[key] = [v for v in self.verbs if v.frame in ("a", "d") and not v.prep and noun.tags & frozenset(v.objects)]
        return self.cache[key]

@lru_cache
def lexicon(): return Lexicon()

CASES, GENDERS = ["nom", "acc", "dat", "gen"], "mfnp"
DETERMINERS = {
    "def":    dict(nom="er ie as ie", acc="en ie as ie", dat="em er em en", gen="es er es er"),
    "weak":   dict(nom="er e es e", acc="en e es e", dat="em er em en", gen="es er es er"),
    "mixed":  dict(nom="- e - e", acc="en e - e", dat="em er em en", gen="es er es er"),
    "strong": dict(nom="er e es e", acc="en e es e", dat="em er em en", gen="en er en er"),
}
ADJECTIVES = {
    "weak":   dict(nom="e e e en", acc="en e e en", dat="en en en en", gen="en en en en"),
    "mixed":  dict(nom="er e es en", acc="en e es en", dat="en en en en", gen="en en en en"),
    "strong": DETERMINERS["strong"],
}
AFTER = dict(weak="weak", mixed="mixed", strong="strong", fixed="strong", none="strong")
AFTER["def"] = "weak"
def ending(endings, case, gender, num):
    return endings[case].split()[GENDERS.index("p" if num == "p" else gender)].strip("-")

def determiner(det, case, gender, num):
    return det.de if det.pattern == "fixed" else det.de + ending(DETERMINERS[det.pattern], case, gender, num)

def adjective(adj, degree, pattern, case, gender, num):
    stem = dict(pos=adj.stem, sup=adj.de_superlative)[degree]
    return stem + ending(ADJECTIVES[AFTER[pattern]], case, gender, num)

@dataclass
class NP:
    en:tuple; de:object; num:str; gender:str; pronoun:object; definite:bool; noun:object=None
    rel:list=field(default_factory=list); is_pronoun:bool=False

NO_DET = Det("", "", "none", "sp", "")
def leaves(tags, words, link): return [(t, w, link) for t, w in zip(tags.split(), words.split())]

def with_article(kids):
    "a becomes an before a vowel sound"
    out = list(kids)
    for k, (tag, word, link) in enumerate(out[:-1]):
        if word == "a" and out[k + 1][1][0] in "aeiou" and out[k + 1][1] != "useful": out[k] = (tag, "an", link)
    return out

def noun_phrase(g, noun, num="s", det=NO_DET, adjs=(), not_link=()):
    d, n, links = g.link(), g.link(), [g.link() for _ in adjs]
    kids = leaves(det.tag, det.en, d) if det.en else []
    for (a, degree), k in zip(adjs, links):
        words = a.superlative if degree == "sup" else a.en
        tags = ("RBS JJ" if " " in words else "JJS") if degree == "sup" else "JJ"
        kids += leaves(tags, words, k); g.pairs.append(("adjective", a.en, noun.en))
    words = noun.english(num)
    kids += leaves(" ".join(["NN"]*words.count(" ") + ["NNS" if num == "p" else "NN"]), words, n)
    if not_link: det, d = g.lex.dets["no"], (d if det.en else ()) + not_link
    def de(case):
        out = [(w, d) for w in determiner(det, case, noun.gender, num).split()] if det.de else []
        out += [(adjective(a, deg, det.pattern, case, noun.gender, num), k) for (a, deg), k in zip(adjs, links)]
        return out + [(noun.german(case, num), n)]
    pron = "they" if num == "p" else noun.pronoun
    return NP(("NP", with_article(kids)), de, num, noun.gender, pron, det.pattern in ("def", "weak") or det.tag == "PRP$", noun)

def name_phrase(g, row):
    n, k = row["name"], g.link()
    de = lambda case: [(n + ("s" if case == "gen" else ""), k)]
    return NP(("NP", [("NNP", n, k)]), de, "s", row["gender"], dict(m="he", f="she")[row["gender"]], True)

PRONOUNS = dict(he=("he", "him"), she=("she", "her"), it=("it", "it"), they=("they", "them"))
GERMAN_PRONOUNS = dict(nom="er sie es sie", acc="ihn sie es sie", dat="ihm ihr ihm ihnen")
RELATIVES = dict(nom="der die das die", acc="den die das die", dat="dem der dem denen")
def german_word(forms, case, gender, num): return forms[case].split()[GENDERS.index("p" if num == "p" else gender)]

def pronoun(g, np, case="nom"):
    k = g.link()
    en = ("NP", [("PRP", PRONOUNS[np.pronoun][case != "nom"], k)])
    return NP(en, lambda c: [(german_word(GERMAN_PRONOUNS, c, np.gender, np.num), k)], np.num, np.gender, np.pronoun, True, np.noun, is_pronoun=True)

CONTRACTED = {("in", "dem"): "im", ("an", "dem"): "am", ("zu", "dem"): "zum", ("zu", "der"): "zur", ("in", "das"): "ins",
              ("bei", "dem"): "beim", ("von", "dem"): "vom", ("an", "das"): "ans"}
def german_pp(prep, case, np, link):
    body = np.de(case)
    if prep == "entlang": return body + [(prep, link)]
    short = CONTRACTED.get((prep, body[0][0]))
    if short: return [(short, link + body[0][1])] + body[1:]
    return [(w, link) for w in prep.split()] + body

@dataclass
class Part:
    slot:str; en:object; de:list; tail:list=field(default_factory=list)

EN_RANK = dict(iobj=1, dobj=2, obj=2, objindef=2, objpron=2, pred=2, to=3, manner=4, prep=5, goal=5, place=6, agent=4, time=7, after=9)
DE_RANK = dict(objpron=2, iobj=3, to=3, dobj=3, mid=4, time=4, obj=5, already=6, neg=7, manner=8, objindef=9, agent=9, place=10, prep=11, goal=12, pred=12)

@dataclass
class Clause:
    subj:NP; verb:Verb; tense:str; v:tuple; a:tuple; b:tuple; n:tuple
    parts:list=field(default_factory=list); neg:str=""; passive:bool=False; front:object=None

BE = dict(base="be", pres="is", press="are", past="was", pasts="were", part="been", ing="being")
DO = dict(pres="does", press="do", past="did", pasts="did")
WERDEN = dict(inf="werden", pres="wird", press="werden", past="wurde", pasts="wurden")
HABEN = dict(haben=("hat", "haben"), sein=("ist", "sind"))
TAGS = dict(base="VB", pres="VBZ", press="VBP", past="VBD", pasts="VBD", part="VBN", ing="VBG")

def verb_leaf(forms, form, link): return (TAGS[form], forms[form], link)

def english_verbs(g, c, ask=False):
    many = "s" if c.subj.num == "p" else ""
    head, link = (BE, c.b) if c.passive else (c.verb.en_forms, c.v)
    tail = [verb_leaf(c.verb.en_forms, "part", c.v)] if c.passive else []
    if c.tense in ("prog", "pastprog"):
        return [verb_leaf(BE, dict(prog="pres", pastprog="past")[c.tense] + many, c.v), verb_leaf(head, "ing", link)] + tail
    if c.tense in ("pres", "past"):
        if head["base"] == "be" or not (c.neg or ask): return [verb_leaf(head, c.tense + many, link)] + tail
        return [verb_leaf(DO, c.tense + many, c.v), verb_leaf(head, "base", link)]
    row = g.lex.aux[c.tense]
    words = [tuple(w.split("/")) for w in row["en_plural" if many else "en_singular"].split()]
    return [(t, w, c.a) for w, t in words] + [verb_leaf(head, row["en_form"], link)] + tail

def german_verbs(g, c):
    "(finite verb, prefix, rest of the right bracket)"
    many = "s" if c.subj.num == "p" else ""
    forms, link = (WERDEN, c.b) if c.passive else (c.verb.de_forms, c.v)
    rest = [(c.verb.de_forms["part"], c.v)] if c.passive else []
    if c.tense in ("pres", "past", "prog", "pastprog"):
        word = forms[("past" if "past" in c.tense else "pres") + many]
        return (word, link), "" if c.passive else c.verb.prefix, rest
    row = g.lex.aux[c.tense]
    if c.tense == "perf": return (HABEN[c.verb.auxiliary][bool(many)], c.a), "", [(forms["part"], link)]
    return (row["de_plural" if many else "de_singular"], c.a), "", rest + [(forms["inf"], link)]

def particle(word, link):
    outer, tag = dict(care=("NP", "NN"), forward=("ADVP", "RB"), aloud=("ADVP", "RB"), asleep=("ADJP", "JJ")).get(word, ("PRT", "RP"))
    return (outer, [(tag, word, link)])

def english_parts(c):
    mids = [p.en for p in c.parts if p.slot in ("mid", "already")]
    rest = sorted((p for p in c.parts if p.slot in EN_RANK and p is not c.front), key=lambda p: EN_RANK[p.slot])
    return mids, [p.en for p in rest if p.en]

def nest(words, inner, between=()):
    vp = ("VP", [words[-1], *inner])
    for k in range(len(words) - 2, -1, -1):
        child = ("S", [vp]) if words[k + 1][0] == "TO" else vp
        vp = ("VP", [words[k], *(between if k == 0 else ()), child])
    return vp

def english_clause(g, c, ask=False):
    words = english_verbs(g, c, ask)
    mids, inner = english_parts(c)
    inner = [particle(w, c.v) for w in c.verb.particles] + inner
    between = ([("RB", "not", c.n)] if c.neg else []) + mids
    if ask:
        rest = [nest(words[1:], inner)] if len(words) > 1 else inner
        return [words[0], c.subj.en, *between, *rest]
    if len(words) > 1: return [c.subj.en, nest(words, inner, between)]
    if words[0][1] in BE.values(): return [c.subj.en, ("VP", [words[0], *between, *inner])]
    return [c.subj.en, *mids, ("VP", [words[0], *inner])]

COMMA = (",", ())
def subject_tokens(c): return c.subj.de("nom") + c.subj.rel

def middle(c):
    parts = [p for p in c.parts if p.slot in DE_RANK and p is not c.front]
    if c.neg == "nicht": parts.append(Part("neg", None, [("nicht", c.n)]))
    return [t for p in sorted(parts, key=lambda p: DE_RANK[p.slot]) for t in p.de]

def after(c):
    return [t for p in c.parts for t in p.tail] + [t for p in c.parts if p.slot == "after" and p is not c.front for t in p.de]

def german_clause(g, c, order="v2"):
    "order: v2 (statement), v1 (question), final (subordinate clause)"
    finite, prefix, right = german_verbs(g, c)
    sich = [("sich", c.v)] if "refl" in c.verb.flags else []
    subj, mid = subject_tokens(c), middle(c)
    if order == "final": return subj + sich + mid + right + [(prefix + finite[0], finite[1])] + after(c)
    right = right + ([(prefix, finite[1])] if prefix else [])
    if order == "v2" and not c.front: return subj + [finite] + sich + mid + right + after(c)
    lead = c.front.de if c.front else []
    field = subj + sich if c.subj.is_pronoun else sich + subj
    return lead + [finite] + field + mid + right + after(c)

def infinitive(g, c, um=False):
    "English and German infinitive with to and zu; the subject is left out"
    t = g.link()
    mids, inner = english_parts(c)
    inner = [particle(w, c.v) for w in c.verb.particles] + inner
    en = ("S", [("VP", [("TO", "to", t), ("VP", [verb_leaf(c.verb.en_forms, "base", c.v), *inner])])])
    zu = [(c.verb.de_forms["zu"], t + c.v)] if c.verb.prefix else [("zu", t), (c.verb.de, c.v)]
    sich = [("sich", c.v)] if "refl" in c.verb.flags else []
    body = sich + middle(c) + zu + after(c)
    bare = len(body) == len(zu)
    de = ([("um", t)] if um else []) + body
    return en, de if bare and not um else [COMMA] + de + [COMMA]

def conjunction(row, c): return row["de_past" if "past" in c.tense else "de_present"]

def subordinate(g, en, de, c):
    k = g.link()
    tree = ("SBAR", [("IN", w, k) for w in en.split()] + [("S", english_clause(g, c))])
    return Part("after", tree, [COMMA, (de, k)] + german_clause(g, c, "final") + [COMMA])

def statement(g, c):
    dot = g.link()
    kids, lead = english_clause(g, c), []
    de = german_clause(g, c)
    if c.front: lead = [c.front.en] + ([(",", ",", ())] if c.front.slot == "after" else [])
    return ("S", lead + kids + [(".", ".", dot)]), de + [(".", dot)]

def question(g, c, lead_en=None):
    mark = g.link()
    sq = ("SQ", english_clause(g, c, ask=True))
    dot, de = (".", "?", mark), german_clause(g, c, "v1") + [("?", mark)]
    if lead_en: return ("SBARQ", [lead_en, sq, dot]), de
    return ("SQ", sq[1] + [dot]), de

# ---- from shared tree to strings
def bracket(node, words):
    if len(node) == 3:
        words.append((node[1], node[2])); return f"({node[0]} {node[1]})"
    return f"({node[0]} {' '.join(bracket(k, words) for k in node[1])})"

def tidy(tokens):
    "No comma before another comma or at the end"
    out = []
    for w, k in tokens:
        if out and out[-1][0] == "," and w in ",.?":
            old = out.pop()
            if w == ",": k = k + old[1]
        out.append((w, k))
    return out

def finish(tree, de, name, pairs=()):
    words = []
    text, de = bracket(tree, words), tidy(de)
    where = {}
    for j, (_, ks) in enumerate(de):
        for k in ks: where.setdefault(k, []).append(j)
    al = sorted({(i, j) for i, (_, ks) in enumerate(words) for k in ks for j in where.get(k, ())})
    return Example(" ".join(w for w, _ in words), " ".join(w for w, _ in de), tuple(al), text, name, tuple(pairs))

CONSTRUCTIONS = {}
def construction(weight):
    def keep(f): CONSTRUCTIONS[f.__name__] = (f, weight); return f
    return keep

class Grammar:
    def __init__(self, seed=0):
        self.rng, self.lex = random.Random(seed), lexicon()
        self.names = [n for n, (_, w) in CONSTRUCTIONS.items() for _ in range(w)]
        self.start()
    def start(self): self.count, self.pairs = 0, []
    def link(self): self.count += 1; return (self.count,)
    def pick(self, xs): return xs[int(self.rng.random()*len(xs))]
    def chance(self, p): return self.rng.random() < p
    def sample(self, name=None):
        name = name or self.pick(self.names)
        while True:
            self.start()
            made = CONSTRUCTIONS[name][0](self)
            if made: return finish(*made, name, self.pairs)
    def samples(self, n):
        out = {}
        while len(out) < n:
            e = self.sample(); out.setdefault(e.en, e)
        return list(out.values())
SUBJECT = dict(s="the the the the the the a a this my our every".split(), p="the the the the some two three these many several all my our".split())
OBJECT = dict(s="the the the the a a a this my our".split(), p="the the the some two three these several my our".split())

def adjectives(g, noun, p=.4, verb=None):
    "Up to two adjectives that fit, in English order"
    fit = g.lex.adjectives_for(noun)
    if verb and "make" in verb.flags: fit = [a for a in fit if a.rank in (2, 4) or a.rank == 1 and not a.state]
    if not fit or not g.chance(p): return []
    one = g.pick(fit)
    two = g.pick(fit) if g.chance(.2) else one
    return [(a, "pos") for a in sorted({one.en: one, two.en: two}.values(), key=lambda a: a.rank)] if two.rank != one.rank else [(one, "pos")]

def number(g, noun, p=.25):
    if "mass" in noun.tags: return "s"
    return "p" if "plural" in noun.tags or g.chance(p) else "s"

OWNED = frozenset("carry clothes hat shoe pet vehicle machine luggage toy kin device".split())
MINE = OWNED | frozenset("neighbour teacher doctor colleague guest gardener furn read tool instr".split())
def possessive(g, subj):
    "his, her, its or their: German chooses by the owner's gender"
    en = dict(he="his", she="her", it="its", they="their")[subj.pronoun]
    stem = "ihr" if subj.num == "p" or subj.gender == "f" else "sein"
    return Det(en, stem, "mixed", "sp", "PRP$")

def phrase_for(g, noun, owner=None, num=None, p_adj=None, definite=False, dets=OBJECT, verb=None):
    num = "p" if "plural" in noun.tags else num or number(g, noun)
    if p_adj is None: p_adj = .25 if "person" in noun.tags else .4
    if owner and owner.pronoun and noun.tags & OWNED and g.chance(.2): det = possessive(g, owner)
    elif "mass" in noun.tags: det = NO_DET if g.chance(.6) else g.lex.dets["the"]
    else: det = g.lex.dets[g.pick(dets[num])]
    if det.en in ("my", "our") and not noun.tags & MINE or definite and det.en not in ("my", "our", "this", "these"): det = g.lex.dets["the"]
    return noun_phrase(g, noun, num, det, adjectives(g, noun, p_adj, verb))

def subject(g, verb, definite=False, num=None):
    tags = verb.subjects
    if "person" in tags and num != "p" and g.chance(.12): return name_phrase(g, g.pick(g.lex.names))
    noun = g.pick(g.lex.nouns_with(tags))
    g.pairs.append(("subject", noun.en, verb.key))
    return phrase_for(g, noun, num=num, definite=definite, dets=SUBJECT)

def object_part(g, verb, np):
    de, en = np.de(verb.case), np.en
    if verb.prep: 
        k = g.link(); en = ("PP", [("IN", verb.prep, k), en])
    if verb.frame == "p": return Part("prep", en, german_pp(verb.de_prep, verb.case, np, k if verb.prep else g.now.v), np.rel)
    if verb.frame == "d": slot = "objpron" if np.is_pronoun else "dobj"
    else: slot = "objpron" if np.is_pronoun else "obj" if np.definite else "objindef"
    if verb.prep: de, en = np.de(verb.case), ("PP", [("IN", verb.prep, g.now.v), np.en])
    return Part(slot, en, de, np.rel)

def different(g, noun, subj): return subj.noun is None or noun is not subj.noun

def an_object(g, verb, subj, **kw):
    noun = g.pick(g.lex.nouns_with(verb.objects))
    if noun is subj.noun: return None
    g.pairs.append(("object", verb.key, noun.en))
    if "plobj" in verb.flags: kw["num"] = "p"
    return phrase_for(g, noun, owner=subj, verb=verb, **kw)

def instance(g, row, slot):
    "A ready-made phrase of the lexicon with fresh links"
    made = [tuple(map(int, p.split("-"))) for p in row["alignment"].split()]
    ks = [g.link() for _ in made]
    n = [0]
    def grow(node):
        if isinstance(node[1], str):
            i = n[0]; n[0] += 1
            return (node[0], node[1], tuple(k[0] for (a, _), k in zip(made, ks) if a == i))
        return (node[0], [grow(k) for k in node[1]])
    tree = grow(read_tree(row["tree"]))
    return Part(slot, tree, [(w, tuple(k[0] for (_, b), k in zip(made, ks) if b == j)) for j, w in enumerate(row["de"].split())])

@lru_cache
def read_tree(text):
    toks = re.findall(r"[()]|[^\s()]+", text); pos = [0]
    def node():
        pos[0] += 1; label = toks[pos[0]]; pos[0] += 1
        if toks[pos[0]] != "(":
            word = toks[pos[0]]; pos[0] += 2; return (label, word)
        kids = []
        while toks[pos[0]] == "(": kids.append(node())
        pos[0] += 1; return (label, kids)
    return node()

TIME_KINDS = dict(pres=("habit", "mid"), prog=("now",), past=("past",), pastprog=("past",), perf=("perf",), fut=("fut",), can=("fut", "now"), must=("fut", "now"),
                  should=("fut", "now"), wanted=("past",), may=("fut", "now"), want=("fut", "now"), would=("fut", "now"), could=("past",))
def time_part(g, tense):
    kind = g.pick(TIME_KINDS[tense])
    slot = dict(mid="mid", perf="already").get(kind, "time")
    return instance(g, g.pick(g.lex.phrases[kind]), slot)

def manner_part(g, verb):
    rows = [r for m in verb.manners if m in g.lex.phrases for r in g.lex.phrases[m]]
    return instance(g, g.pick(rows), "manner") if rows else None

def pp(g, en, tags, de, case, np, slot):
    k = g.link()
    return Part(slot, ("PP", leaves(tags, en, k) + [np.en]), german_pp(de, case, np, k))

def the(g, noun, p_adj=.15, owner=None):
    det = g.lex.dets[g.pick(["the"]*9 + ["a", "this"])]
    return noun_phrase(g, noun, "s", det, adjectives(g, noun, p_adj))

OUTDOOR = frozenset("green out woods farmplace water high".split())
def place_part(g, verb, subj=None):
    tags = verb.places
    wild = subj and subj.noun and subj.noun.tags & {"animal", "insect"} and "pet" not in subj.noun.tags
    if frozenset(tags) & {"green", "out", "road"} and g.chance(.25):
        row = g.pick([r for r in g.lex.prepositions if r["use"] == "place"])
        return pp(g, row["en"], row["tree"], row["de"], row["case"], the(g, g.pick(g.lex.nouns_with(split(row["tags"])))), "place")
    nouns = [n for n in g.lex.nouns_with(tags) if n.place and (not wild or n.tags & OUTDOOR)]
    if not nouns: return None
    noun = g.pick(nouns); en, de = noun.place[0]
    return pp(g, en, "IN", de, "dat", the(g, noun), "place")

DIRECTION_CASE = dict(zu="dat", aus="dat")
def goal_part(g, preps, tags):
    nouns = [(n, e, d) for n in g.lex.nouns_with(tags) for e, d in n.direction if e in preps]
    noun, en, de = g.pick(nouns)
    return pp(g, en, "TO" if en == "to" else "IN", de, DIRECTION_CASE.get(de, "acc"), the(g, noun), "goal")

def put_part(g):
    row = g.pick([r for r in g.lex.prepositions if r["use"] == "goal"])
    return pp(g, row["en"], row["tree"], row["de"], row["case"], the(g, g.pick(g.lex.nouns_with(split(row["tags"])))), "goal")

def new_clause(g, subj, verb, tense): 
    if verb.en_forms["past"] == verb.en_forms["base"] and subj.num == "p": tense = dict(pres="prog", past="perf").get(tense, tense)
    c = Clause(subj, verb, tense, g.link(), g.link(), g.link(), g.link())
    g.now = c
    return c

def fit_tense(verb, tense):
    if "st" in verb.flags or "noprog" in verb.flags: tense = dict(prog="pres", pastprog="past").get(tense, tense)
    if verb.flags & {"noperf"} and tense == "perf": tense = "past"
    return tense

def ditransitive_parts(g, c, direct, person):
    "give: dative before accusative in German; two orders in English"
    to = c.verb.frame == "t" or direct.is_pronoun or g.chance(.5)
    if to: 
        k = g.link(); one = Part("to", ("PP", [("TO", "to", k), person.en]), [(w, l + (k if i == 0 else ())) for i, (w, l) in enumerate(person.de("dat"))])
    else: one = Part("iobj", person.en, person.de("dat"))
    slot = "objpron" if direct.is_pronoun else "obj" if direct.definite else "objindef"
    c.parts += [one, Part(slot, direct.en, direct.de("acc"), direct.rel)]

def complements(g, c, **kw):
    "What the verb's frame asks for"
    v, s = c.verb, c.subj
    if v.frame in ("a", "d", "p", "put", "x", "b", "t"):
        np = an_object(g, v, s, **kw)
        if np is None: return False
    if v.frame in ("a", "d", "p"): c.parts.append(object_part(g, v, np))
    if v.frame in ("b", "t"):
        who = g.pick([n for n in g.lex.nouns_with(("person",)) if n is not s.noun and n is not np.noun])
        ditransitive_parts(g, c, np, phrase_for(g, who, owner=s, p_adj=.2))
    if v.frame in ("put", "x"): c.parts.append(object_part(g, v, np))
    if v.frame == "put": c.parts.append(put_part(g))
    if v.frame == "x" or ("goal" in v.flags and g.chance(.6)): c.parts.append(goal_part(g, ("into", "to"), ("room", "public", "stop", "garden", "forest")))
    if v.frame == "dir": c.parts.append(goal_part(g, v.objects, v.places))
    if "place" in v.flags: c.parts.append(place_part(g, v, s))
    c.obj = np if v.frame in ("a", "d", "p", "put", "x", "b", "t") else None
    return True

def has(c, slot): return any(p.slot == slot for p in c.parts)

def adjuncts(g, c, time=.35, place=.35, manner=.2):
    v = c.verb
    if g.chance(manner) and v.manners and c.tense != "perf" and not has(c, "pred"):
        p = manner_part(g, v)
        if p: c.parts.append(p)
    if v.places and v.frame in ("i", "a", "d", "p") and not has(c, "goal") and not has(c, "place") and g.chance(place):
        p = place_part(g, v, c.subj)
        if p: c.parts.append(p)
    if g.chance(time): c.parts.append(time_part(g, c.tense))
    return c

def a_verb(g, frames="i a a a d p dir", need=(), ban=()):
    vs = g.lex.verbs_with(" ".join(frames.split()))
    if need or ban: vs = [v for v in vs if set(need) <= v.flags and not set(ban) & v.flags]
    return g.pick(vs)

def a_clause(g, verb=None, tense=None, subj=None, frames="i a d p dir", time=.35, place=.35, manner=.2, definite=False, num=None, **kw):
    verb = verb or a_verb(g, frames)
    tense = fit_tense(verb, tense or g.pick(["pres", "prog", "prog", "past"]))
    c = new_clause(g, subj or subject(g, verb, definite, num), verb, tense)
    if not complements(g, c, **kw): return None
    return adjuncts(g, c, time, place, manner)

@construction(10)
def simple(g):
    c = a_clause(g)
    return c and statement(g, c)

@construction(8)
def inversion(g):
    c = a_clause(g, time=0, tense=g.pick(["pres", "prog", "past", "past", "fut"]))
    if not c: return None
    kinds = dict(pres="habit", prog="now", past="past", fut="fut")
    if c.tense not in kinds: return None
    c.front = instance(g, g.pick(g.lex.phrases[kinds[c.tense]]), "time")
    c.parts.append(c.front)
    return statement(g, c)

@construction(6)
def separable(g):
    c = a_clause(g, verb=a_verb(g, "i a", need=["sep"]), tense=g.pick(["pres", "prog", "past"]))
    if not c: return None
    return statement(g, c)

@construction(6)
def perfect(g):
    c = a_clause(g, tense="perf", time=.5)
    if not c or c.tense != "perf": return None
    return statement(g, c)

@construction(7)
def modal(g):
    v = a_verb(g, "i a d p dir b")
    if "person" not in v.subjects: return None
    tense = g.pick(["can", "must", "should", "may", "want", "would", "could", "fut"])
    s = subject(g, v)
    c = a_clause(g, verb=v, tense=tense, subj=s)
    return c and statement(g, c)
def copula(g, subj, adj, tense="pres"):
    "X is tired"
    c = new_clause(g, subj, g.lex.be, tense)
    k = g.link()
    c.parts.append(Part("pred", ("ADJP", [("JJ", adj.en, k)]), [(adj.de, k)]))
    return c

def state_of(g, np):
    fit = g.lex.adjectives_for(np.noun, state=True) if np.noun else [a for a in g.lex.adjectives if "person" in a.state]
    return g.pick(fit) if fit else None

TIMES = dict(pres="pres", past="past", prog="prog", pastprog="pastprog")

def reason(g, subj, tense):
    "because he is tired / because he wants to sleep"
    me, adj = pronoun(g, subj), state_of(g, subj)
    if adj and (g.chance(.6) or subj.pronoun == "it" or subj.noun and "person" not in subj.noun.tags): return copula(g, me, adj, tense)
    v = a_verb(g, "i a d p")
    if "person" not in v.subjects or v.flags & {"st", "noprog", "nopass"}: return None
    c = new_clause(g, me, v, "want" if tense == "pres" else "wanted")
    return adjuncts(g, c, 0, .25, .1) if complements(g, c, definite=True) else None

def side_clause(g, subj, tense):
    "A clause to hang on another: about the same subject (as a pronoun) or about somebody else"
    if subj.pronoun and g.chance(.4):
        me = pronoun(g, subj)
        adj = state_of(g, subj)
        if adj and g.chance(.5): return copula(g, me, adj, tense)
    return a_clause(g, tense=tense, time=0, place=.25, manner=.15, definite=True, frames="i a d p")

def main_and_side(g, row):
    tense = "past" if row["de_past"] != "-" and g.chance(.5) else "pres"
    progressive = row["kind"] == "while"
    c = a_clause(g, tense=tense if not progressive else "pastprog" if tense == "past" else "prog", time=0, place=.2, manner=.1, definite=True)
    if not c: return None
    if row["kind"] in ("reason", "condition"):
        if not c.subj.pronoun: return None
        s = reason(g, c.subj, tense)
        return s and (c, s)
    s = side_clause(g, c.subj, dict(past="pastprog", pres="prog")[tense] if progressive else tense)
    if not s or s.subj.noun is c.subj.noun and not s.subj.is_pronoun: return None
    return c, s

@construction(9)
def subordinate_clause(g):
    row = g.pick(g.lex.conjunctions)
    made = main_and_side(g, row)
    if not made: return None
    c, s = made
    c.parts.append(subordinate(g, row["en"], conjunction(row, s), s))
    return statement(g, c)

@construction(7)
def fronted_clause(g):
    row = g.pick([r for r in g.lex.conjunctions])
    made = main_and_side(g, row)
    if not made: return None
    c, s = made
    if s.subj.is_pronoun:
        s.subj, c.subj = c.subj, s.subj
    part = subordinate(g, row["en"], conjunction(row, s), s)
    part.de = part.de[1:]
    c.front = part; c.parts.append(part)
    return statement(g, c)

@construction(6)
def that_clause(g):
    v = a_verb(g, "s o s")
    c = new_clause(g, subject(g, v), v, g.pick(["pres", "pres", "past"]) if v.frame == "o" else "pres")
    s = a_clause(g, tense=g.pick(["pres", "prog", "past", "fut", "perf"]) if c.tense == "pres" else "past", time=.3, place=.2, manner=.1, definite=True)
    if not s or s.subj.noun is c.subj.noun: return None
    en, de = ("that", "dass") if v.frame == "s" else ("whether", "ob")
    c.parts.append(subordinate(g, en, de, s))
    return statement(g, c)

def relative_pronoun(g, np, case):
    k = g.link()
    person = np.noun is None or "person" in np.noun.tags
    word, tag = ("who" if case == "nom" else "whom", "WP") if person else ("that", "WDT")
    return NP(("WHNP", [(tag, word, k)]), lambda c: [(german_word(RELATIVES, c, np.gender, np.num), k)], np.num, np.gender, np.pronoun, True, np.noun)

def add_relative(g, np, sbar, de):
    np.en, np.rel = ("NP", [np.en, sbar]), [COMMA] + de + [COMMA]
    return np

def subject_relative(g, np):
    fit = [v for v in g.lex.subject_verbs(np.noun) if v.frame in ("i", "a", "d", "p")]
    if not fit: return None
    v = g.pick(fit)
    g.pairs.append(("subject", np.noun.en, v.key))
    r = relative_pronoun(g, np, "nom")
    c = a_clause(g, verb=v, subj=r, tense=g.pick(["pres", "prog", "past", "perf"]), time=0, place=.4, manner=.1)
    if not c: return None
    who, *rest = english_clause(g, c)
    return add_relative(g, np, ("SBAR", [who, ("S", rest)]), german_clause(g, c, "final"))

def object_relative(g, np):
    fit = g.lex.object_verbs(np.noun)
    if not fit: return None
    v = g.pick(fit)
    g.pairs.append(("object", v.key, np.noun.en))
    s = subject(g, v, definite=True)
    if s.noun is np.noun: return None
    c = new_clause(g, s, v, fit_tense(v, g.pick(["pres", "past", "perf"])))
    r = relative_pronoun(g, np, "acc")
    en = ("SBAR", [r.en, ("S", english_clause(g, c))])
    return add_relative(g, np, en, r.de(v.case) + german_clause(g, c, "final"))

@construction(9)
def relative_clause(g):
    v = a_verb(g, "i a d p")
    s = subject(g, v, definite=True)
    if s.noun is None: return None
    on_subject = g.chance(.5)
    make = g.pick([subject_relative, object_relative])
    if on_subject:
        if not make(g, s): return None
        c = a_clause(g, verb=v, subj=s, time=.15, place=.2, manner=.1)
        return c and statement(g, c)
    if v.frame == "i": return None
    c = new_clause(g, s, v, fit_tense(v, g.pick(["pres", "prog", "past", "perf"])))
    np = an_object(g, v, s)
    if np is None or not make(g, np): return None
    c.parts.append(object_part(g, v, np))
    return statement(g, c)

@construction(7)
def ditransitive(g):
    c = a_clause(g, frames="b b t", tense=g.pick(["pres", "prog", "past", "perf", "fut"]), time=.35)
    return c and statement(g, c)

@construction(6)
def passive(g):
    v = g.pick([v for v in g.lex.verbs_with("a") if not v.prep and not v.flags & {"st", "refl", "nopass"}])
    noun = g.pick(g.lex.nouns_with(v.objects))
    g.pairs.append(("object", v.key, noun.en))
    c = new_clause(g, phrase_for(g, noun), v, "pres")
    c.passive, c.tense = True, g.pick(["pres", "past", "past", "must", "can", "fut"])
    if v.en == "eat" or g.chance(.55):
        who = subject(g, v)
        if who.noun is noun: return None
        c.parts.append(pp(g, "by", "IN", "von", "dat", who, "agent"))
    if g.chance(.4): c.parts.append(time_part(g, c.tense))
    return statement(g, c)

TOP = ("person", "animal", "vehicle", "clothes", "food", "house", "public", "ware", "luggage", "instr", "read", "furn", "tool", "flower", "town0")
@construction(5)
def comparison(g):
    adj = g.pick([a for a in g.lex.adjectives if a.comparative != "-"])
    one = g.pick(g.lex.nouns_with(tuple(sorted(adj.tags))))
    same = [t for t in TOP if t in one.tags and t in adj.tags or t in one.tags]
    two = [n for n in g.lex.nouns_with(tuple(sorted(adj.tags))) if n is not one and same and set(same) & n.tags and "mass" not in n.tags]
    if not two or "mass" in one.tags: return None
    two = g.pick(two)
    a = phrase_for(g, one, p_adj=0); b = phrase_for(g, two, p_adj=0, num=a.num)
    g.pairs += [("adjective", adj.en, one.en)]
    c = new_clause(g, a, g.lex.be, g.pick(["pres", "past"]))
    k, t, q = g.link(), g.link(), g.link()
    if g.chance(.3):
        en = ("ADJP", [("ADJP", [("RB", "as", q), ("JJ", adj.en, k)]), ("PP", [("IN", "as", t), b.en])])
        de = [("so", q), (adj.de, k), ("wie", t)] + b.de("nom")
    else:
        tags = "RBR JJ" if " " in adj.comparative else "JJR"
        en = ("ADJP", [("ADJP", leaves(tags, adj.comparative, k)), ("PP", [("IN", "than", t), b.en])])
        de = [(adj.de_comparative, k), ("als", t)] + b.de("nom")
    c.parts.append(Part("pred", en, de))
    return statement(g, c)

@construction(4)
def superlative(g):
    v = a_verb(g, "a")
    noun = g.pick([n for n in g.lex.nouns_with(v.objects)])
    fit = [a for a in g.lex.adjectives_for(noun) if a.superlative != "-"]
    s = subject(g, v)
    if not fit or s.noun is noun or "mass" in noun.tags: return None
    g.pairs.append(("object", v.key, noun.en))
    c = new_clause(g, s, v, fit_tense(v, g.pick(["pres", "past", "perf"])))
    c.parts.append(object_part(g, v, noun_phrase(g, noun, number(g, noun, .2), g.lex.dets["the"], [(g.pick(fit), "sup")])))
    return statement(g, adjuncts(g, c, .3, .3, .1))

@construction(6)
def negation(g):
    v = a_verb(g, "i a a a d p dir")
    c = new_clause(g, subject(g, v, definite=True), v, fit_tense(v, g.pick(["pres", "prog", "past", "can", "should", "must"])))
    if c.tense == "must": c.tense = "may"
    c.neg = "nicht"
    if v.frame == "a" and g.chance(.6):
        noun = g.pick(g.lex.nouns_with(v.objects))
        if noun is c.subj.noun: return None
        num = number(g, noun)
        g.pairs.append(("object", v.key, noun.en))
        det = NO_DET if num == "p" or "mass" in noun.tags else g.lex.dets["a"]
        np = noun_phrase(g, noun, num, det, adjectives(g, noun, .3), not_link=c.n)
        np.definite = False
        c.neg = "kein"; c.parts.append(object_part(g, v, np))
    elif not complements(g, c, definite=True): return None
    if g.chance(.35):
        kind = dict(pres="habit", prog="now", past="past").get(c.tense, "fut")
        c.parts.append(instance(g, g.pick(g.lex.phrases[kind]), "time"))
    return statement(g, c)

@construction(5)
def yes_no_question(g):
    c = a_clause(g, tense=g.pick(["pres", "prog", "past", "perf", "can", "must", "fut"]), definite=True, time=.3)
    if not c or any(p.slot == "mid" for p in c.parts): return None
    return question(g, c)

def wh_np(g, en, tag, de, num="s"):
    k = g.link()
    return NP(("WHNP", [(tag, en, k)]), lambda case: [(de[case], k)], num, "m", None, True)

WHO = dict(nom="wer", acc="wen", dat="wem", gen="wessen")
@construction(5)
def wh_question(g):
    return g.pick([who_question, what_question, which_question, adverb_question])(g)

def who_question(g):
    "who is reading the book ?"
    v = a_verb(g, "a d p dir i")
    if "person" not in v.subjects: return None
    who = wh_np(g, "who", "WP", WHO)
    c = a_clause(g, verb=v, subj=who, tense=g.pick(["pres", "prog", "past", "perf"]), time=.3)
    if not c: return None
    mark = g.link()
    first, *rest = english_clause(g, c)
    return ("SBARQ", [first, ("SQ", rest), (".", "?", mark)]), german_clause(g, c) + [("?", mark)]

def asked_clause(g, frames):
    v = a_verb(g, frames)
    s = subject(g, v, definite=True)
    return None if v.prep else new_clause(g, s, v, fit_tense(v, g.pick(["pres", "prog", "past", "perf"])))

def what_question(g):
    "what / whom does the boy see ?"
    c = asked_clause(g, "a a d")
    if not c: return None
    person = set(c.verb.objects) == {"person"}
    if not person and "person" in c.verb.objects: return None
    np = wh_np(g, "whom", "WP", WHO) if person else wh_np(g, "what", "WP", dict(acc="was"))
    if not person and c.verb.frame == "d": return None
    c.front = Part("asked", None, np.de(c.verb.case))
    if g.chance(.4): c.parts.append(time_part(g, c.tense))
    if has(c, "mid"): return None
    return question(g, c, np.en)

def which_question(g):
    "which cake / how many cakes does the boy eat ?"
    c = asked_clause(g, "a")
    if not c: return None
    noun = g.pick(g.lex.nouns_with(c.verb.objects))
    if "mass" in noun.tags or noun is c.subj.noun: return None
    g.pairs.append(("object", c.verb.key, noun.en))
    many = g.chance(.5) or "plobj" in c.verb.flags
    np = noun_phrase(g, noun, "p" if many or "plural" in noun.tags else "s", g.lex.dets["how many" if many else "which"], adjectives(g, noun, .3))
    c.front = Part("asked", None, np.de(c.verb.case))
    if g.chance(.3): c.parts.append(time_part(g, c.tense))
    if has(c, "mid"): return None
    return question(g, c, ("WHNP", np.en[1]))

def adverb_question(g):
    "where / when / why does the dog sleep ?"
    en, de = g.pick([("where", "wo"), ("when", "wann"), ("why", "warum")])
    c = a_clause(g, frames="i a d p", time=0, place=0 if en == "where" else .2, definite=True, tense=g.pick(["pres", "prog", "past"]))
    if not c or en == "where" and (has(c, "goal") or has(c, "place") or not c.verb.places): return None
    k = g.link()
    c.front = Part("asked", None, [(de, k)])
    return question(g, c, ("WHADVP", [("WRB", en, k)]))

FOUND = dict(room=("table", "lamp", "mirror", "clock", "sofa", "chair"), green=("tree", "bench", "flower", "pond"), town0=("town", "stop"), out=("tree",), town=("device",))
@construction(4)
def existential(g):
    where, what = g.pick([(("village", "city"), ("town", "landmark")), (("garden", "park"), ("tree", "flower", "bench")),
                          (("zoo",), ("wild",)), (("kitchen", "living room", "office"), ("table", "chair", "cupboard", "shelf", "clock", "computer", "mirror")), (("island",), ("house", "castle", "forest", "lake", "mountain", "tower"))])
    noun = g.pick([n for n in g.lex.nouns_with(what) if n.en not in where])
    place = g.pick(g.lex.nouns_with(where))
    many = "plural" in noun.tags or g.chance(.5)
    det = g.lex.dets[g.pick("two three four some many several".split()) if many else "a"]
    np = noun_phrase(g, noun, "p" if many else "s", det, adjectives(g, noun, .6))
    k = g.link()
    there = NP(("NP", [("EX", "there", k)]), lambda c: [("es", k)], np.num, "n", None, True, None, is_pronoun=True)
    c = new_clause(g, there, g.lex.there, g.pick(["pres", "pres", "past"]))
    c.parts.append(Part("objindef", np.en, np.de("acc")))
    en, de = place.place[0]
    p = pp(g, en, "IN", de, "dat", noun_phrase(g, place, "s", g.lex.dets[g.pick(["the", "the", "this"])], adjectives(g, place, .3)), "place")
    c.parts.append(p)
    if g.chance(.35): c.front = p
    return statement(g, c)

@construction(6)
def coordination(g):
    if g.chance(.4): return two_subjects(g)
    tense = g.pick(["pres", "prog", "past"])
    a = a_clause(g, tense=tense, time=.15, place=.2, manner=.1, definite=True)
    b = a and a_clause(g, tense=tense, time=0, place=.2, manner=.1, definite=True)
    if not b or a.subj.noun is b.subj.noun: return None
    k, dot = g.link(), g.link()
    but = g.chance(.3)
    en, de = ("but", "aber") if but else ("and", "und")
    tree = ("S", [("S", english_clause(g, a)), ("CC", en, k), ("S", english_clause(g, b)), (".", ".", dot)])
    return tree, german_clause(g, a) + ([COMMA] if but else []) + [(de, k)] + german_clause(g, b) + [(".", dot)]

def two_subjects(g):
    v = a_verb(g, "i a d p dir")
    a, b = subject(g, v, num="s"), subject(g, v, num="s")
    if a.noun is b.noun or a.num == "p" or b.num == "p": return None
    k = g.link()
    both = NP(("NP", [a.en, ("CC", "and", k), b.en]), lambda c: a.de(c) + [("und", k)] + b.de(c), "p", "m", "they", True, a.noun)
    c = a_clause(g, verb=v, subj=both)
    return c and statement(g, c)

@construction(4)
def compound_noun(g):
    pairs = [n for n in g.lex.nouns if " " in n.en and g.lex.object_verbs(n)]
    noun = g.pick(pairs)
    v = g.pick(g.lex.object_verbs(noun))
    s = subject(g, v)
    if s.noun is noun: return None
    g.pairs.append(("object", v.key, noun.en))
    c = new_clause(g, s, v, fit_tense(v, g.pick(["pres", "prog", "past", "perf", "must", "can"])))
    c.parts.append(object_part(g, v, phrase_for(g, noun, owner=s)))
    return statement(g, adjuncts(g, c))

def owned(g, noun, owner):
    "the teacher 's bike / Anna 's bike"
    k = g.link()
    pos = ("POS", "'s", k)
    inner = ("NP", owner.en[1] + [pos])
    adjs = adjectives(g, noun, .3)
    np = noun_phrase(g, noun, "s", NO_DET if owner.noun is None else g.lex.dets["the"], adjs)
    kids, core = np.en[1], np.de
    if owner.noun is None: de = lambda c: [(owner.de("gen")[0][0], owner.de("gen")[0][1] + k)] + core(c)
    else:
        kids = kids[1:]
        def de(c):
            gen = owner.de("gen")
            return [(core(c)[0][0], ())] + core(c)[1:] + [(gen[0][0], gen[0][1] + k)] + gen[1:]
    return NP(("NP", [inner, *kids]), de, "s", noun.gender, np.pronoun, True, noun)

def of_phrase(g, noun, whole):
    "the roof of the house"
    k = g.link()
    head = noun_phrase(g, noun, "s", g.lex.dets["the"], adjectives(g, noun, .3))
    w = the(g, whole, .3)
    def de(c):
        gen = w.de("gen")
        return head.de(c) + [(gen[0][0], gen[0][1] + k)] + gen[1:]
    return NP(("NP", [head.en, ("PP", [("IN", "of", k), w.en])]), de, "s", noun.gender, "it", True, noun)

@construction(6)
def possession(g):
    if g.chance(.3):
        noun, whole = g.pick(g.lex.nouns_with(("part",))), g.pick(g.lex.nouns_with(("whole",)))
        np = of_phrase(g, noun, whole)
        vs = [v for v in g.lex.verbs if v.de in ("öffnen", "schließen", "putzen", "malen", "zeichnen", "fotografieren", "sehen", "reparieren") and v.frame == "a" and not v.prefix]
        if "door" not in noun.tags: vs = [v for v in vs if v.de in ("malen", "zeichnen", "fotografieren", "sehen", "reparieren")]
        v = g.pick(vs)
    else:
        noun = g.pick(g.lex.nouns_with(tuple(sorted(OWNED))))
        if not g.lex.object_verbs(noun) : return None
        v = g.pick(g.lex.object_verbs(noun))
        owner = name_phrase(g, g.pick(g.lex.names)) if g.chance(.35) else noun_phrase(g, g.pick([n for n in g.lex.nouns_with(("person",)) if "plural" not in n.tags]), "s", g.lex.dets[g.pick(["the", "the", "my", "our"])])
        np = owned(g, noun, owner)
    s = subject(g, v, definite=True)
    if s.noun is noun: return None
    g.pairs.append(("object", v.key, noun.en))
    c = new_clause(g, s, v, fit_tense(v, g.pick(["pres", "prog", "past", "perf"])))
    c.parts.append(object_part(g, v, np))
    return statement(g, adjuncts(g, c, .25, 0, .15))

@construction(5)
def place(g):
    v = g.pick([v for v in g.lex.verbs_with("i a") if v.places])
    c = a_clause(g, verb=v, place=1, time=.2)
    if c and has(c, "place") and g.chance(.3): c.front = next(p for p in c.parts if p.slot == "place")
    return c and statement(g, c)

@construction(6)
def direction(g):
    c = a_clause(g, frames="dir dir put x", time=.3, tense=g.pick(["pres", "prog", "past", "perf", "fut"]))
    return c and statement(g, c)

def inner_infinitive(g, subj, need=()):
    v = a_verb(g, "a a d p b", need=need)
    if "person" not in v.subjects or "st" in v.flags or v.en in ("forget", "lose", "break"): return None
    c = a_clause(g, verb=v, subj=subj, tense="pres", time=0, place=.15, manner=.15)
    return c

@construction(6)
def zu_infinitive(g):
    v = a_verb(g, "z")
    s = subject(g, v)
    c = new_clause(g, s, v, fit_tense(v, g.pick(["pres", "prog", "past", "perf"])))
    i = inner_infinitive(g, s)
    if not i: return None
    en, de = infinitive(g, i)
    c.parts.append(Part("after", en, de))
    return statement(g, c)

@construction(5)
def purpose(g):
    v = g.pick([v for v in g.lex.verbs_with("dir") if v.en in ("walk", "drive", "run") and "person" in v.subjects])
    s = subject(g, v)
    if s.noun and "person" not in s.noun.tags: return None
    c = a_clause(g, verb=v, subj=s, tense=g.pick(["pres", "prog", "past", "perf"]), time=0, manner=.1)
    i = c and inner_infinitive(g, s, ["errand"])
    if not i or has(i, "place"): return None
    en, de = infinitive(g, i, um=True)
    c.parts.append(Part("after", en, de))
    return statement(g, c)

@construction(7)
def far_pronoun(g):
    v = a_verb(g, "a")
    if set(v.objects) & {"person", "animal"} or "mass" in v.objects: return None
    s = subject(g, v, definite=True)
    if s.noun and "person" not in s.noun.tags: return None
    np = an_object(g, v, s, definite=g.chance(.5))
    if np is None or "mass" in np.noun.tags or np.pronoun not in ("it", "they") or "person" in np.noun.tags or s.num == "p": return None
    c = new_clause(g, s, v, fit_tense(v, g.pick(["pres", "past", "perf"])))
    c.parts.append(object_part(g, v, np))
    if g.chance(.3): c.parts.append(time_part(g, c.tense))
    adj = state_of(g, np)
    if adj and g.chance(.6):
        side = copula(g, pronoun(g, np), adj, "past" if c.tense == "past" else "pres")
        c.parts.append(subordinate(g, "because", "weil", side))
        return statement(g, c)
    return second_with_pronoun(g, c, np)

def second_with_pronoun(g, c, np):
    vs = g.lex.object_verbs(np.noun)
    v = g.pick([v for v in vs])
    if v is c.verb: return None
    s = subject(g, v, definite=True)
    if s.noun is c.subj.noun or s.noun and "person" not in s.noun.tags: return None
    d = new_clause(g, s, v, fit_tense(v, c.tense))
    it = pronoun(g, np, "acc")
    d.parts.append(object_part(g, v, it))
    k, dot = g.link(), g.link()
    tree = ("S", [("S", english_clause(g, c)), ("CC", "and", k), ("S", english_clause(g, d)), (".", ".", dot)])
    return tree, german_clause(g, c) + [("und", k)] + german_clause(g, d) + [(".", dot)]

NUMERALS = "two three four five six seven eight nine ten".split()
@construction(4)
def numeral(g):
    v = a_verb(g, "a")
    noun = g.pick([n for n in g.lex.nouns_with(v.objects) if "mass" not in n.tags and "plural" not in n.tags] or [None])
    if not noun: return None
    s = subject(g, v)
    if s.noun is noun: return None
    g.pairs.append(("object", v.key, noun.en))
    c = new_clause(g, s, v, fit_tense(v, g.pick(["pres", "prog", "past", "perf"])))
    c.parts.append(object_part(g, v, noun_phrase(g, noun, "p", g.lex.dets[g.pick(NUMERALS)], adjectives(g, noun, .5))))
    return statement(g, adjuncts(g, c))

@construction(4)
def gern(g):
    "likes to swim: schwimmt gern"
    v = a_verb(g, "i a a p")
    if "person" not in v.subjects or v.flags & {"st", "noprog"} or v.en in ("lose", "arrive", "cry", "stop"): return None
    s = subject(g, v, definite=True)
    c = new_clause(g, s, v, "pres")
    if v.frame == "a":
        noun = g.pick(g.lex.nouns_with(v.objects))
        if "person" in noun.tags: return None
        g.pairs.append(("object", v.key, noun.en))
        c.parts.append(object_part(g, v, noun_phrase(g, noun, "s" if "mass" in noun.tags else "p", NO_DET, adjectives(g, noun, .3))))
    elif not complements(g, c): return None
    if g.chance(.35): 
        p = v.places and place_part(g, v, s)
        if p and not has(c, "place"): c.parts.append(p)
    k = g.link()
    many = s.num == "p"
    en, _ = infinitive(g, c)
    c.parts.append(Part("manner", None, [("gern", k)]))
    vp = ("VP", [("VBP" if many else "VBZ", "like" if many else "likes", k), en])
    dot = g.link()
    return ("S", [s.en, vp, (".", ".", dot)]), german_clause(g, c) + [(".", dot)]

@construction(4)
def predicate(g):
    noun = g.pick([n for n in g.lex.nouns if g.lex.adjectives_for(n, True)])
    s = phrase_for(g, noun, p_adj=.25)
    adj = state_of(g, s)
    c = copula(g, s, adj, g.pick(["pres", "past"]))
    g.pairs.append(("adjective", adj.en, noun.en))
    if g.chance(.5): c.parts.append(time_part(g, "prog" if c.tense == "pres" else "past"))
    return statement(g, c)

def held_out(pair, share=.06):
    "A stable coin: is this word combination kept for the unseen split?"
    h = blake2b("\t".join(pair).encode(), digest_size=4).digest()
    return int.from_bytes(h, "big") < share * 2**32

def builtin_corpus(n_train=40_000, n_val=500, n_test=500, n_unseen=500, seed=0):
    g = Grammar(seed)
    out = dict(train=[], val=[], test=[], unseen=[])
    want = dict(train=n_train, val=n_val, test=n_test)
    seen, pool = set(), []
    for name, n in want.items():
        while len(out[name]) < n:
            e = g.sample()
            if e.en in seen or e.de in seen: continue
            if any(held_out(p) for p in e.pairs): pool.append(e); continue
            seen |= {e.en, e.de}
            out[name].append(e)
    words = {w for e in out["train"] for w in (e.en + " " + e.de).split()}
    kinds = {e.construction for e in out["train"]}
    def fits(e): return e.construction in kinds and all(w in words for w in (e.en + " " + e.de).split())
    k = 0
    while len(out["unseen"]) < n_unseen:
        if k < len(pool): e = pool[k]; k += 1
        else: e = g.sample()
        if e.en in seen or e.de in seen or not any(held_out(p) for p in e.pairs) or not fits(e): continue
        seen |= {e.en, e.de}
        out["unseen"].append(e)
    return out
