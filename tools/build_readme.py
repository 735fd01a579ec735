"""Make README.md from nbs/index.ipynb: `python tools/build_readme.py`. With `--check`, only say whether it is up to date."""
import re
import sys
from pathlib import Path

from fastcore.nbio import read_nb
from nbdev.config import get_config

CODE = re.compile(r"(^```.*?^```[ \t]*$)", re.S | re.M)
HIDDEN = re.compile(r"^#\| *(hide|default_exp|export)\b", re.M)
CALLOUT = re.compile(r"^:::+ *\{\.callout-(\w+)[^}]*\}\n(.*?)^:::+$", re.S | re.M)


def fence(text, language=""):
    "A fenced block of Markdown."
    return f"```{language}\n{text.rstrip()}\n```"


def output_text(out):
    "The text of one saved output; pictures have no place in the README."
    if out["output_type"] == "error":
        raise ValueError("index.ipynb holds a traceback: run it again")
    text = out["text"] if out["output_type"] == "stream" else out["data"].get("text/plain", "")
    return "".join(text)


def code_cell(cell):
    "A code cell and its outputs, as fenced blocks."
    outputs = "\n".join(text.rstrip() for o in cell.outputs if (text := output_text(o)))
    source = re.sub(r"\A(?:#\|.*\n?)+", "", cell.source)
    return fence(source, "python") + (f"\n\n{fence(outputs, 'text')}" if outputs else "")


def callout(m):
    "A Quarto callout as GitHub writes it."
    return "\n".join(f"> {line}".rstrip() for line in [f"[!{m[1].upper()}]", *m[2].strip().splitlines()])


def repo_links(text, nbs):
    "Links between notebooks, as seen from the top of the repository."
    return re.sub(r"\]\((?!https?:|#)([\w./-]+\.ipynb)", rf"]({nbs}/\1", text)


def markdown_cell(cell, nbs):
    "A Markdown cell, with links that work from the README."
    parts = CODE.split(CALLOUT.sub(callout, cell.source.strip()))
    return "".join(part if i % 2 else repo_links(part, nbs) for i, part in enumerate(parts))


def readme(
    path: Path,  # The notebook
) -> str:  # The README's text
    "Write a notebook as Markdown for GitHub."
    shown = [c for c in read_nb(path).cells if c.source.strip() and not HIDDEN.search(c.source)]
    cells = [code_cell(c) if c.cell_type == "code" else markdown_cell(c, path.parent.name) for c in shown]
    note = f"<!-- Made from {path.parent.name}/{path.name} by tools/build_readme.py: edit the notebook. -->"
    return "\n\n".join([note, *cells]) + "\n"


def main(
    check: bool,  # Only compare?
):
    "Write README.md, or fail if it is not what the notebook says."
    cfg = get_config()
    path, text = cfg.config_path / "README.md", readme(cfg.nbs_path / cfg.readme_nb)
    if not check:
        path.write_text(text)
    elif not path.exists() or path.read_text() != text:
        sys.exit("README.md is out of date: run python tools/build_readme.py")


if __name__ == "__main__":
    main("--check" in sys.argv[1:])
