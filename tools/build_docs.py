"""Build the site into `_docs/`, without Quarto: nbdev processes the notebooks, a few source rewrites follow, smalldocs
renders the pages. Run in the repository: `python tools/build_docs.py`. What is done for each notebook or page alone is
done in as many processes as there are cores.
Fails on a double id, a broken link, and on anything a page would load from elsewhere."""
import json
import os
import re
import shutil
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path

import yaml
from fastcore.nbio import nb2dict, read_nb
from nbdev.config import get_config, nbpath2html
from nbdev.doclinks import nbglob
from nbdev.quarto import refresh_quarto_yml
from smalldocs.markdown import split_front_matter
from smalldocs.site import build as render_site

from apidoc import DocFilter
from site_access import add_access
from site_checks import check_parts, check_site, read_pages
from notebooks import text_of
from site_course import add_blank, add_progress, exercises_of, lesson_pages, mark_lesson
from site_figures import check_figures, lighten
from site_front import add_front, claims_first
from site_meta import add_meta, write_cards
from site_reference import add_reference, add_steps, write_reference
from site_rewrites import (
    TASKS, SiteError, add_alternates, keep_punctuation, language_of, mark_languages, number_of, plain_description,
    rewrite_cell, rewrite_links, source_of, tabs_of)
from site_math import set_formulas
from site_search import add_search, write_index
from site_slim import bring_styles, slim_page, slim_scripts, slim_styles
from site_words import add_scripts, in_their_words, speak_sidebar, titles_in, write_words

SITE_LIBS = Path(__file__).parent / "site_libs"
FRONT = "front", "live"  # the style sheets of first screens and of lists, which no lesson needs


# ---- 1. notebooks

def page_names(cfg):
    "The page of each notebook: `{'parts/02_packing.ipynb': 'parts/packing.ipynb'}`; exercises' tasks have none."
    paths = [path.relative_to(cfg.nbs_path) for path in sorted(nbglob(as_path=True))]
    names = {path.as_posix(): nbpath2html(path).with_suffix(".ipynb").as_posix() for path in paths
             if not path.is_relative_to(TASKS)}
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


def rewrite_notebook(name, cfg, work, renamed, lessons):
    "Let nbdev process the notebook `name`, and rewrite it for smalldocs."
    nb = read_nb(cfg.nbs_path / name)
    DocFilter()(nb)
    nb = nb2dict(nb)
    tabs_of(nb["cells"], name, renamed)
    if name == "claims.ipynb":
        claims_first(nb["cells"])
    if number := number_of(name):
        mark_lesson(nb["cells"], lessons.get(number, []), name)
    taken = []
    relink = partial(rewrite_links, name=name, renamed=renamed, doc_url=cfg.doc_url)
    rewrite_front(nb["cells"][0], relink, name)
    for cell in nb["cells"]:
        rewrite_cell(cell, relink, taken)
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


def rewrite(cfg, work, renamed, lessons, pool):
    "Write to `work` what smalldocs renders."
    shutil.copytree(cfg.nbs_path, work, ignore=shutil.ignore_patterns("*.ipynb", ".*"))
    rewrite_config(work, renamed)
    write = partial(rewrite_notebook, cfg=cfg, work=work, renamed=renamed, lessons=lessons)
    list(pool.map(write, sorted(renamed, key=lambda name: -(cfg.nbs_path / name).stat().st_size)))  # longest first


# ---- 2. pages

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
    path.write_text(lighten(slim_page(html), out / "figures", to_root))


def add_styles(out):
    "Each part of the site has its own style sheet in `site_libs/css`; readers load one, and on few pages a second."
    for part in sorted((SITE_LIBS / "css").glob("*.css")):
        sheet = "site_libs/front.css" if part.stem in FRONT else "styles.css"
        with open(out / sheet, "a") as styles:
            styles.write(part.read_text())


def write_beside(cfg, folder):
    "What a page can fetch or download, and no page is needed for."
    (folder / "site_libs/live").mkdir(parents=True)
    add_blank(cfg, folder)
    if (cfg.lib_path / "assets/demo").exists():  # the project has a trained model
        import_module("site_live").add_live(folder)  # with torch, which takes seconds to import


def render(cfg, work, renamed, lessons, pool):
    "Render `work` into the site's folder; return what is wrong with it."
    beside = pool.submit(write_beside, cfg, work.with_name("beside"))
    site = render_site(work, quiet=True)
    out = Path(site.out)
    shutil.copytree(SITE_LIBS, out / "site_libs", ignore=shutil.ignore_patterns("css"), dirs_exist_ok=True)
    add_styles(out)
    write_words(out)
    reference = pool.submit(write_reference, cfg, work, out, renamed)
    (out / "figures").mkdir()
    finish = partial(finish_page, out=out, cfg=cfg, renamed=renamed, lessons=lessons)
    list(pool.map(finish, sorted(out.rglob("*.html"), key=lambda path: -path.stat().st_size)))
    for task in beside, reference:
        task.result()
    shutil.copytree(work.with_name("beside"), out, dirs_exist_ok=True)
    cards = pool.submit(write_cards, out)
    write_index(out, renamed, titles_in(cfg.nbs_path), pool.map)
    cards.result()  # it has read all pages; they change from here on
    add_front(cfg, out)
    slim_scripts(out)
    slim_styles(out)
    bring_styles(out / "index.html")
    shutil.rmtree(cfg.doc_path, ignore_errors=True)
    shutil.move(out, cfg.doc_path)
    wrong = [w for w in site.warnings if not re.search("broken link|format-links", w)]  # ours; a key for Quarto alone
    pages = read_pages(cfg.doc_path, pool.map)
    return [*wrong, *check_site(cfg.doc_path, pages), *check_parts(cfg.doc_path, pages), *check_figures(cfg.doc_path)]


def build():
    "Build the site of the project in the current folder; return what is wrong with it."
    cfg = get_config()
    os.chdir(cfg.config_path)
    refresh_quarto_yml()
    lessons, renamed = exercises_of(cfg), page_names(cfg)
    with tempfile.TemporaryDirectory() as tmp, ProcessPoolExecutor() as pool:
        work = Path(tmp) / "site"
        rewrite(cfg, work, renamed, lessons, pool)
        return render(cfg, work, renamed, lessons, pool)


def main():
    try:
        problems = build()
    except SiteError as e:
        sys.exit(f"build_docs: {e}")
    print(*problems, sep="\n", end="\n" if problems else "")
    print("built", get_config().doc_path)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    import build_docs  # other processes find what they are to do by this name: IPython takes `__main__` for cells
    build_docs.main()
