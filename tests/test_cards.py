"nbs/cards.ipynb: the pages in nbs/cards/ are what it draws, and can be printed anywhere."
import re
import shutil
import zlib
from pathlib import Path

import matplotlib
import pytest

pytest.importorskip('nbdev')
from drawn import unseen
from execnb.shell import CaptureShell
from fastcore.nbio import read_nb
from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.figure import Figure

NBS = Path(__file__).parents[1]/'nbs'
PAGES = 'card', 'map'
FILES = [NBS/'cards'/f'{page}.{kind}' for page in PAGES for kind in ('svg', 'pdf')]
DRAWN_HERE = f'Matplotlib v{matplotlib.__version__},' in FILES[0].read_text(encoding='utf-8')


@pytest.fixture(scope='module')
def drawn(tmp_path_factory):
    "The notebook, run in a folder where no page is yet; the folder, and the notebook's names."
    nbs = tmp_path_factory.mktemp('course')/'nbs'
    nbs.mkdir()
    for path in NBS.glob('[0-9]*.ipynb'): (nbs/path.name).symlink_to(path)
    for name in ('cards.ipynb', 'claims.json'): shutil.copy(NBS/name, nbs)
    nb, shell = read_nb(nbs/'cards.ipynb'), CaptureShell()
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(nbs)
        monkeypatch.setattr(FigureCanvasBase, 'print_figure', unseen(FigureCanvasBase.print_figure))
        shell.run_all(nb, exc_stop=True)
    return nbs/'cards', shell.user_ns


def contents(pdf):
    "What a PDF draws: how its streams are compressed may differ from machine to machine."
    streams = re.findall(rb'stream\r?\n(.*?)endstream', pdf, re.S)
    return [zlib.decompressobj().decompress(stream) for stream in streams]


def letters(svg):
    "Which letter stands at each place, numbered as they first occur: the text, whichever matplotlib draws it."
    number = {}
    return [number.setdefault(name, len(number)) for name in re.findall(r'href="#(\w+)"', svg)]


@pytest.mark.parametrize('page', PAGES)
def test_files_are_what_the_notebook_draws(page, drawn):
    "Every letter with every matplotlib; every byte with the one that has drawn them."
    folder, _ = drawn
    stale = 'run nbs/cards.ipynb, and commit nbs/cards'
    old, new = ((where/f'{page}.svg').read_text(encoding='utf-8') for where in (NBS/'cards', folder))
    assert len(letters(new)) > 500 and letters(old) == letters(new), stale
    if not DRAWN_HERE: return
    assert (NBS/f'cards/{page}.svg').read_bytes() == (folder/f'{page}.svg').read_bytes(), stale
    old, new = (contents((where/f'{page}.pdf').read_bytes()) for where in (NBS/'cards', folder))
    assert new and old == new, stale


def test_one_letter_more_is_seen(drawn):
    "By the comparison that holds for every matplotlib."
    svg = (drawn[0]/'card.svg').read_text(encoding='utf-8')
    one = re.search(r'<use [^>]*?/>', svg)[0]
    assert letters(svg.replace(one, one + one, 1)) != letters(svg)


@pytest.mark.parametrize('edit, again', [(lambda text: text, False), (lambda text: text.replace('d="M', 'd="M1'), True),
    (lambda text: text.replace('Matplotlib v', 'Matplotlib v0.'), False)], ids=['same', 'stale', 'by another version'])
def test_a_page_is_written_only_where_it_has_changed(edit, again, drawn, tmp_path, monkeypatch):
    keep, page = drawn[1]['keep'], Figure()
    page.text(.5, .5, 'A page')
    monkeypatch.chdir(tmp_path)
    keep(page, 'page', 'A title')
    svg = tmp_path/'cards/page.svg'
    new = svg.read_text(encoding='utf-8')
    svg.write_text(before := edit(new), encoding='utf-8')
    keep(page, 'page', 'A title')
    assert (svg.read_text(encoding='utf-8') != before) == again
    if again: assert svg.read_text(encoding='utf-8') == new


@pytest.mark.parametrize('path', FILES, ids=lambda path: path.name)
def test_files_are_small_pages_of_curves_and_letters(path):
    data = path.read_bytes()
    assert len(data) <= 150_000
    if path.suffix == '.pdf':
        box = re.search(rb'/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]', data)
        assert data.count(b'/MediaBox') == 1 and b'/Type3' in data and b'/Subtype /Image' not in data
    else:
        box = re.search(rb'<svg [^>]*width="([\d.]+)pt" height="([\d.]+)pt"', data)
        assert b'<image' not in data and b'<text' not in data
        assert not re.search(rb'(?:href="|url\()(?!#)', data)   # nothing is loaded
    assert [round(float(points)/72*25.4) for points in box.groups()] == [210, 297]   # A4, in mm
    assert b'CreationDate' not in data and b'dc:date' not in data
