"""Build the site into `_docs/`, without Quarto: nbdev processes the notebooks, a few source rewrites follow, smalldocs
renders the pages. Run in the repository: `python tools/build_docs.py`;
with `--cached`, notebooks that have not changed since the last run are not processed again.
Fails on a double id, a broken link, and on anything a page would load from elsewhere."""
import json
import os
import re
import shutil
import sys
import tempfile
from functools import partial
from importlib import import_module
from pathlib import Path

import nbdev.serve
import yaml
from nbdev.config import get_config
from nbdev.doclinks import _build_modidx
from nbdev.quarto import refresh_quarto_yml
from smalldocs.markdown import split_front_matter
from smalldocs.site import build as render_site

from apidoc import DocFilter
from site_access import add_access
from site_checks import check_parts, check_site
from notebooks import text_of
from site_course import add_blank, add_progress, exercises_of, lesson_pages, mark_course, rewrite_cells
from site_figures import check_figures, lighten
from site_front import add_front, claims_first
from site_meta import add_meta, write_cards
from site_reference import add_reference, add_steps, write_reference
from site_rewrites import (
    TASKS,
    SiteError,
    add_alternates,
    keep_punctuation,
    language_of,
    mark_languages,
    number_of,
    plain_description,
    rewrite_cell,
    rewrite_links,
    source_of,
    tabs_of,
)
from site_math import set_formulas
from site_search import add_search, write_index
from site_slim import bring_styles, slim_page, slim_styles
from site_words import add_scripts, in_their_words, speak_sidebar, write_words

SITE_LIBS = Path(__file__).parent / "site_libs"


# ---- 1. nbdev

def process(cfg, fresh=True):
    "Run nbdev's processors on every notebook; return the folder of processed notebooks."
    refresh_quarto_yml()
    _build_modidx()
    nbdev.serve.FilterDefaults = DocFilter
    many = len([*cfg.nbs_path.rglob("*.ipynb")]) > 20  # a few are done before another process has begun
    return nbdev.serve.proc_nbs(cfg.nbs_path, n_workers=os.cpu_count() if many else 0, force=fresh)


# ---- 2. rewrites of the processed notebooks

def page_names(folder):
    "The page of each processed notebook: `{'parts/02_packing.ipynb': 'parts/packing.ipynb'}`, from its front matter."
    names = {}
    for path in sorted(folder.rglob("*.ipynb")):
        first = json.loads(path.read_text())["cells"][0]
        front = split_front_matter(text_of(first))[0] if first["cell_type"] == "raw" else {}
        page = path.with_name(front.get("output-file", path.name)).with_suffix(".ipynb")
        names[path.relative_to(folder).as_posix()] = page.relative_to(folder).as_posix()
    if len(set(names.values())) < len(names):
        raise SiteError(f"two notebooks would become one page: {sorted(names.values())}")
    return names


def rewrite_front(cell, relink, name):
    "The front matter: without the page's name, with a lesson's number and its language, and with links as everywhere."
    front, body = split_front_matter(text_of(cell))
    if not front:
        return
    front.pop("output-file", None)
    if number := number_of(name):
        front["title"] = f"{number} {front['title']}"
    if lang := language_of(name):
        front["lang"] = lang
    if "description" in front:
        front["description"] = relink(front["description"])
    cell["source"] = f"---\n{yaml.dump(front, allow_unicode=True)}---\n{body}"


def rewrite_notebook(work, name, renamed, doc_url):
    "Rewrite the processed notebook `name` into its page."
    nb = json.loads((work / name).read_text())
    taken = []
    relink = partial(rewrite_links, name=name, renamed=renamed, doc_url=doc_url)
    rewrite_front(nb["cells"][0], relink, name)
    for cell in nb["cells"]:
        rewrite_cell(cell, relink, taken)
    (work / name).unlink()
    (work / renamed[name]).write_text(json.dumps(nb, ensure_ascii=False))


def listed(contents, renamed):
    "The sidebar's entries for notebooks that exist, under their pages' names; sections that stay empty go."
    out = []
    for item in contents:
        if "contents" in item:
            inner = listed(item["contents"], renamed)
            out += [{**item, "contents": inner}] if inner else []
        elif item["href"] in renamed:
            out.append({**item, "href": renamed[item["href"]]})
    return out


def rewrite_config(work, renamed):
    """Keep of the sidebar what exists, and fail for a notebook that it forgets (the lessons of a language stand on that
    language's page)."""
    sidebar = yaml.safe_load((work / "sidebar.yml").read_text())
    bar = sidebar["website"]["sidebar"]
    bar["contents"] = listed(bar["contents"], renamed)
    forgotten = [old for old, new in renamed.items()
                 if not old.startswith("languages/") and json.dumps(new) not in json.dumps(bar["contents"])]
    if forgotten:
        raise SiteError(f"nbs/sidebar.yml does not list {', '.join(forgotten)}")
    (work / "sidebar.yml").write_text(yaml.dump(sidebar, allow_unicode=True, sort_keys=False))


def rewrite(cfg, processed, work, lessons):
    "Copy the processed notebooks to `work` and rewrite them there for smalldocs."
    shutil.copytree(processed, work, ignore=shutil.ignore_patterns(cfg.doc_path.name))
    shutil.rmtree(work / TASKS, ignore_errors=True)  # their answers and hints are not for those who are to find them
    renamed = page_names(work)
    for name in renamed:
        rewrite_cells(work / name, tabs_of, name, renamed)
    if "claims.ipynb" in renamed:
        rewrite_cells(work / "claims.ipynb", claims_first)
    mark_course(work, lessons)
    for name in renamed:
        rewrite_notebook(work, name, renamed, cfg.doc_url)
    rewrite_config(work, renamed)
    return renamed


# ---- 3. pages

def finish_page(path, out, cfg, renamed, lessons):
    "Formulas, languages, keyboard and search, ticks, and 'View source' to the notebook as the repository names it."
    to_root = "../" * (len(path.relative_to(out).parts) - 1)
    html = keep_punctuation(plain_description(mark_languages(path.read_text())))
    html = in_their_words(add_search(add_access(set_formulas(html, path.stem))))
    html = add_progress(add_scripts(html, to_root), to_root, lesson_pages(lessons, renamed))
    name = path.relative_to(out).as_posix()
    html, steps = speak_sidebar(html, name, cfg.nbs_path, renamed)
    html = add_meta(add_reference(add_steps(html, steps), name, to_root, cfg, renamed), name, cfg)
    html = add_alternates(html, name, cfg.doc_url, renamed)
    source = f"{cfg.git_url}/blob/{cfg.branch}/{cfg.nbs_path.name}/"
    for old, new in renamed.items():
        html = html.replace(f'{source}{new}"', f'{source}{source_of(old)}"')
    path.write_text(slim_page(html))


def add_styles(out):
    "Each part of the site has its own style sheet in `site_libs/css`; readers load one."
    parts = sorted((SITE_LIBS / "css").glob("*.css"))
    with open(out / "styles.css", "a") as styles:
        styles.writelines(part.read_text() for part in parts)


def render(cfg, work, renamed, lessons):
    "Render `work` into the site's folder; return what is wrong with it."
    site = render_site(work, quiet=True)
    out = Path(site.out)
    shutil.copytree(SITE_LIBS, out / "site_libs", ignore=shutil.ignore_patterns("css"), dirs_exist_ok=True)
    add_styles(out)
    write_words(out)
    for path in out.rglob("*.html"):
        finish_page(path, out, cfg, renamed, lessons)
    lighten(out)
    write_index(out, renamed)
    add_blank(cfg, out)
    write_reference(cfg, work, out, renamed)
    if (cfg.lib_path / "assets/demo").exists():  # the project has a trained model
        import_module("site_live").add_live(out)  # with torch, which takes seconds to import
    add_front(cfg, out)
    write_cards(out)
    slim_styles(out)
    bring_styles(out / "index.html")
    shutil.rmtree(cfg.doc_path, ignore_errors=True)
    shutil.move(out, cfg.doc_path)
    checks = check_site, check_parts, check_figures
    wrong = [w for w in site.warnings if not re.search("broken link|format-links", w)]  # ours; a key for Quarto alone
    return wrong + [line for check in checks for line in check(cfg.doc_path)]


def build(fresh=True):
    "Build the site of the project in the current folder; return what is wrong with it."
    cfg = get_config()
    os.chdir(cfg.config_path)
    lessons = exercises_of(cfg)
    with tempfile.TemporaryDirectory() as tmp:
        work = Path(tmp) / "site"
        renamed = rewrite(cfg, process(cfg, fresh), work, lessons)
        return render(cfg, work, renamed, lessons)


if __name__ == "__main__":
    try:
        problems = build(fresh="--cached" not in sys.argv)
    except SiteError as e:
        sys.exit(f"build_docs: {e}")
    print(*problems, sep="\n", end="\n" if problems else "")
    print("built", get_config().doc_path)
    sys.exit(1 if problems else 0)
