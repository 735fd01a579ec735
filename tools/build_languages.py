"""Write the lessons in Japanese, Chinese and Korean, and a page of each language that leads to them:
`python tools/build_languages.py`; with `--check` only say what is not translated, or no longer said in English.

Prose comes from `nbs/languages/LANGUAGE/LESSON.json`; the exercises of all lessons, captions, what the paper says and
the words of scripts from `transformer_nb/assets/languages/LANGUAGE/LESSON.json`. A translation is found by its English
text, that of an exercise's text by its id (`01.2/hint/1`), with the English beside it that was translated. What is not
translated as it stands today is English, with a mark. Code and outputs are those of the English notebook, but for the
words of widgets. The notebooks are made before they are read (`make lab`, `make docs`), not committed."""
import ast
import html
import json
import re
import sys
from functools import cache
from pathlib import Path

from notebooks import made, read, text_of, written
from site_words import SITE_LIBS, said_in, titles_in

from transformer_nb.course.exercises import (
    choices, exercise_translations, exercises, find, fold, is_first, solution_text, translations)
from transformer_nb.course.widgets import DIVISORS, WIDGETS, Widget, mask_data
from transformer_nb.course.viewer import TITLES as MAPS

ROOT = Path(__file__).parents[1]
NBS = ROOT / 'nbs'
COURSE = ROOT / 'transformer_nb/course'
LESSONS = ('00', '01', '02', '03', '04', '05', '06', '06a')
NAMES = {'ja': '日本語', 'zh': '中文', 'ko': '한국어'}
SUBTITLE = "The first lessons whole, the others in short"
INTRODUCTION = (
    "The first lessons, up to the model whole, are in this language: text, figures and exercises. The others are in "
    "English, each with the summary that stands here. `check`, `hint`, `task` (what an exercise asks) and `solution` "
    "answer in this language, for the exercises of all lessons, after:",
)
THE_OTHERS = "The other lessons, in short"
PAPER_SAYS, EXERCISES, HINT, SOLUTION = 'What the paper says', 'Exercises', 'Hint {n}', 'Solution'
FIRST, ABOUT = 'Your turn first: ', ' ({kind}, level {level}, {minutes} minutes)'
COMPARE = 'Compare your answer with `check`, for example {call}.'
KINDS = ('write', 'predict', 'find the bug', 'explain')
PAPER_HEAD = r'^(?:## What the paper says\n+|\*\*What the paper says \(.*?\)\.\*\* )'
PAPER = re.compile(PAPER_HEAD + r'(.*?)(?=^## |\Z)', re.M | re.S)
CAPTION = re.compile(r'^(#\| fig-(?:cap|alt): )(.*)$', re.M)
AS_IT_IS = re.compile(r'\$\$.*\$\$.*|\W*', re.S)  # formulas and marks have no language
LABEL = re.compile(r"(?<=\(bar, ')[^']+(?=')|Point at a token,[^'<]*|" + '|'.join(map(re.escape, MAPS.values())))
WIDGET = re.compile(r"data-widget=\"(\w+)\" data-given='(.*?)'", re.S)
TITLES = '|'.join(['In short', *NAMES.values()])
SUMMARY = re.compile(rf'<details><summary>({TITLES})</summary>\n\n(.*?)\n\n</details>\n*', re.S)

LINK = re.compile(r'\]\(([\w./-]*\.ipynb|)(#[^)]*|)\)')
# A Markdown text is what stays (code, formulas, comments, folds, empty lines), marks, and the texts behind them.
STAYS = re.compile(r'```.*?^```|\$\$.*?\$\$[^\n]*|<!--.*?-->|</?details>|\n+', re.M | re.S)
MARK = re.compile(r'#+ |- |\d+\. |> ')
FOLD = re.compile(r'<summary>(.*?)</summary>')
TABLE = re.compile(r'(?:\|.*\n?)+(?<!\n)')
TEXT = re.compile(r'.+(?:\n(?!- |\d+\. |#+ |<|```|\||\$\$|\n).+)*')


# ---- the English texts

@cache
def lesson(number):
    "File name and sources of the cells, by type."
    path, = NBS.glob(f'{number}_*.ipynb')
    cells = read(path)['cells']
    sources = {kind: [text_of(c) for c in cells if c['cell_type'] == kind] for kind in ('markdown', 'code')}
    return path.name, sources


def head_of(sources):
    title, subtitle = sources['markdown'][0].splitlines()[:2]
    return title.removeprefix('# '), subtitle.removeprefix('> ')


def paper_of(sources):
    "Paragraphs and points of a list."
    section, = (found[1] for text in sources['markdown'] if (found := PAPER.search(text)))
    return [re.sub(r'^(?:- |\d+\. )', '', block) for block in re.split(r'\n+', section.strip())]


def listed(text):
    "One caption for each figure; a cell with several has a list of them."
    return json.loads(text) if text.startswith('[') else [text]


def captions_of(sources):
    found = [m for code in sources['code'] for m in CAPTION.findall(code) if 'cap' in m[0]]
    return [caption for _, text in found for caption in listed(text)]


@cache
def spoken():
    "What `check`, `hint`, tasks and widgets say in general words: the texts that are given to `localized`."
    trees = [ast.parse(path.read_text(encoding='utf-8')) for path in sorted(COURSE.rglob('*.py'))]
    calls = (n for tree in trees for n in ast.walk(tree)
             if isinstance(n, ast.Call) and getattr(n.func, 'id', '') == 'localized')
    return [n.args[0].value for n in calls if isinstance(n.args[0], ast.Constant)]


def of_widgets():
    "The words of the widgets and of the viewer: titles, labels, what scripts say, and what data have for them to say."
    masks, divisors = [mask['name'] for mask in mask_data()['presets']], [name for name in DIVISORS if name.isalpha()]
    viewer = LABEL.findall((ROOT / 'transformer_nb/assets/viewer.js').read_text(encoding='utf-8')) + [*MAPS.values()]
    widgets = said_in(ROOT / 'transformer_nb/assets/widgets')
    return [title for title, _ in WIDGETS.values()] + masks + divisors + widgets + viewer


def framed(number):
    "Titles, what the paper says and captions of a lesson that stands whole in the languages."
    _, sources = lesson(number)
    says = [text for text in paper_of(sources) if not AS_IT_IS.fullmatch(text)]
    return [*head_of(sources), *says, *captions_of(sources)]


def lists():
    "The words that `assets/languages` translates, for each of its files, in order, and each only once."
    found = {'general': [SUBTITLE, *INTRODUCTION, THE_OTHERS, PAPER_SAYS, EXERCISES, HINT, SOLUTION, FIRST, ABOUT,
                         COMPARE, *KINDS, *spoken(), *of_widgets(), *said_in(SITE_LIBS)]}
    found |= {lesson(number)[0].removesuffix('.ipynb'): framed(number) for number in LESSONS}
    known = set()
    for file, texts in found.items():
        found[file] = [text for text in dict.fromkeys(texts) if text not in known]
        known.update(found[file])
    return found


def english():
    "All these words."
    return [text for texts in lists().values() for text in texts]


def pieces(text):
    "A Markdown text as pairs of what stays as it is and what is to be translated; together they are the text."
    at = 0
    while at < len(text):
        if m := STAYS.match(text, at): yield m[0], ''
        elif m := FOLD.match(text, at):
            yield '<summary>', m[1]
            yield '</summary>', ''
        elif m := TABLE.match(text, at): yield '', m[0]
        elif m := MARK.match(text, at):
            line = re.compile(r'.*').match(text, m.end())
            yield m[0], line[0]
            m = line
        else:
            m = TEXT.match(text, at)
            yield '', m[0]
        at = m.end()


def prose(number):
    "The texts of a lesson that stand in its own file of translations, in order."
    known, (_, sources) = set(english()), lesson(number)
    texts = [text for cell in sources['markdown'][1:] for _, text in pieces(own(number, SUMMARY.sub('', cell)))]
    texts += [alt for code in sources['code'] for m in CAPTION.findall(code) for alt in listed(m[1])]
    return [text for text in dict.fromkeys(texts) if has_words(text) and text not in known]


def has_words(text): return re.search('[A-Za-z]{2}', text)  # not only formulas and numbers


@cache
def tasks(number): return [find(entry.id) for entry in exercises(number)]


def own(number, cell):
    "A Markdown cell without the exercises in it."
    ends = ['## Exercises\n', *(f'**{e.id} Your turn first' for e in tasks(number))]
    return re.split('|'.join(map(re.escape, ends)), cell)[0]


# ---- in another language

def summary_in(language, text):
    "The folded summary of a lesson, without the link to the whole lesson; None: it is not in this text."
    found = dict(SUMMARY.findall(text)).get(NAMES[language])
    return found and found.split('\n\n[')[0]


MISSING = {'ja': '（未訳）', 'zh': '（未译）', 'ko': '(미번역)'}


def missing(language, text): return f'{MISSING[language]} {text}'


def file_of(language, number):
    "The translations of a lesson's prose."
    return NBS / f'languages/{language}/{lesson(number)[0]}'.replace('.ipynb', '.json')


def texts_of(language, number):
    file = file_of(language, number)
    return json.loads(file.read_text(encoding='utf-8')) if file.exists() else {}


@cache
def anchors(language):
    "For the lessons that are translated, by name: the English anchor of a heading to that in the language."
    found, common = {}, translations(language)
    for number in LESSONS:
        name, sources = lesson(number)
        table = common | texts_of(language, number)
        heads = re.findall(r'^#{2,} (.*)$', '\n'.join(sources['markdown']), re.M)
        said = {head: table.get(head) or missing(language, head) for head in heads}
        found[name] = {anchor(head): anchor(text) for head, text in said.items()}
    return found


def anchor(heading):
    "As Jupyter makes it, but without brackets, which would end a link."
    return re.sub(r'[`*$()]', '', heading).replace(' ', '-')


class Speaker:
    "Puts the cells of a lesson into a language."
    def __init__(self, language, number):
        self.language, self.number = language, number
        self.name, _ = lesson(number)
        self.table, self.anchors = translations(language) | texts_of(language, number), anchors(language)

    def say(self, text):
        "A text of the lesson; in English with a mark if need be."
        return self.linked(self.table.get(text) or self.english(text))

    def say_of(self, e, name):
        "A text of an exercise, likewise."
        return self.linked(e.translated(name, self.language) or self.english(e.texts()[name]))

    def english(self, text): return missing(self.language, text) if has_words(text) else text

    def linked(self, text):
        "A text with its links as they are in the folder of the language."
        return LINK.sub(self.link, text)

    def link(self, m):
        "A link to a lesson of this language leads to it, others to the English one."
        name, place = m[1] or self.name, m[2].removeprefix('#')
        if name not in self.anchors: return f'](../../{m[1]}{m[2]})' if m[1] else m[0]
        place = self.anchors[name].get(place, place)
        return f"]({m[1]}{'#' + place if place else ''})"

    def text(self, text): return ''.join(stays + (self.say(part) if part else '') for stays, part in pieces(text))

    def exercise(self, e):
        "One exercise as Markdown: task, hints and, unless the next cells show it, the solution."
        title, task = self.say_of(e, 'title'), self.say_of(e, 'task')
        options = {letter: self.say_of(e, f'option/{letter}') for letter in getattr(e, 'options', {})}
        hints = [self.say_of(e, f'hint/{n}') for n in range(1, len(e.hints) + 1)]
        about = self.say(ABOUT).format(kind=self.say(e.kind), level=e.level, minutes=e.minutes)
        first = self.say(FIRST) if is_first(e) else ''
        lines = [f'**{e.id} {first}{title}**{about}', task]
        if options: lines.append(choices(options).strip())
        lines += [fold(self.say(HINT).format(n=n), hint) for n, hint in enumerate(hints, 1)]
        words = self.say_of(e, 'solution') if e.solution else ''
        if not is_first(e): lines.append(fold(self.say(SOLUTION), solution_text(e, words)))
        return '\n\n'.join(lines)

    def markdown(self, cell):
        "The cells that one becomes: the summary is that of the language alone, exercises are put in."
        summary, cell = summary_in(self.language, cell), SUMMARY.sub('', cell)
        texts, rest = [self.text(own(self.number, cell)).strip()], cell[len(own(self.number, cell)):]
        ours = [e for e in tasks(self.number) if rest.startswith(f'**{e.id} ')]
        if rest.startswith('## Exercises'):
            ours = [e for e in tasks(self.number) if not is_first(e)]
            how = self.say(COMPARE).format(call=f"`check('{ours[0].id}', ...)`")
            texts += [f'## {self.say(EXERCISES)}\n\n{how}']
        return list(filter(None, [*texts, summary])) + [self.exercise(e) for e in ours]

    def code(self, cell):
        "The same code with its captions translated; it goes into no module, and a question has no answer yet."
        def caption(m):
            said = [self.say(text) for text in listed(m[2])]
            if not m[2].startswith('['): said, = said
            if isinstance(said, str) and ': ' not in said: return m[1] + said
            return m[1] + json.dumps(said, ensure_ascii=False)  # YAML would take what stands before `: ` for a key
        text = CAPTION.sub(caption, text_of(cell))
        text = re.sub(r'^#\| default_exp.*', '#| hide', text, flags=re.M)  # as on the pages of English lessons
        text = re.sub(r'^#\| export.*\n', '', text, flags=re.M)
        outputs = [] if re.search(r"^check\('", text, re.M) else [self.output(out) for out in cell['outputs']]
        return cell | {'source': text.splitlines(True), 'outputs': outputs}

    def output(self, out):
        "The same, but for the links of a table and the words of a widget."
        data = out.get('data', {})
        new = {kind: change(''.join(data[kind])).splitlines(True) for kind, change in (
            ('text/markdown', lambda text: LINK.sub(self.link, text)), ('text/html', self.widget)) if kind in data}
        return out | {'data': data | new} if new else out

    def widget(self, page):
        "A widget with the same data; a viewer with its labels and its first line; other HTML as it is."
        found = WIDGET.search(page)
        if not found: return LABEL.sub(lambda m: self.table.get(m[0], m[0]), page)
        return Widget(found[1], WIDGETS[found[1]][0], json.loads(html.unescape(found[2])), self.language).html


def head(language, number):
    "Title, subtitle, and the way to the page of the language and to the same lesson in others."
    name, sources = lesson(number)
    title, subtitle = map(translations(language).get, head_of(sources))
    others = [f'[{NAMES[other]}](../{other}/{name})' for other in NAMES if other != language]
    links = [f'[{NAMES[language]}](../{language}.ipynb)', f'[English](../../{name})', *others]
    return f"# {title}\n> {subtitle}", ' · '.join(links)


def onward(language, number):
    "The way to the next lesson, for the end; to the page of the language after the last one."
    later = LESSONS[LESSONS.index(number) + 1:]
    if not later: return f'→ [{NAMES[language]}](../{language}.ipynb)'
    name, sources = lesson(later[0])
    return f'→ [{later[0]} {translations(language)[head_of(sources)[0]]}]({name})'


SETUP = """#| hide
# `check` and `hint` answer in {language}; files are named from the folder of the English lessons
os.environ['TNB_LANG'] = '{language}'
if not os.path.exists('sidebar.yml'): os.chdir('../..')"""


def notebook(language, number):
    "A lesson in a language, as the text of a notebook."
    speaker, (name, _) = Speaker(language, number), lesson(number)
    cells = []
    for cell in read(NBS / name)['cells'][1:]:
        if cell['cell_type'] == 'code': cells.append(speaker.code(cell))
        else: cells += [text_cell(text, f"{cell['id']}-{n}") for n, text in enumerate(speaker.markdown(text_of(cell)))]
    imports = next(i for i, cell in enumerate(cells) if cell['cell_type'] == 'code' and 'google.colab' in text_of(cell))
    setup = text_cell(SETUP.format(language=language), 'language') | {'cell_type': 'code', 'outputs': []}
    cells.insert(imports + 1, setup | {'execution_count': None})
    front = [text_cell(text, f'front-{n}') for n, text in enumerate(head(language, number))]
    return written(made([*front, *cells, text_cell(onward(language, number), 'onward')]))


def text_cell(text, id): return {'cell_type': 'markdown', 'id': id, 'metadata': {}, 'source': text.splitlines(True)}


def page(language):
    "The page of a language: its lessons, and the others in short."
    table = translations(language)
    def say(text): return table.get(text, text)
    texts = [f'# {NAMES[language]}\n> {say(SUBTITLE)}', f'{say(INTRODUCTION[0])}\n\n```\n%env TNB_LANG={language}\n```']
    for path in sorted(NBS.glob('[0-9]*_*.ipynb')):
        cells = [text_of(c) for c in read(path)['cells'] if c['cell_type'] == 'markdown']
        number, (title, subtitle) = path.name.partition('_')[0], head_of({'markdown': cells})
        summary = summary_in(language, '\n'.join(cells))
        summary = LINK.sub(lambda m: f'](../{m[1] or path.name}{m[2]})', summary)
        here = titles_in(NBS).get(path.name, {}).get(language, title)  # as the sidebar has it
        if number not in LESSONS: texts.append(f'### [{number} {here}](../{path.name})\n\n{summary}')
        else: texts.append(f'## [{number} {say(title)}]({language}/{path.name})\n\n{say(subtitle)}\n\n{summary}')
    texts.insert(2 + len(LESSONS), f'## {say(THE_OTHERS)}')
    return written(made([text_cell(text, f'{i:08x}') for i, text in enumerate(texts)]))


def gaps(where, wanted, table):
    "Texts without translation, and translations of texts that are no more."
    found = [f'{where}: not translated: {text}' for text in wanted if text not in table]
    return found + [f'{where}: its English is gone: {text}' for text in table if text not in wanted]


def faults(language):
    "Of the general words, which may not wait."
    return gaps(language, english(), translations(language))


def waiting(language):
    "Texts of exercises that are not translated as they stand today, and translations of what is no more."
    texts = {f'{e.id}/{name}': text for e in exercises() for name, text in find(e.id).texts().items()}
    known = exercise_translations(language)
    fresh = [id for id, text in texts.items() if id not in known and has_words(text)]
    changed = [id for id in known if id in texts and known[id]['en'] != texts[id]]
    return ([f'{language}/{id}: not translated: {texts[id]}' for id in fresh]
            + [f'{language}/{id}: its English is now: {texts[id]}' for id in changed]
            + [f'{language}/{id}: is no more' for id in known if id not in texts])


def stale(language, number):
    "Of a lesson's prose, which may wait."
    return gaps(f'{language}/{number}', prose(number), texts_of(language, number))


def main():
    if '--check' in sys.argv:
        lines = [line for language in NAMES for number in LESSONS for line in stale(language, number)]
        lines += [line for language in NAMES for line in waiting(language)]
        print(*lines, sep='\n', end='\n' if lines else '')
        sys.exit('\n'.join(fault for language in NAMES for fault in faults(language)) or None)
    for language in NAMES:
        (NBS / 'languages' / language).mkdir(parents=True, exist_ok=True)
        (NBS / f'languages/{language}.ipynb').write_text(page(language), encoding='utf-8')
        for number in LESSONS:
            file = file_of(language, number).with_suffix('.ipynb')
            file.write_text(notebook(language, number), encoding='utf-8')


if __name__ == '__main__': main()
