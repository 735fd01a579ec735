"""Write the pages in Japanese, Chinese and Korean from their translations: `python tools/build_languages.py`;
with `--check` only say what is not in step.

A translation is found by its English text in `transformer_nb/assets/languages/LANGUAGE.json`. The English comes from
the lessons (what the paper says, captions), from the exercises (tasks, hints, diagnoses) and from what `check` says."""
import ast
import json
import re
import sys
from functools import cache
from pathlib import Path

from notebooks import made, read, text_of, written

from transformer_nb.course.exercises import Value, choices, diagnosis, exercises, find, flowing, fold, translations

ROOT = Path(__file__).parents[1]
NBS = ROOT / 'nbs'
LESSONS = ('00', '01', '02', '03', '04', '05', '06', '06a')
NAMES = {'ja': '日本語', 'zh': '中文', 'ko': '한국어'}
SUBTITLE = "The overview and §3 of the paper in short: what the paper says, the figures, the exercises"
INTRODUCTION = (
    "The lessons themselves are in English, with a summary in four languages at the top of each. This page holds what "
    "one needs beside them: what the paper says, one sentence for each figure, and the exercises with their hints.",
    "`check` and `hint` answer in this language, for the exercises of this page, after:",
)
HEADINGS = ('What the paper says', 'The figures', 'Exercises', 'Hint {n}',
            ' ({kind}, level {level}, {minutes} minutes)')
KINDS = ('write', 'predict', 'find the bug', 'explain')
PAPER_HEAD = r'^(?:## What the paper says\n+|\*\*What the paper says \(.*?\)\.\*\* )'
PAPER = re.compile(PAPER_HEAD + r'(.*?)(?=^## |\Z)', re.M | re.S)
CAPTION = re.compile(r'^#\| fig-cap: (.*)$', re.M)
AS_IT_IS = re.compile(r'\$\$.*\$\$.*|\W*', re.S)  # formulas and marks have no language


@cache
def lesson(number):
    "File name and sources of the cells, by type."
    path, = NBS.glob(f'{number}_*.ipynb')
    cells = read(path)['cells']
    sources = {kind: [text_of(c) for c in cells if c['cell_type'] == kind] for kind in ('markdown', 'code')}
    return path.name, sources


def blocks(text):
    "Paragraphs and points of a list, with what stands before each."
    return [re.fullmatch(r'(- |\d+\. )?(.*)', block, re.S).groups('') for block in re.split(r'\n+', text.strip())]


def head_of(sources):
    title, subtitle = sources['markdown'][0].splitlines()[:2]
    return title.removeprefix('# '), subtitle.removeprefix('> ')


def paper_of(sources):
    section, = (found[1] for text in sources['markdown'] if (found := PAPER.search(text)))
    return blocks(section)


def captions_of(sources):
    "One for each figure; a cell with several has a list of them."
    found = [caption for code in sources['code'] for caption in CAPTION.findall(code)]
    return [caption for text in found for caption in (json.loads(text) if text.startswith('[') else [text])]


def diagnoses(e):
    if issubclass(e, Value): return [text for _, text in e.wrong.values()]
    return [diagnosis(wrong) for wrong in e.mistakes().values()]


def asked(e):
    "Title, task, options and hints of an exercise."
    title, task = e.parts()
    return [title, flowing(task), *getattr(e, 'options', {}).values(), *e.hints]


def spoken():
    "What `check` and `hint` say in general words: the texts that are given to `localized`."
    tree = ast.parse((ROOT / 'transformer_nb/course/exercises.py').read_text(encoding='utf-8'))
    calls = (n for n in ast.walk(tree) if isinstance(n, ast.Call) and getattr(n.func, 'id', '') == 'localized')
    return [n.args[0].value for n in calls if isinstance(n.args[0], ast.Constant)]


def english():
    "All texts to translate, in order, each once."
    texts = [SUBTITLE, *INTRODUCTION, *HEADINGS, *KINDS, *spoken()]
    for number in LESSONS:
        _, sources = lesson(number)
        texts += head_of(sources)
        texts += [text for _, text in paper_of(sources) if not AS_IT_IS.fullmatch(text)]
        texts += captions_of(sources)
        for entry in exercises(number):
            e = find(entry.id)
            texts += asked(e) + diagnoses(e)
    return list(dict.fromkeys(texts))


def exercise_on(entry, say):
    "One exercise as Markdown: task and hints."
    e = find(entry.id)
    title, task, *rest = map(say, asked(e))
    n_hints = len(e.hints)
    options, hints = rest[:len(rest) - n_hints], rest[len(rest) - n_hints:]
    about = say(HEADINGS[4]).format(kind=say(e.kind), level=e.level, minutes=e.minutes)
    lines = [f'**{e.id} {title}**{about}', task]
    if options: lines.append(choices(dict(zip(e.options, options))).strip())
    folds = [fold(say(HEADINGS[3]).format(n=n), hint) for n, hint in enumerate(hints, 1)]
    return '\n\n'.join([*lines, *folds])


def section(number, say):
    "One lesson's part of a page, a list of Markdown cells."
    name, sources = lesson(number)
    title, subtitle = map(say, head_of(sources))
    paper = '\n\n'.join(mark + (text if AS_IT_IS.fullmatch(text) else say(text)) for mark, text in paper_of(sources))
    paper = re.sub(r' \{#eq-.*?\}', '', paper)  # the label is the lesson's
    paper = re.sub(r'\]\((?=#)', f'](../{name}', re.sub(r'\]\((?=\w+\.ipynb)', '](../', paper))
    figures = '\n'.join(f'1. {say(caption)}' for caption in captions_of(sources))
    cells = [f'## [{number} {title}](../{name})\n\n{subtitle}\n\n### {say(HEADINGS[0])}\n\n{paper}']
    if figures: cells.append(f'### {say(HEADINGS[1])}\n\n{figures}')
    if tasks := exercises(number):
        cells += [f'### {say(HEADINGS[2])}', *(exercise_on(entry, say) for entry in tasks)]
    return cells


def page(language):
    "The notebook of a language."
    table = translations(language)
    def say(text): return table.get(text, text)
    first = f'# {NAMES[language]}\n> {say(SUBTITLE)}'
    how = f'{say(INTRODUCTION[0])}\n\n{say(INTRODUCTION[1])}\n\n```\n%env TNB_LANG={language}\n```'
    texts = [first, how, *(cell for number in LESSONS for cell in section(number, say))]
    cells = [{'cell_type': 'markdown', 'id': f'{i:08x}', 'metadata': {}, 'source': text.splitlines(True)}
             for i, text in enumerate(texts)]
    return written(made(cells))


def faults(language):
    "Texts without translation, translations without text, and a page that is not what they give."
    wanted, table, file = english(), translations(language), NBS / f'languages/{language}.ipynb'
    found = [f'{language}: not translated: {text}' for text in wanted if text not in table]
    found += [f'{language}: its English is gone: {text}' for text in table if text not in wanted]
    if not file.exists() or file.read_text(encoding='utf-8') != page(language):
        found.append(f'{language}: run tools/build_languages.py')
    return found


def main():
    if '--check' in sys.argv: sys.exit('\n'.join(fault for language in NAMES for fault in faults(language)) or None)
    (NBS / 'languages').mkdir(exist_ok=True)
    for language in NAMES: (NBS / f'languages/{language}.ipynb').write_text(page(language), encoding='utf-8')


if __name__ == '__main__': main()
