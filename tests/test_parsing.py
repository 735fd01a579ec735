"Any output becomes a tree over its words, F1 is EVALB's, a parser and `tnb-parse` give a tree for every sentence."
import random
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from conftest import BIN, tnb
from hypothesis import given, settings, strategies as st

from transformer_nb import cli
from transformer_nb.core import InputError
from transformer_nb.data.tokenizer import TokenizerLike
from transformer_nb.english_german.grammar import builtin_corpus
from transformer_nb.experiments.parsing import (
    DEPTH, Parse, Parser, Tree, TreeSearch, TreesOnly, choose, f1, leaves, linearise, load_trees, plain, read_trees,
    repair, shape, silver, spell, tokens_of, train_parser, tree_tokenizer, words_of)
from transformer_nb.transformer import Transformer

LABELS = ['S', 'NP', 'VP', 'PP', 'PRT', 'ADVP', 'TOP']
TAGS = ['NN', 'VB', 'RP', 'DT', ',', '.', ':', '``', "''"]
FAST = settings(max_examples=150, deadline=None)


def random_tree(rng, words):
    "A tree over words, with unary chains."
    if len(words) == 1: node = Tree(rng.choice(TAGS), words[0])
    else:
        cuts = [0, *sorted(rng.sample(range(1, len(words)), rng.randint(1, min(3, len(words) - 1)))), len(words)]
        node = Tree(rng.choice(LABELS), tuple(random_tree(rng, words[i:j]) for i, j in zip(cuts, cuts[1:])))
    while rng.random() < .3: node = Tree(rng.choice(LABELS), (node,))
    return node


def random_pairs(n, seed=0):
    rng = random.Random(seed)
    for _ in range(n):
        words = [f'w{i}' for i in range(rng.randint(1, 15))]
        yield random_tree(rng, words), random_tree(rng, words)


# A second implementation: character by character, arrays, one bracket ticked off after the other, as EVALB does it

def read_line(line, punctuation):
    "Brackets [label, start, end]; `punctuation`: numbers of the words that do not count."
    brackets, open_, i, word, n = [], [], 0, 0, 0
    while i < len(line):
        if line[i] == '(':
            end = i + 1
            while line[end] not in ' ()': end += 1
            label, after = line[i + 1:end], end
            if line[after] == ' ' and line[after + 1] != '(':         # a word stands here
                n += word not in punctuation
                word += 1
                i = line.index(')', after)
            else:
                brackets.append([label, n, None])
                open_.append(brackets[-1])
                i = after - 1
        elif line[i] == ')': open_.pop()[2] = n
        i += 1
    assert not open_
    return brackets


def evalb(gold, found):
    "Matched brackets, those of gold, those found."
    tags = [leaf.label for leaf in leaves(gold)]
    punctuation = {i for i, tag in enumerate(tags) if tag in [',', ':', '``', "''", '.']}
    sides = [[b for b in read_line(str(t), punctuation) if b[1] != b[2] and b[0] != 'TOP'] for t in (gold, found)]
    ticked = [False]*len(sides[1])
    alike = lambda a, b: a == b or {a, b} == {'ADVP', 'PRT'}
    for label, start, end in sides[0]:
        for j, (other, *span) in enumerate(sides[1]):
            if not ticked[j] and span == [start, end] and alike(label, other):
                ticked[j] = True
                break
    return sum(ticked), len(sides[0]), len(sides[1])


def evalb_errs(gold, found):
    "Does EVALB leave this pair out? It removes what each tree by itself calls punctuation; the words must be the same."
    kept = [[i for i, leaf in enumerate(leaves(t)) if leaf.label not in [',', ':', '``', "''", '.']]
            for t in (gold, found)]
    return kept[0] != kept[1]


def retagged(tree, tags):
    "The tree with other tags."
    if isinstance(tree.kids, str): return Tree(next(tags), tree.kids)
    return Tree(tree.label, tuple(retagged(kid, tags) for kid in tree.kids))


def percent(a, b): return round(100*a/max(1, b), 2)


def test_f1_agrees_with_a_second_implementation_on_1000_pairs():
    total, pairs = [0, 0, 0], list(random_pairs(1000))
    for gold, found in pairs:
        matched, right, given_ = evalb(gold, found)
        score = f1([gold], [found])
        assert (score['precision'], score['recall'], score['f1']) == (
            percent(matched, given_), percent(matched, right), percent(2 * matched, right + given_))
        total = [a + b for a, b in zip(total, (matched, right, given_))]
    score = f1(*map(list, zip(*pairs)))
    assert score['f1'] == percent(2*total[0], total[1] + total[2]) and 5 < score['f1'] < 60


def test_where_evalb_counts_a_pair_each_tree_may_say_what_punctuation_is():
    "Gold's tags and the found tree's own lead to the same brackets, unless EVALB leaves the pair out."
    rng, counted = random.Random(3), 0
    for gold, found in random_pairs(600, seed=7):
        tags = [leaf.label for leaf in leaves(gold)]
        if rng.random() < .5: tags[rng.randrange(len(tags))] = rng.choice(TAGS)  # the parser's own mistake
        found = retagged(found, iter(tags))
        if evalb_errs(gold, found): continue
        counted += 1
        own = {i for i, tag in enumerate(tags) if tag in [',', ':', '``', "''", '.']}
        mine = [b for b in read_line(str(found), own) if b[1] != b[2] and b[0] != 'TOP']
        matched, right, given_ = evalb(gold, found)
        assert len(mine) == given_ and f1([gold], [found])['f1'] == percent(2*matched, right + given_)
    assert 300 < counted < 600


@pytest.mark.parametrize('gold, found, precision, recall', [
    # m equal brackets found, n in gold: where m > n precision is n/m, where n > m recall is m/n (README of EVALB, 7.5)
    ('(NP (NP (DT the) (NN man)))', '(NP (NP (NP (NP (DT the) (NN man)))))', 2/4, 1),
    ('(NP (NP (NP (DT the) (NN man))))', '(NP (DT the) (NN man))', 1, 1/3),
    ('(NP (NP (DT the) (NN man)))', '(NP (NP (DT the) (NN man)))', 1, 1),
    # a trace goes, and what holds nothing else goes with it (6.3)
    ('(TOP (S (NP (PRP he)) (VP (VBD reported) (SBAR (-NONE- 0) (S (-NONE- *T*-1)))) (. .)))',
     '(S (NP (PRP he)) (VP (VBD reported)) (. .))', 1, 1),
    # function tags behind - and = are no part of a label (7.2)
    ('(S (NP-SBJ=2 (PRP he)) (VP-3 (VBD left)))', '(S (NP (PRP he)) (VP (VBD left)))', 1, 1),
    # ADVP and PRT are one label (6.6), TOP is none (6.2), and a tag is no bracket
    ('(TOP (S (VP (VB go) (PRT (RP on)))))', '(S (VP (VB go) (ADVP (RB on))))', 1, 1)])
def test_examples_of_evalbs_readme(gold, found, precision, recall):
    score = f1(*([plain(t) for t in read_trees(text)] for text in (gold, found)))
    assert (score['precision'], score['recall']) == (round(100*precision, 2), round(100*recall, 2))


def test_f1_agrees_with_nltk_spans():
    "NLTK's trees, where it is installed: brackets from its tree positions."
    nltk = pytest.importorskip('nltk')
    from collections import Counter
    for gold, found in random_pairs(300, seed=5):
        counts = [leaf.label not in (',', ':', '``', "''", '.') for leaf in leaves(gold)]
        sides = []
        for t in map(nltk.Tree.fromstring, map(str, (gold, found))):
            spans, words = Counter(), t.treepositions('leaves')
            for place in t.treepositions():
                if isinstance(t[place], str) or t[place].height() <= 2 or t[place].label() == 'TOP': continue
                inside = [i for i, word in enumerate(words) if word[:len(place)] == place and counts[i]]
                if inside: spans[t[place].label().replace('PRT', 'ADVP'), inside[0], inside[-1]] += 1
            sides.append(spans)
        matched = (sides[0] & sides[1]).total()
        assert f1([gold], [found])['f1'] == percent(2*matched, sides[0].total() + sides[1].total())


@pytest.mark.parametrize('gold, found, matched, n_gold, n_found', [
    ('(S (NP (DT a) (NN b)) (VP (VB c)))', '(S (NP (DT a) (NN b)) (VP (VB c)))', 3, 3, 3),
    ('(S (NP (DT a) (NN b)) (VP (VB c)))', '(S (DT a) (VP (NN b) (VB c)))', 1, 3, 2),
    ('(S (NP (NN a) (, ,)) (VP (VB b)) (. .))', '(S (NP (NN a)) (, ,) (VP (VB b) (. .)))',
     3, 3, 3),  # punctuation may hang anywhere
    ('(TOP (S (NP (NN a))))', '(S (NP (NN a)))', 2, 2, 2),  # TOP is nothing
    ('(NP (NP (NN a)))', '(NP (NN a))', 1, 2, 1),  # a chain of equal labels counts
    ('(S (VP (NN a)))', '(VP (S (NN a)))', 2, 2, 2),  # the order in a chain does not
    ('(S (PRT (RP a)) (NN b))', '(S (ADVP (RP a)) (NN b))', 2, 2, 2),
    ('(S (NN a) (X (. .)))', '(S (NN a) (. .))', 1, 1, 1),  # a bracket of punctuation alone
    ('(S (NN a) (. .))', '(S (NP (, a)) (NN .))', 1, 1, 2)])  # gold says what punctuation is
def test_f1_by_hand(gold, found, matched, n_gold, n_found):
    score = f1(read_trees(gold), read_trees(found))
    assert (score['precision'], score['recall'], score['f1']) == (
        percent(matched, n_found), percent(matched, n_gold), percent(2 * matched, n_gold + n_found))


def test_f1_refuses_what_cannot_be_compared():
    a, b = read_trees('(S (NN a)) (S (NN b))')
    with pytest.raises(InputError, match='2 gold trees, but 1'): f1([a, b], [a])
    with pytest.raises(InputError, match='tree 2'): f1([a, a], [a, b])
    with pytest.raises(InputError, match='nothing to score'): f1([], [])


# Trees there and back

@FAST
@given(st.integers(0, 10**6))
def test_text_and_sequence_lead_back_to_the_tree(seed):
    t = next(random_pairs(1, seed))[0]
    assert read_trees(str(t)) == [t]
    if t.label != 'TOP' and not isinstance(t.kids, str): assert repair(linearise(t), words_of(t)) == t


@FAST
@given(
    st.lists(
        st.one_of(st.sampled_from(['(S', '(NP', ')S', ')NP', 'NN', '.', '(', ')', ')(', '(TOP', ')TOP']),
                  st.text(max_size=6))
    ),
    st.lists(st.sampled_from(['a', 'dog', '-LRB-', '。']), max_size=9),
)
def test_any_output_becomes_a_tree_over_the_words(tokens, words):
    t = repair(' '.join(tokens), words)
    assert words_of(t) == words
    if words: assert words_of(*read_trees(str(t))) == words


def test_endless_nesting_does_not_break():
    words = ['a', 'b']
    t = repair('(NP '*5000 + 'NN ' + ')NP '*5000 + 'NN', words)
    assert words_of(t) == words and words_of(*read_trees(str(t))) == words
    assert f1([t], [t])['f1'] == 100
    with pytest.raises(InputError, match=f'more than {DEPTH}'): read_trees('(NP '*5000)


def test_treebank_trees_become_plain():
    line = ('( (S (NP-SBJ=2 (-NONE- *)) (VP (VB go) (ADVP|PRT (RP on)) '
            '(NP-TMP (-LRB- -LRB-) (NN today) (-RRB- -RRB-))) (. .)) )')
    found = '(S (VP (VB go) (ADVP (RP on)) (NP (-LRB- -LRB-) (NN today) (-RRB- -RRB-))) (. .))'
    assert str(plain(*read_trees(line))) == found


def test_a_broken_file_is_told_in_one_line(tmp_path):
    file = tmp_path/'gold.txt'
    for text, line in {'(S (NN a))\n(S (NN a)\n': 2, '(S (NN a))\n\n(S (NN a)))\n': 3, '(S (NN a b))': 1,
                       'a\n': 1}.items():
        file.write_text(text)
        with pytest.raises(InputError, match=f'gold.txt:{line}: ') as e: load_trees(file)
        assert '\n' not in str(e.value)
    file.write_bytes(b'(S (NN \xff))')
    with pytest.raises(InputError, match='not UTF-8'): load_trees(file)
    with pytest.raises(InputError, match='check the path'): load_trees(tmp_path/'none')


# The parser

@pytest.fixture(scope='module')
def trees():
    return {name: [read_trees(e.tree)[0] for e in examples]
            for name, examples in builtin_corpus(n_train=1000, n_val=10, n_test=40, n_unseen=5).items()}


@pytest.fixture(scope='module')
def run(trees, tmp_path_factory):
    "A run of a few steps: it parses badly, but it parses."
    out = tmp_path_factory.mktemp('parser')/'run'
    train_parser(trees['train'], out, steps=12, batch_tokens=512, d_model=32, d_ff=32, h=2, N=2, device='cpu')
    return out


@pytest.fixture
def parser(run): return Parser.from_pretrained(run, 'cpu')


def test_words_and_tokens_are_in_step(trees):
    tokenizer = tree_tokenizer(trees['train'])
    for t in trees['test']:
        words = words_of(t)
        assert len(tokenizer.encode([spell(tokenizer, words)])[0]) == len(words)
        assert tokenizer.decode(tokenizer.encode([linearise(t)])) == [linearise(t)]
    assert spell(tokenizer, ['zzzing']) == '<aing>' and shape('B-2s') == '<0-s>'


def test_any_sentence_gets_a_tree(parser, run):
    sentences = ['a dog runs .', '', 'unheard-of words , (many) ; 犬 \x07 .', 'the '*60]
    found = parser.parse(sentences, beam=2)
    for s, t in zip(sentences, found):
        assert words_of(t) == tokens_of(s)
        if tokens_of(s): assert repair(linearise(t), words_of(t)) == t and t.label != 'TOP'  # nothing is left to repair
        else: assert str(t) == ''
    assert Parser.from_pretrained(run, 'cpu').parse(sentences[:1], beam=2) == found[:1]


def test_brackets_in_a_sentence_are_words(parser):
    assert tokens_of('dogs (and cats) run') == ['dogs', '-LRB-', 'and', 'cats', '-RRB-', 'run']
    line = str(*parser.parse(['dogs (and cats) run'], beam=2))
    assert words_of(*read_trees(line)) == tokens_of('dogs (and cats) run')


def test_well_formed_trees_are_taken_first_and_insisted_on(parser, trees):
    a, b = Parse(trees['test'][0], .5, True), Parse(trees['test'][1], .9, False)
    assert choose([b, a]) is choose([a, b]) is a and choose([b, b]) is b
    sentences = [' '.join(words_of(t)) for t in trees['test'][:3]]
    ranked = parser.hypotheses(sentences, beam=4, n=3)
    assert all(1 <= len(parses) <= 3 for parses in ranked)
    strict = TreesOnly(parser.ready, parser.tokenizer)
    for parses, words in zip(strict.hypotheses(sentences, beam=3), sentences):
        assert parses and all(p.sound and words_of(p.tree) == words.split() for p in parses)
    trusted = Parse(Tree('NN', 'dog'), 1., True)
    first, *rest = parser.insist(sentences, [trusted, *map(choose, ranked[1:])], beam=2)
    assert first is trusted and all(p.sound for p in rest)
    assert parser.insist([], []) == []


def test_what_may_come_next(parser):
    "The table of the lesson, for a sentence of two words."
    tokenizer = parser.tokenizer
    src = torch.tensor([[5, 6, tokenizer.eos_id]])
    search = TreeSearch(tokenizer, parser.model, src, 1, 0., 1)
    pieces = [piece.lstrip('▁') for piece in tokenizer.pieces(range(tokenizer.vocab_size))]
    for said, ends, tags, opens in (('', '', False, True), ('(S', '', True, True), ('(S (NP DT', ')NP', True, True),
                                    ('(S (NP DT NN', ')NP', False, False), ('(S (NP DT NN )NP', ')S', False, False),
                                    ('(S (NP DT NN )NP )S', '</s>', False, False)):
        ids = [pieces.index(token) for token in said.split()]
        allowed = search.allowed(0, [tokenizer.bos_id, *ids])
        assert [pieces[i] for i in allowed.nonzero().flatten() if pieces[i][0] == ')' or i == tokenizer.eos_id] == (
            [ends] if ends else [])
        assert (bool(allowed[pieces.index('DT')]), bool(allowed[pieces.index('(NP')])) == (tags, opens)


def test_output_may_be_300_tokens_longer(parser):
    "A parser that never ends is stopped at input + 300."
    row = parser.encode([spell(parser.tokenizer, ['a', 'dog'])])
    parser.ready.step = NeverEnding(parser.ready.step)
    assert len(parser.search(row, 1, 0., 1)[0][0][1]) == len(row[0]) + 300


class NeverEnding:
    def __init__(self, step): self.step = step

    def __call__(self, *args):
        y = self.step(*args)
        y[..., 2] = float('-inf')
        return y


def test_the_special_ids_are_those_of_model_and_tokenizer(parser, trees):
    "The same parser with its tokens renamed: padding 0 -> 3, begin 1 -> 0, end 2 -> 1, unknown 3 -> 2."
    inner, model = parser.tokenizer, parser.model
    new = torch.tensor([3, 0, 1, 2, *range(4, inner.vocab_size)])
    old = new.argsort()
    class Renamed(TokenizerLike):
        pad_id, bos_id, eos_id, unk_id, vocab_size, model = 3, 0, 1, 2, inner.vocab_size, inner.model
        def encode(self, texts): return [new[ids].tolist() for ids in inner.encode(texts)]
        def decode(self, rows): return inner.decode([old[ids].tolist() for ids in rows])
        def pieces(self, ids): return inner.pieces(old[list(ids)].tolist())
    renamed = Transformer(replace(model.cfg, pad_id=3, bos_id=0, eos_id=1))
    renamed.load_state_dict(model.state_dict())
    renamed.embedding.weight.data = renamed.embedding.weight.data[old]
    sentences = ['zzzing dogs run .', *(' '.join(words_of(t)) for t in trees['test'][:3])]
    for kind in (Parser, TreesOnly):
        ours, other = (kind(m, t).hypotheses(sentences, beam=3, n=2) for m, t in ((model, inner), (renamed, Renamed())))
        assert [[p.tree for p in parses] for parses in ours] == [[p.tree for p in parses] for parses in other]


def test_silver_trees_are_sound(parser, trees):
    sentences = [' '.join(words_of(t)) for t in trees['test']]
    found = silver(parser, sentences, share=.3)
    assert len(found) <= 12
    for t in found: assert ' '.join(words_of(t)) in sentences and t.label != 'TOP'


# The command

def told(err): return len(err.splitlines()) == 1 and err.startswith('tnb-parse: ')


def test_command_gives_a_line_for_a_line(run, parser, tmp_path):
    lines = ['a dog runs .', '', '   ', 'two\u2028halves', 'x\x0by', 'größe (☃) 犬', 'the end .']
    (tmp_path/'in.txt').write_text(''.join(line + '\n' for line in lines), encoding='utf-8')
    status, out, err = tnb('tnb-parse', run, '--beam', 2, '--device', 'cpu', stdin=(tmp_path/'in.txt').read_bytes())
    assert (status, err) == (0, '')
    assert out.decode() == ''.join(f'{t}\n' for t in parser.parse(lines, beam=2))
    assert out.split(b'\n')[1:3] == [b'', b'']
    assert tnb('tnb-parse', run, tmp_path/'in.txt', '--beam', 2, '--device', 'cpu')[1] == out
    assert tnb('tnb-parse', run, '--device', 'cpu')[:2] == (0, b'')


def test_command_answers_a_line_before_the_next_is_given(run):
    with subprocess.Popen([BIN / 'tnb-parse', run, '--beam', '2', '--device', 'cpu'], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as started:
        for line in (b'a dog runs .\n', b'\n', b'the cat sleeps .\n'):  # the test would hang if lines were held back
            started.stdin.write(line)
            started.stdin.flush()
            assert bool(started.stdout.readline().strip()) == bool(line.strip())
        started.stdin.close()
    assert started.returncode == 0


def test_command_on_bad_bytes(run):
    bad = b'a dog .\n\xff\xfe\nthe cat .\n'
    status, out, err = tnb('tnb-parse', run, '--beam', 1, '--device', 'cpu', stdin=bad)
    assert (
        (status, out.count(b'\n')) == (2, 1) and told(err) and 'stdin:2: not UTF-8' in err and '--on-error skip' in err
    )
    status, out, err = tnb('tnb-parse', run, '--beam', 1, '--device', 'cpu', '--on-error', 'skip', stdin=bad)
    assert (status, out.count(b'\n')) == (0, 3) and told(err) and out.split(b'\n')[1] == b''


def test_command_refuses_bad_input_in_one_line(run, small_run, tmp_path, capsys):
    "The command as a function, which saves a dozen starts of Python."
    (tmp_path/'empty').write_text('( (S (-NONE- *)) )\n')
    (tmp_path/'broken').write_text('(S (NN a))\n(S (NN a)\n')
    at = lambda name: str(tmp_path/name)
    for model, options, why in ((small_run, {}, 'train one that parses'), (at('none'), {}, 'none'),
                                (run, dict(file=at('none.txt')), 'check the path'),
                                (run, dict(gold=at('empty')), 'give a file of bracketed trees'),
                                (run, dict(gold=at('broken')), 'broken:2: '),
                                (run, dict(gold=at('x')), 'check the path'),
                                (run, dict(file=at('empty'), beam=0), 'at least 1'),
                                (run, dict(file=at('empty'), alpha=-1.0), 'alpha'),
                                (run, dict(on_error='ignore'), 'choose one of stop, skip')):
        with pytest.raises(InputError) as e: cli.parse(str(model), device='cpu', **options)
        assert '\n' not in str(e.value) and why in str(e.value) and capsys.readouterr().out == '', (options, e.value)


def test_a_parser_is_not_taken_for_a_translator(run):
    for command in (cli.translate, cli.evaluate):
        with pytest.raises(InputError, match='a model that parses; use tnb-parse'): command(str(run), device='cpu')


def test_command_scores_against_gold(run, parser, trees, tmp_path, capsys):
    gold, some = tmp_path/'gold', trees['test'][:4]
    gold.write_text(''.join(f'( {t} )\n' for t in some))
    cli.parse(str(run), gold=str(gold), beam=1, device='cpu')
    score = f1(some, parser.parse([' '.join(words_of(t)) for t in some], beam=1))
    assert dict(re.findall(r'(\S+) (\S+)', capsys.readouterr().out)) == {
        name: str(value) for name, value in score.items()}


def test_help_explains_every_option():
    status, out, _ = tnb('tnb-parse', '-h')
    entries = re.split(r'\n  (?=-)', out.decode().partition('options:')[2])[1:]
    assert status == 0 and len(entries) >= 8
    for entry in entries: assert len(re.split(r'\s{2,}|\n', entry.strip())) > 1, f'no help: {entry}'


@pytest.mark.slow
def test_the_benchmark_remakes_its_results(tmp_path):
    "One command from nothing; here with a few steps."
    script = Path(__file__).parents[1]/'benchmarks'/'parsing.py'
    subprocess.run(
        [sys.executable, script, '--only', 'grammar', '--n-trees', '2000', '--steps', '100', '--runs', tmp_path,
         '--out', tmp_path / 'r.json', '--device', 'cpu'],
        check=True,
    )
    assert '"beams"' in (tmp_path/'r.json').read_text()
