"""What makes the pages light: pictures become files, each once, which load when they come near; code takes fewer tags.
And what must hold of them: every picture has a text for those who do not see it, no page is heavy."""
import base64
import re
from hashlib import sha256
from io import BytesIO
from itertools import count

from PIL import Image

MOST = 300_000  # bytes of HTML in a page
IMAGE = re.compile(r"<img\b[^>]*>")
INSIDE = re.compile(r'src="data:image/png;base64,([^"]+)"')
CODE = re.compile(r'<code class="sourceCode.*?</code>', re.S)
SAME = re.compile(r'<span class="(\w+)">[^<]*</span>(?:<span class="\1">[^<]*</span>)+')
QUOTE = re.compile(r"(?<=>)[^<]*&(?:#x27|quot);[^<]*")


def lighten(html, folder, to_root):
    "A page with its pictures as files in a folder, and with fewer tags in its code."
    return CODE.sub(lambda m: fewer_tags(m[0]), pictures_as_files(html, folder, to_root))


# ---- pictures

def pictures_as_files(html, folder, to_root):
    "Each picture as a file, with its size, so that the text does not jump; only a page's first is loaded at once."
    nth = count()

    def as_file(m):
        name, width, height = write_picture(base64.b64decode(m[1]), folder)
        lazy = 'loading="lazy" ' if next(nth) else ""
        return f'src="{to_root}figures/{name}" width="{width}" height="{height}" {lazy}decoding="async"'

    return INSIDE.sub(as_file, html)


def write_picture(png, folder):
    "Write a picture as lossless WebP, named after its content; its name, and its width and height on the page."
    name = f"{sha256(png).hexdigest()[:16]}.webp"
    picture = Image.open(BytesIO(png))
    if not (folder / name).exists():
        picture.save(folder / name, lossless=True)
    dots, _ = picture.info.get("dpi", (100, 100))
    finer = max(1, dots / 100)  # a figure has 100 dots to the inch; notebooks draw it finer, for fine screens
    return name, *(round(n / finer) for n in picture.size)


# ---- code

def fewer_tags(code):
    "Neighbours of one colour share a tag, and quotation marks in the text stand for themselves."
    code = SAME.sub(lambda m: f'<span class="{m[1]}">{re.sub("<[^>]*>", "", m[0])}</span>', code)
    return QUOTE.sub(lambda m: m[0].replace("&#x27;", "'").replace("&quot;", '"'), code)


# ---- checks

def check_figures(folder):
    "One line for each picture without a text or inside its page, and for each page that is too heavy."
    for path in sorted(folder.rglob("*.html")):
        html, page = path.read_text(), path.relative_to(folder)
        for n, image in enumerate(IMAGE.findall(html), 1):
            if " alt=" not in image:
                yield f"{page}: picture {n} has no alt text ({image[:80]}): give its cell `#| fig-alt: ...`"
            if 'src="data:' in image:
                yield f"{page}: picture {n} is inside the page, in a form other than PNG"
        if (size := path.stat().st_size) > MOST:
            yield f"{page}: {size:,} bytes of HTML, more than {MOST:,}"
