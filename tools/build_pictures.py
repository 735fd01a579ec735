"""Take the README's pictures of the built site: `python tools/build_pictures.py`, after `make docs`, with chromium."""
from nbdev.config import get_config
from PIL import Image

from browser import Browser, served

ALONE = """
document.head.insertAdjacentHTML("beforeend", `<style>
body > *, main > :not(.front-first), .front-words { display: none !important }
body > #quarto-content, .front-first { display: block !important; margin: 0 !important; padding: 0 !important }
main { padding: 0 !important }
.live { display: grid !important; grid-template-columns: 26rem minmax(0, 1fr); gap: 1rem; padding: 1rem }
.live > * { grid-area: auto !important }</style>`)
document.querySelector("#live [data-station='heads decoder 1']").dispatchEvent(
  new MouseEvent("click", {bubbles: true, cancelable: true}))"""


def photograph(browser, page, file, width, height, there, change=""):
    "Take a picture of a page in a light screen, when what it needs is `there`, after a script's `change`."
    browser.open(page, width, height)
    browser.until(there)
    browser.execute_script(change)
    browser.save_screenshot(file)
    few = Image.open(file).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(file, optimize=True)  # a third of the size, and no colour is off by more than the eye sees


def main():
    "The first screen, and the live figure alone, with all heads of the attention to the memory."
    cfg, live = get_config(), "document.querySelector('#live .live-looked')"
    images = cfg.nbs_path / "images"
    with Browser() as browser, served(cfg.doc_path) as address:
        photograph(browser, f"{address}/index.html", images / "site.png", 1280, 836, live)
        photograph(browser, f"{address}/index.html", images / "live.png", 1060, 900, live, ALONE)


if __name__ == "__main__":
    main()
