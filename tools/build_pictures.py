"""Take the README's pictures of the built site: `python tools/build_pictures.py`, after `make docs`, with chromium."""
from nbdev.config import get_config
from PIL import Image

from browser import Browser, served

ALONE = """
const sentences = document.querySelector("#live select")
sentences.value = 6 // in which German orders the words otherwise
sentences.dispatchEvent(new Event("change"))
document.head.insertAdjacentHTML("beforeend", `<style>
body > *, main > :not(.front-first), .front-words { display: none !important }
body > #quarto-content, .front-first { display: block !important; margin: 0 !important; padding: 0 !important }
main { padding: 0 !important }
#live { max-width: none; min-height: 100vh; margin: 0; border: 0; border-radius: 0 }</style>`)"""


def photograph(browser, page, file, width, height, change=""):
    "Take a picture of a page of the site as a reader sees it who has a light screen, after a script's `change`."
    browser.open(page, width, height)
    browser.until("document.querySelector('#live .live-said')")
    browser.execute_script(change)
    browser.save_screenshot(file)
    few = Image.open(file).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(file, optimize=True)  # a third of the size, and no colour is off by more than the eye sees


def main():
    "Both pictures: the first screen, and the live sentence alone."
    cfg = get_config()
    images = cfg.nbs_path / "images"
    with served(cfg.doc_path) as address, Browser() as browser:
        photograph(browser, f"{address}/index.html", images / "site.png", 1280, 836)
        photograph(browser, f"{address}/index.html", images / "live.png", 560, 650, ALONE)


if __name__ == "__main__":
    main()
