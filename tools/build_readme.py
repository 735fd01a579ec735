"""Make README.md from nbs/index.ipynb: `python tools/build_readme.py`.

With `--check`, only say whether it is up to date."""

import posixpath
import re
import sys
from pathlib import Path

from fastcore.nbio import read_nb
from nbdev.config import get_config

CODE = re.compile(r"(^```.*?^```[ \t]*$)", re.S | re.M)
HIDDEN = re.compile(r"^#\| *(hide|default_exp|export)\b", re.M)
RELATIVE = re.compile(r"(!\[[^\]]*)?\]\((?![a-z][a-z\d+.-]*:|/|#)([^\s)]+)")


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


def repo_links(text, nbs, source):
    "Links to files, which are relative to the notebook, in full: they work on a package index too, and so do pictures."

    def in_full(m):
        where = source.replace("/blob/", "/raw/") if m[1] else source
        return f"{m[1] or ''}]({where}/{posixpath.normpath(f'{nbs}/{m[2]}')}"

    return RELATIVE.sub(in_full, text)


def markdown_cell(cell, nbs, source):
    "A Markdown cell, with links that work wherever the README is shown."
    parts = CODE.split(cell.source.strip())
    return "".join(part if i % 2 else repo_links(part, nbs, source) for i, part in enumerate(parts))


def readme(
    path: Path,    # The notebook
    source: str,   # Where the repository's files can be read, such as https://host/project/blob/main
) -> str:  # The README's text
    "Write a notebook as Markdown for GitHub and a package index."
    shown = [c for c in read_nb(path).cells if c.source.strip() and not HIDDEN.search(c.source)]
    cells = [code_cell(c) if c.cell_type == "code" else markdown_cell(c, path.parent.name, source) for c in shown]
    note = f"<!-- Made from {path.parent.name}/{path.name} by tools/build_readme.py: edit the notebook. -->"
    return "\n\n".join([note, *cells]) + "\n"


def main(
    check: bool,  # Only compare?
):
    "Write README.md, or fail if it is not what the notebook says."
    cfg = get_config()
    # git_url is Repository in pyproject.toml
    path, source = cfg.config_path / "README.md", f"{cfg.git_url}/blob/{cfg.branch}"
    text = readme(cfg.nbs_path / cfg.readme_nb, source)
    if not check:
        path.write_text(text)
    elif not path.exists() or path.read_text() != text:
        sys.exit("README.md is out of date: run python tools/build_readme.py")


if __name__ == "__main__":
    main("--check" in sys.argv[1:])
