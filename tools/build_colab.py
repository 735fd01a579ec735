"""Give every lesson the lines that it needs in Colab, where a notebook comes alone: `python tools/build_colab.py`; with
`--check` only say which are not in step.

They stand in a cell that is not on the site, before the first import of the package; outside Colab they do nothing."""
import re
import sys
from pathlib import Path

from nbdev.config import get_config

from notebooks import GROUND, read, text_of, written

NBS = Path(__file__).parents[1] / "nbs"
URL = get_config(NBS).git_url
FOLDERS = [f"{folder}/*.ipynb" for folder in (
    "data", "parts", "train", "decode", "interop", "experiments", "english_german")]
LESSONS = "[0-9]*.ipynb", *GROUND, *FOLDERS
LINES = """import os, sys
if 'google.colab' in sys.modules:   # which has neither the package nor the files that the lessons read
    os.system('git clone --depth 1 {url} && pip install -q ./transformer_nb')
    os.chdir('/content/transformer_nb/{folder}')
"""
OLD = re.compile(r"import os(?:, |\nimport )sys\nif 'google\.colab' in .*?^    os\.chdir\(.*?\)\n*", re.M | re.S)
DIRECTIVES = re.compile(r"\A(?:#\|.*\n?)*")
PACKAGE = re.compile(r"^(?:from|import) transformer_nb\b", re.M)


def in_step(nb, folder):
    "The notebook of this folder with the lines, in place of those that it has."
    cells = nb["cells"]
    code = [i for i, cell in enumerate(cells) if cell["cell_type"] == "code"]
    first = next((i for i in code if PACKAGE.search(text_of(cells[i]))), code[0])
    place = next((i for i in code if i <= first and is_hidden(text_of(cells[i]))), None)
    if place is None:
        raise ValueError("has no hidden cell before its first import of the package")
    source = with_lines(OLD.sub("", text_of(cells[place])), LINES.format(url=URL, folder=folder))
    return nb | {"cells": [*cells[:place], cells[place] | {"source": source}, *cells[place + 1:]]}


def is_hidden(source):
    "Whether a cell is neither on the site nor in the package; one that only names the module can do it, too."
    directives = DIRECTIVES.match(source)[0].split("\n")
    is_kept = any(directive.startswith("#| export") for directive in directives)
    return not is_kept and ("#| hide" in directives or source.strip() == directives[0])


def with_lines(source, lines):
    "The lines below a cell's directives, and above what else it does."
    directives = DIRECTIVES.match(source)[0].rstrip().split("\n")
    rest = source[DIRECTIVES.match(source).end():].strip("\n")
    hide = [] if "#| hide" in directives else ["#| hide"]
    return "\n".join([*directives, *hide, lines, rest]).rstrip().splitlines(True)


def main():
    behind = []
    for path in sorted(path for pattern in LESSONS for path in NBS.glob(pattern)):
        text = written(in_step(read(path), path.parent.relative_to(NBS.parent).as_posix()))
        if text != path.read_text(encoding="utf-8"):
            behind.append(path.relative_to(NBS.parent).as_posix())
            if "--check" not in sys.argv:
                path.write_text(text, encoding="utf-8")
    print(*behind, sep="\n", end="\n" if behind else "")
    if "--check" in sys.argv and behind:
        sys.exit("run tools/build_colab.py")


if __name__ == "__main__":
    main()
