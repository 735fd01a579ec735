"""Take the README's pictures of the built site: `python tools/build_pictures.py`, after `make docs`, with chromium."""
import subprocess
import sys
import tempfile
from pathlib import Path

from nbdev.config import get_config
from PIL import Image

from browser import CHROMIUM, HEADLESS, served

ALONE = """<script>addEventListener("load", () => setTimeout(() => {
  const sentences = document.querySelector("#live select")
  sentences.value = 6 // in which German orders the words otherwise
  sentences.dispatchEvent(new Event("change"))
}, 2000))</script><style>body > *, main > :not(.front-first), .front-words { display: none !important }
body > #quarto-content, .front-first { display: block !important; margin: 0 !important; padding: 0 !important }
main { padding: 0 !important }
#live { max-width: none; min-height: 100vh; margin: 0; border: 0; border-radius: 0 }</style>"""


def photograph(page, file, width, height):
    "Take a picture of a page of the site as a reader sees it who has a light screen."
    with tempfile.TemporaryDirectory() as profile:
        switches = [
            *HEADLESS, "--hide-scrollbars", f"--user-data-dir={profile}",
            f"--window-size={width},{height}", "--virtual-time-budget=20000", f"--screenshot={file}",
        ]
        subprocess.run([CHROMIUM, *switches, page], check=True, stderr=subprocess.DEVNULL)
    few = Image.open(file).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(file, optimize=True)  # a third of the size, and no colour is off by more than the eye sees


def main():
    "Both pictures: the first screen, and the live sentence alone."
    cfg = get_config()
    site, images = cfg.doc_path, cfg.nbs_path / "images"
    if not CHROMIUM:
        sys.exit("build_pictures: no chromium on this machine")
    alone = Path(site, "alone.html")
    alone.write_text((site / "index.html").read_text().replace("</head>", f"{ALONE}</head>"))
    with served(site) as address:
        photograph(f"{address}/index.html", images / "site.png", 1280, 836)
        photograph(f"{address}/alone.html", images / "live.png", 560, 650)
    alone.unlink()


if __name__ == "__main__":
    main()
