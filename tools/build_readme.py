"""Make README.md from nbs/index.ipynb, as smalldocs writes a page as Markdown: `python tools/build_readme.py`.

With `--check`, only say whether it is up to date."""

import json
import posixpath
import re
import sys

from nbdev.config import get_config
from notebooks import read, text_of
from smalldocs import llms

HIDDEN = re.compile(r"^#\| *(hide|default_exp|export)\b", re.M)
ELSEWHERE = re.compile(r"[a-z][a-z\d+.-]*:|/|#")


def in_full(link, folder, source):
    "A link from a folder of the repository, whose files can be read at `source`: it works on a package index, too."
    if ELSEWHERE.match(link):
        return link
    where = source.replace("/blob/", "/raw/") if link.endswith(".png") else source
    return f"{where}/{posixpath.normpath(f'{folder}/{link}')}"


def readme(path, source):
    "A notebook as Markdown for GitHub and a package index."
    nb = read(path)
    cells = [cell for cell in nb["cells"] if text_of(cell).strip() and not HIDDEN.search(text_of(cell))]
    if any(out["output_type"] == "error" for cell in cells for out in cell.get("outputs", [])):
        raise ValueError(f"{path.name} holds a traceback: run it again")
    prose = llms.Prose(lambda link: in_full(link, path.parent.name, source), {})
    text, _ = llms.notebook(json.dumps(nb | {"cells": cells}), {}, "", prose, str)
    return f"<!-- Made from {path.parent.name}/{path.name} by tools/build_readme.py: edit the notebook. -->\n\n{text}\n"


def main(check):
    "Write README.md; with `check` fail if it is not what the notebook says."
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
