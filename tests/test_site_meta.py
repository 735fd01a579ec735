"The head of a page: what search engines, chats and browsers are told of it."
import json
import re
import sys
from types import SimpleNamespace

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))
pytest.importorskip("PIL")
import site_meta as meta

CFG = SimpleNamespace(doc_url="https://a.github.io/b", git_url="https://github.com/a/b", branch="main", user="a")
HEAD = """<head><meta name="description" content='About "it"'><title>{} – transformer_nb</title>
<meta property="og:title" content="{}"><meta name="twitter:title" content="{} – transformer_nb">
<meta property="og:image" content="https://a.github.io/b/site_libs/share.png"></head>"""


def head(page, title):
    return meta.add_meta(HEAD.format(title, title, title), page, CFG)


def test_the_title_of_a_page_names_the_paper():
    assert "<title>01 Attention – Attention Is All You Need</title>" in head("attention.html", "01 Attention")
    assert "<title>Q &amp; A – Attention Is All You Need</title>" in head("questions.html", "Q &amp; A")


def test_the_front_page_is_a_course():
    html = head("index.html", "transformer_nb")
    assert html.count(f'"{meta.NAME}"') == 3 and f"<title>{meta.NAME}</title>" in html  # and in the course
    about = json.loads(re.search(r'application/ld\+json">(.*?)</script>', html)[1])
    assert about["@type"] == "Course" and about["description"] == 'About "it"' and about["isBasedOn"] == meta.ARXIV
    lesson = head("attention.html", "01 Attention")
    assert "ld+json" not in lesson and 'title="Releases" href="https://github.com/a/b/releases.atom">' in lesson


def test_a_lesson_has_a_card_of_its_own(tmp_path):
    (tmp_path / "site_libs").mkdir()
    for page, title in ("decoding.html", "15b Evaluation"), ("claims.html", "Claims"):
        (tmp_path / page).write_text(head(page, title))
    meta.write_cards(tmp_path)
    assert [path.name for path in (tmp_path / "site_libs/cards").iterdir()] == ["decoding.png"]
    assert "site_libs/cards/decoding.png" in (tmp_path / "decoding.html").read_text()
    assert "site_libs/share.png" in (tmp_path / "claims.html").read_text()
    for name, size in ("cards/decoding", (1200, 630)), ("icon", (180, 180)):
        picture = tmp_path / f"site_libs/{name}.png"
        assert meta.Image.open(picture).size == size and picture.stat().st_size < 20_000


def test_a_long_name_takes_several_lines():
    one, many = meta.card("a", "Attention"), meta.card("a", "Position-wise feed-forward networks of the Transformer")
    rows = [sum(picture.convert("L").crop((0, y, 900, y + 80)).getextrema()[1] > 200 for y in range(180, 500, 80))
            for picture in (one, many)]
    assert rows[0] < rows[1]
