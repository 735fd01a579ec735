"""What makes a course of the site: places for ticks at the exercises and in the sidebar, which `site_libs/progress.js`
fills; and the blank course to download."""
import json
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from importlib import import_module

from notebooks import text_of
from site_rewrites import SiteError

EXERCISE = re.compile(r"^\*\*(\w+\.\d+)(?= )", re.M)  # the title of an exercise, at the start of a line
HEADING = re.compile(r"^## (?:Exercises|練習問題|练习|연습 문제)$", re.M)
LISTED = re.compile(r"<pre><code> *minutes  level  kind .*?</code></pre>", re.S)
NOT_BEGUN = re.compile(r'"text/plain": \[?"\d\d\w?\.\d+ ○ [^"]*"')


def exercises_of(cfg):
    "The exercises of each lesson, `{'01': ['01.1', '01.2']}`; a project may have none."
    lessons = {}
    if (cfg.lib_path / "course/exercises.py").exists():
        for exercise in import_module(f"{cfg.lib_path.name}.course.exercises").exercises():
            lessons.setdefault(exercise.lesson, []).append(exercise.id)
    return lessons


def minutes_of(cfg):
    "How long each lesson takes, without and with its exercises: `{'01': (30, 95)}`; a project may not say."
    return minutes_in(cfg.lib_path, cfg.nbs_path)


@cache
def minutes_in(lib, nbs):
    if not (lib / "course/paths.py").exists():
        return {}
    paths = import_module(f"{lib.name}.course.paths")
    return {number: paths.minutes(path) for number, path in paths.lessons(nbs).items()}


# ---- notebooks, as nbdev has processed them

def mark_lesson(cells, ids, name=""):
    "A place for a tick at each exercise, and for their count; that one is not begun yet is told in Jupyter alone."
    for cell in cells:
        if NOT_BEGUN.search(json.dumps(cell.get("outputs", ""), ensure_ascii=False)):
            cell["outputs"] = []
    if ids:
        mark_exercises(cells, ids, name)
        rewrite_texts(cells, lambda text: HEADING.sub(lambda m: f"{m[0]}\n\n{count_of(ids)}", text))


def rewrite_texts(cells, change):
    "Change the text of every Markdown cell."
    for cell in cells:
        if cell["cell_type"] == "markdown":
            cell["source"] = change(text_of(cell))


def tick_of(id):
    return f'<span class="exercise" id="exercise-{id}" data-exercise="{id}"></span>'


def count_of(ids):
    return f'<p class="exercises" data-exercises="{" ".join(ids)}" hidden></p>'


def mark_exercises(cells, ids, name):
    "A place for a tick before each of these exercises, each of which must be there once."
    found = []

    def mark(m):
        if m[1] not in ids:
            return m[0]
        found.append(m[1])
        return tick_of(m[1]) + m[0]

    rewrite_texts(cells, lambda text: EXERCISE.sub(mark, text))
    if sorted(found) != sorted(ids):
        raise SiteError(f"{name} shows the exercises {', '.join(found)}, not {', '.join(ids)}")


# ---- pages

def add_progress(html, to_root, pages):
    "In the sidebar the exercises of each lesson; `pages` names them by the lesson's page."
    for page, ids in pages.items():
        link = f'href="{to_root}{page}" class="sidebar-item-text'
        html = html.replace(link, f'data-exercises="{" ".join(ids)}" {link}')
    return LISTED.sub(lambda m: listed(m, pages), html)


def listed(m, pages):
    "The list of all exercises, as `exercises()` prints it, with a link at each."
    places = {id: f"{page}#exercise-{id}" for page, ids in pages.items() for id in ids}
    return re.sub(r"^( *)(\d\d\w?\.\d+)(?= )",
                  lambda n: f'{n[1]}<a href="{places[n[2]]}">{n[2]}</a>' if n[2] in places else n[0], m[0], flags=re.M)


def lesson_pages(lessons, renamed):
    "The exercises by their page: `{'attention.html': ['01.1', '01.2']}`."
    pages = {name.partition("_")[0]: page.replace(".ipynb", ".html") for name, page in renamed.items()}
    return {pages[number]: ids for number, ids in lessons.items()}


# ---- the blank course

def add_blank(cfg, out):
    "Write the blank course into the site, as one file."
    tool = cfg.config_path / "tools/build_blank.py"
    if not tool.exists():
        return
    with tempfile.TemporaryDirectory() as tmp:
        subprocess.run([sys.executable, "-B", tool, f"{tmp}/blank"], check=True, stdout=subprocess.DEVNULL)
        shutil.make_archive(out / "blank", "zip", tmp, "blank")
