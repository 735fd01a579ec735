"""What others show of a page: search engines its title and that it is a course, chats and social networks a card with
the lesson's name, or the project's, browsers the colour of their frame, phones an icon."""
import json
import re
from functools import cache
from html import escape, unescape
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

PAPER = "Attention Is All You Need"
NAME, ARXIV = f"{PAPER}, as a package", "https://arxiv.org/abs/1706.03762"
PROMISE = "read it, import it, use it"
GROUND, SOFT, INK = "#243b53", "#b8cde0", "#ffffff"
QUERY, KEY, LINE = "#f58a4b", "#00b886", "#9fc6e6"
WEIGHTS = .08, .14, .6, .12, .06  # how much the query looks at each key
THEMES = {"light": "#fdfdfc", "dark": "#15181c"}  # the page's ground, as in css/identity.css
TITLE = re.compile(r"<title>(.*?)(?: – [^<]*)?</title>")
TITLES = re.compile(r'(<meta (?:property="og|name="twitter):title" content=)"[^"]*"')
DESCRIPTION = re.compile(r"""<meta name="description" content=(["'])(.*?)\1>""")
CARD = "site_libs/share.png"
LESSON = re.compile(r"(\d\d\w?) (.+)")  # in a title


# ---- the head of a page

def add_meta(html, page, cfg):
    "The finished page, whose head names the paper, its own card and its kind."
    is_front = page == "index.html"
    title = unescape(TITLE.search(html)[1])
    if is_front:
        html = TITLES.sub(lambda m: f'{m[1]}"{NAME}"', html)
    html = TITLE.sub(f"<title>{NAME if is_front else f'{escape(title)} – {PAPER}'}</title>", html, count=1)
    if own := card_of(page, title):
        html = html.replace(CARD, own)
    to_root = "../" * page.count("/")
    more = f'<meta property="og:type" content="{"website" if is_front else "article"}">'
    more += "".join(f'<meta name="theme-color" content="{colour}" media="(prefers-color-scheme: {theme})">'
                    for theme, colour in THEMES.items())
    more += f'<link rel="apple-touch-icon" href="{to_root}site_libs/icon.png">'
    more += f'<link rel="alternate" type="application/atom+xml" title="Releases" href="{cfg.git_url}/releases.atom">'
    return html.replace("</head>", f"{more}{course(html, cfg) if is_front else ''}</head>", 1)


def course(html, cfg):
    "The course in the words of schema.org."
    about = {
        "@context": "https://schema.org", "@type": "Course", "name": NAME, "url": cfg.doc_url,
        "description": unescape(DESCRIPTION.search(html)[2]), "isBasedOn": ARXIV, "isAccessibleForFree": True,
        "inLanguage": ["en", "ja", "zh-Hans", "ko"], "license": f"{cfg.git_url}/blob/{cfg.branch}/LICENSE",
        "provider": {"@type": "Organization", "name": cfg.user, "url": cfg.git_url},
    }
    return f'<script type="application/ld+json">{json.dumps(about, ensure_ascii=False)}</script>'


# ---- cards

def card_of(page, title):
    "The card of an English lesson; other pages share one."
    return f"site_libs/cards/{Path(page).stem}.png" if "/" not in page and LESSON.fullmatch(title) else None


def write_cards(out):
    "The icon, a card for each lesson, with its number and its name, and one for all other pages."
    icon().save(out / "site_libs/icon.png", optimize=True)
    card("transformer_nb", NAME).save(out / CARD, optimize=True)
    (out / "site_libs/cards").mkdir()
    for path in out.glob("*.html"):
        title = unescape(TITLE.search(path.read_text())[1])
        if own := card_of(path.name, title):
            number, name = LESSON.fullmatch(title).groups()
            card(f"{PAPER} · {number}", name).save(out / own, optimize=True)


@cache
def font(size, bold):
    "The font that comes with matplotlib: the same on every machine."
    import matplotlib

    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts/ttf" / name, size)


def looking(draw):
    "A query that looks at its keys."
    for i, weight in enumerate(WEIGHTS):
        y = 105 + 105*i
        draw.line((960, y, 1120, 315), LINE, round(2 + 20*weight))
        draw.ellipse((944, y - 16, 976, y + 16), KEY)
    draw.ellipse((1098, 293, 1142, 337), QUERY)


def card(above, name):
    "A card, 1200 by 630: a line above, and a name in as many lines as it takes."
    picture = Image.new("RGB", (1200, 630), GROUND)
    draw = ImageDraw.Draw(picture)
    looking(draw)
    draw.text((70, 90), above, SOFT, font(34, False))
    lines, large = [""], font(66, True)
    for word in name.split():
        longer = f"{lines[-1]} {word}".strip()
        if draw.textlength(longer, large) > 820:
            lines.append(word)
        else:
            lines[-1] = longer
    draw.multiline_text((70, 190), "\n".join(filter(None, lines)), INK, large, spacing=18)
    draw.text((70, 510), PROMISE, SOFT, font(32, False))
    return picture.quantize(32)


def icon():
    "The mark of favicon.svg, 180 by 180, for phones."
    picture = Image.new("RGB", (640, 640), GROUND)
    draw = ImageDraw.Draw(picture)
    for y, width in ((150, 30), (320, 80), (490, 30)):
        draw.line((160, y, 470, 320), LINE, width)
    for x, y, r, colour in ((160, 150, 70, KEY), (160, 320, 70, KEY), (160, 490, 70, KEY), (470, 320, 90, QUERY)):
        draw.ellipse((x - r, y - r, x + r, y + r), colour)
    return picture.resize((180, 180), Image.LANCZOS).quantize(32)
