"""Build the site into `_docs/`, without Quarto: nbdev processes the notebooks, a few source rewrites follow, smalldocs
renders the pages, and KaTeX is served from the site itself. Run in the repository: `python tools/build_docs.py`.
Fails on an unresolved reference, a double id, a broken link, and on anything a page would load from elsewhere."""
import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import nbdev.serve
import yaml
from nbdev.config import get_config
from nbdev.doclinks import _build_modidx
from nbdev.quarto import refresh_quarto_yml
from smalldocs.markdown import split_front_matter
from smalldocs.site import build as render_site

from apidoc import DocFilter
from site_checks import check_site

SITE_LIBS = Path(__file__).parent / "site_libs"
EQUATION = re.compile(r"\$\$(?P<tex>(?:(?!\$\$).)+?)\$\$[ \t]*\{#(?P<id>eq-[\w-]+)\}", re.S)
FIGURE = re.compile(r"^#\| *label: *(fig-[\w-]+)", re.M)
CAPTION = re.compile(r"^(#\| *fig-cap: *)[\"']?(.*?)[\"']?$", re.M)
TABS = re.compile(r"^(:::+ *\{\.panel-tabset)\}(?=\s+## English$)", re.M)
ANSWER = re.compile(r"<!--((?:[\s,]*R\d+)+)\s*-->")
REFERENCE = re.compile(r"(?<![\w`@])@((?:eq|fig)-[\w-]*\w)")
CODE = re.compile(r"(^(`{3,}).*?^\2`*[ \t]*$|`[^`\n]*`)", re.S | re.M)
KATEX = re.compile(r"https://cdn\.jsdelivr\.net/npm/katex@[\d.]+/dist")
LANGS = {"English": "en", "日本語": "ja", "中文": "zh-Hans", "한국어": "ko"}


class SiteError(Exception):
    "Something in the notebooks that a reader would stumble over; the message names the notebook."


# ---- 1. nbdev

def process(cfg, fresh=True):
    "Run nbdev's processors on every notebook; return the folder of processed notebooks."
    refresh_quarto_yml()
    _build_modidx()
    nbdev.serve.FilterDefaults = DocFilter
    return nbdev.serve.proc_nbs(cfg.nbs_path, n_workers=os.cpu_count(), force=fresh)


# ---- 2. rewrites of the processed notebooks

def text_of(cell):
    "A cell's source as one string."
    return "".join(cell["source"])


def outside_code(rewrite, text):
    "Apply `rewrite` to a Markdown text, leaving fenced and inline code as it is."
    out, at = [], 0
    for m in CODE.finditer(text):
        out += [rewrite(text[at:m.start()]), m[0]]
        at = m.end()
    return "".join(out) + rewrite(text[at:])


def number_labels(cells):
    "Number the labelled equations and figures of a notebook, in order: `{'eq-attention': ('Equation', 1)}`."
    numbers, count = {}, {"Equation": 0, "Figure": 0}
    for cell in cells:
        kind, pattern, group = ("Equation", EQUATION, "id") if cell["cell_type"] == "markdown" else ("Figure", FIGURE, 1)
        for m in pattern.finditer(text_of(cell)):
            count[kind] += 1
            numbers[m[group]] = kind, count[kind]
    return numbers


def rewrite_equations(text, numbers):
    "`$$…$$ {#eq-x}` becomes a numbered equation in a div with that id."
    return EQUATION.sub(lambda m: f"::: {{#{m['id']}}}\n$$\n{m['tex'].strip()} \\tag{{{numbers[m['id']][1]}}}\n$$\n:::\n", text)


def rewrite_references(text, numbers):
    "`@eq-x` and `@fig-x` become links such as `[Equation 1](#eq-x)`."
    def link(m):
        if m[1] not in numbers:
            raise SiteError(f"unresolved reference {m[0]}")
        return "[{} {}](#{})".format(*numbers[m[1]], m[1])
    return REFERENCE.sub(link, text)


def rewrite_links(text, renamed, doc_url):
    "Links to notebooks get the page's name, and links to this site become relative."
    text = text.replace(f"]({doc_url}", "](")
    page = lambda m: f"]({renamed.get(m[1], m[1])}{m[2] or ''})"
    return re.sub(r"\]\((?:\./)?([\w-]+\.ipynb)(#[^)]*)?\)", page, text)


def rewrite_headings(text, taken):
    "Headings of the API get the ids that nbdev's links use, and keep their underscores; `profile` stands beside `Profile`."
    def heading(m):
        name = m[2].lower()
        taken.append(name)
        number = f"-{taken.count(name)}" if taken.count(name) > 1 else ""
        return f"{m[1]} {m[2].replace('_', chr(92) + '_')} {{#{name}{number}}}"
    return re.sub(r"^(#{2,6}) (\S+)$", heading, text, count=1, flags=re.M)


def rewrite_answers(text, taken):
    "A comment such as `<!-- R4 -->`, which marks the answer to a reader's question, becomes the anchor `#r4` above its cell."
    ids = [i.lower() for m in ANSWER.finditer(text) for i in re.findall(r"R\d+", m[1])]
    new = [i for i in dict.fromkeys(ids) if i not in taken]
    taken += new
    anchors = "".join(f'<span class="answer" id="{i}"></span>' for i in new)
    return (anchors + "\n\n" if anchors else "") + text


def rewrite_cell(cell, numbers, renamed, doc_url, taken):
    "Rewrite one cell of a processed notebook, in place; `taken` collects the ids it makes."
    def markdown(text):
        text = re.sub(r"\A(?:#\|.*\n)+", "", text)  # directives that nbdev leaves in Markdown cells
        text = TABS.sub(r'\1 group="language"}', text)  # a language chosen once is chosen on every page
        text = outside_code(lambda t: rewrite_equations(t, numbers), text)
        text = outside_code(lambda t: rewrite_references(t, numbers), text)
        return outside_code(lambda t: rewrite_links(t, renamed, doc_url), text)
    source = text_of(cell)
    if cell["cell_type"] == "markdown":
        cell["source"] = markdown(rewrite_answers(source, taken))
    if label := FIGURE.search(source):
        prefix = "{} {}: ".format(*numbers[label[1]])
        cell["source"] = CAPTION.sub(lambda m: m[1] + json.dumps(prefix + m[2], ensure_ascii=False), source)
    for data in (out.get("data", {}) for out in cell.get("outputs", [])):
        if "text/markdown" in data:
            text = "".join(data["text/markdown"])
            data["text/markdown"] = markdown(rewrite_headings(text, taken) if "show_doc(" in source else text)


def page_names(folder):
    "The notebook that each processed notebook becomes: `{'01_attention.ipynb': 'attention.ipynb'}`, from its front matter."
    names = {}
    for path in sorted(folder.glob("*.ipynb")):
        first = json.loads(path.read_text())["cells"][0]
        front = split_front_matter(text_of(first))[0] if first["cell_type"] == "raw" else {}
        names[path.name] = Path(front.get("output-file", path.name)).stem + ".ipynb"
    return names


def rewrite_notebook(path, renamed, doc_url):
    "Rewrite one processed notebook and give it its page's name."
    nb = json.loads(path.read_text())
    front, body = split_front_matter(text_of(nb["cells"][0]))
    if front:
        front.pop("output-file", None)
        nb["cells"][0]["source"] = f"---\n{yaml.dump(front, allow_unicode=True)}---\n{body}"
    numbers, taken = number_labels(nb["cells"]), []
    try:
        for cell in nb["cells"]:
            rewrite_cell(cell, numbers, renamed, doc_url, taken)
    except SiteError as e:
        raise SiteError(f"{path.name}: {e}") from None
    path.unlink()
    path.with_name(renamed[path.name]).write_text(json.dumps(nb, ensure_ascii=False))


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
    "Keep of the sidebar what exists, fail for a notebook it forgets, and drop a key that only Quarto reads."
    sidebar = yaml.safe_load((work / "sidebar.yml").read_text())
    bar = sidebar["website"]["sidebar"]
    bar["contents"] = listed(bar["contents"], renamed)
    forgotten = [old for old, new in renamed.items() if new not in json.dumps(bar["contents"])]
    if forgotten:
        raise SiteError(f"nbs/sidebar.yml does not list {', '.join(forgotten)}")
    (work / "sidebar.yml").write_text(yaml.dump(sidebar, allow_unicode=True, sort_keys=False))
    site = yaml.safe_load((work / "nbdev.yml").read_text())
    site.pop("format-links", None)
    (work / "nbdev.yml").write_text(yaml.dump(site, allow_unicode=True, sort_keys=False))


def rewrite(cfg, processed, work):
    "Copy the processed notebooks to `work` and rewrite them there for smalldocs."
    shutil.copytree(processed, work, ignore=shutil.ignore_patterns(cfg.doc_path.name))
    renamed = page_names(work)
    for name in renamed:
        rewrite_notebook(work / name, renamed, cfg.doc_url)
    rewrite_config(work, renamed)
    return renamed


# ---- 3. pages

def mark_languages(html):
    "Tell browsers the language of sections, tabs and table columns, so that Chinese characters take the right shape."
    for name, lang in LANGS.items():
        html = re.sub(rf"<section (?=[^>]*>\s*<h\d[^>]*>{name}<)", f'<section lang="{lang}" ', html)
        for tab in re.findall(rf'id="(tabset-\d+-\d+)-tab"[^>]*>{name}<', html):
            html = html.replace(f'<div id="{tab}" ', f'<div id="{tab}" lang="{lang}" ')
            html = html.replace(f'id="{tab}-tab" ', f'id="{tab}-tab" lang="{lang}" ')
    return re.sub(r"<table.*?</table>", mark_columns, html, flags=re.S)


def mark_columns(table):
    "Give the cells of a table's 日本語, 中文 and 한국어 columns their language."
    langs = [LANGS.get(head.strip()) for head in re.findall(r"<th[^>]*>(.*?)</th>", table[0], flags=re.S)]
    if not any(langs):
        return table[0]
    def row(m):
        column = iter(langs)
        return re.sub(r"<(t[hd])\b", lambda c: f'<{c[1]} lang="{lang}"' if (lang := next(column, None)) else c[0], m[0])
    return re.sub(r"<tr.*?</tr>", row, table[0], flags=re.S)


def finish_page(path, cfg, renamed):
    "KaTeX from the site itself, languages, and 'View source' to the notebook as it is named in the repository."
    html = mark_languages(KATEX.sub("site_libs/katex", path.read_text()))
    source = f"{cfg.git_url}/blob/{cfg.branch}/"
    for old, new in renamed.items():
        html = html.replace(f'{source}{new}"', f'{source}{cfg.nbs_path.name}/{old}"')
    path.write_text(html)


def render(cfg, work, renamed):
    "Render `work` into the site's folder; return what is wrong with it."
    site = render_site(work, quiet=True)
    out = Path(site.out)
    shutil.copytree(SITE_LIBS, out / "site_libs", dirs_exist_ok=True)
    for path in out.glob("*.html"):
        finish_page(path, cfg, renamed)
    for path in out.rglob("*.css"):  # themes ask for web fonts; styles.css names local ones
        path.write_text(re.sub(r"@import\s+url\([^)]*\)[^;]*;", "", path.read_text()))
    shutil.rmtree(cfg.doc_path, ignore_errors=True)
    shutil.move(out, cfg.doc_path)
    return [w for w in site.warnings if "broken link" not in w] + check_site(cfg.doc_path)


def build(fresh=True):
    "Build the site of the project in the current folder; return what is wrong with it."
    cfg = get_config()
    os.chdir(cfg.config_path)
    with tempfile.TemporaryDirectory() as tmp:
        work = Path(tmp) / "site"
        renamed = rewrite(cfg, process(cfg, fresh), work)
        return render(cfg, work, renamed)


if __name__ == "__main__":
    try:
        problems = build(fresh="--cached" not in sys.argv)
    except SiteError as e:
        sys.exit(f"build_docs: {e}")
    print(*problems, sep="\n", end="\n" if problems else "")
    print("built", get_config().doc_path)
    sys.exit(1 if problems else 0)
