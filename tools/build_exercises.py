"""Write tasks, stubs and solutions from `transformer_nb.course.tasks` into the lessons:
`python tools/build_exercises.py`; with `--check` only say which lessons are not in step.

The task of a *Your turn first* stands at the end of a Markdown cell, from `**01.1 Your turn first` on; its stub in the
code cell with `check('01.1', …)`. The other tasks stand in the lesson's last cell, from `## Exercises` on."""
import sys
from pathlib import Path

from notebooks import read, text_of, written

from transformer_nb.course.exercises import begin, exercises, find, is_first, markdown

NBS = Path(__file__).parents[1] / 'nbs'


def the_cell(cells, kind, text):
    "The one cell of that kind that has this text."
    found = [c for c in cells if c['cell_type'] == kind and text in text_of(c)]
    if len(found) != 1: raise SystemExit(f'{text!r} stands in {len(found)} {kind} cells, not in one')
    return found[0]


def replace_end(cells, start, text):
    "In the one Markdown cell that has this text, everything from there on becomes the new text."
    cell = the_cell(cells, 'markdown', start)
    cell['source'] = (text_of(cell).split(start)[0] + text).splitlines(True)


def rewrite(cells, tasks):
    "All exercises of a lesson, in its cells."
    for e in filter(is_first, tasks):
        replace_end(cells, f'**{e.id} Your turn first', markdown(e))
        the_cell(cells, 'code', f"check('{e.id}',")['source'] = begin(e).splitlines(True)  # stub and question
    last = [e for e in tasks if not is_first(e)]
    how = f"Compare your answer with `check`, for example `check('{last[0].id}', ...)`."
    replace_end(cells, '## Exercises\n', '\n\n'.join(['## Exercises', how, *map(markdown, last)]))


def main():
    stale = []
    for lesson in dict.fromkeys(e.lesson for e in exercises()):
        path, = NBS.glob(f'{lesson}_*.ipynb')
        nb = read(path)
        rewrite(nb['cells'], [find(e.id) for e in exercises(lesson)])
        after = written(nb)
        if after == path.read_text(encoding='utf-8'): continue
        stale.append(path.name)
        if '--check' not in sys.argv: path.write_text(after, encoding='utf-8')
    if stale and '--check' in sys.argv: raise SystemExit(f"run tools/build_exercises.py for {', '.join(stale)}")


if __name__ == '__main__': main()
