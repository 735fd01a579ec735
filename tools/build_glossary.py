"""Write the glossary's tables in Japanese, Chinese and Korean, each in a fold below the English one:
`python tools/build_glossary.py`; with `--check` only say what is not translated, or not in step.

The English tables of `nbs/glossary.ipynb` have the terms in all languages; `nbs/languages/LANGUAGE/glossary.json` has
the headings of the sections and the definitions, each found by its English text."""
import json
import re
import sys

from build_languages import NAMES, NBS, gaps, missing
from notebooks import read, text_of, written

NOTEBOOK = NBS / 'glossary.ipynb'
MEANING = {'ja': '意味', 'zh': '含义', 'ko': '뜻'}
HEAD = f"| English | {' | '.join(NAMES.values())} | What it means |"
SECTION = re.compile(r'## ([^\n]*)\n\n<details open><summary>English</summary>\n\n'
                     rf'{re.escape(HEAD)}\n\|[-|]*\n(.*?)\n\n</details>', re.S)


def rows_of(table):
    "Term with its link, the term in each language, definition; for each row."
    return [line.strip('| ').split(' | ') for line in table.splitlines()]


def texts_of(language):
    "The translations, by their English."
    return json.loads((NBS / f'languages/{language}/glossary.json').read_text(encoding='utf-8'))


def fold(language, heading, rows):
    "The table of a section in a language; a definition without translation stays in English, with a mark."
    texts = texts_of(language)
    def say(text): return texts.get(text) or missing(language, text)
    lines = [f'| {NAMES[language]} | English | {MEANING[language]} |', '|---|---|---|']
    for term, *names, meaning in rows:
        english, link = re.fullmatch(r'\[(.*)\]\((.*)\)', term).groups()
        name = names[list(NAMES).index(language)]
        lines.append(f'| [{name}]({link}) | {english} | {say(meaning)} |')
    return '\n'.join([f'<details><summary>{NAMES[language]}</summary>', '', f'**{say(heading)}**', '', *lines, '',
                      '</details>'])


def in_step(text):
    "A Markdown cell with the tables of its section, in place of those that it has; other cells stay."
    if not (section := SECTION.match(text)): return text
    folds = [fold(language, section[1], rows_of(section[2])) for language in NAMES]
    return '\n\n'.join([section[0], *folds])


def sections():
    "Headings and rows of the English tables."
    found = [SECTION.match(text_of(cell)) for cell in read(NOTEBOOK)['cells']]
    return [(section[1], rows_of(section[2])) for section in found if section]


def faults(language):
    "Texts without translation, and translations without text."
    wanted = [text for heading, rows in sections() for text in (heading, *(row[-1] for row in rows))]
    return gaps(language, wanted, texts_of(language))


def rewritten():
    "The notebook's text with all tables in step."
    nb = read(NOTEBOOK)
    for cell in nb['cells']: cell['source'] = in_step(text_of(cell)).splitlines(True)
    return written(nb)


def main():
    before, after = NOTEBOOK.read_text(encoding='utf-8'), rewritten()
    if '--check' not in sys.argv: NOTEBOOK.write_text(after, encoding='utf-8')
    elif before != after: sys.exit('run tools/build_glossary.py')
    sys.exit('\n'.join(fault for language in NAMES for fault in faults(language)) or None)


if __name__ == '__main__': main()
