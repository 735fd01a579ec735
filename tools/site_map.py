"""Figure 1 of the paper as a small SVG whose boxes are links to their lessons: `figure_map` draws it for one page.

The look (colours, dark theme) is in `site_libs/css/reference.css`; the larger figure is drawn in lesson 00."""
from html import escape

WIDTH, HEIGHT = 288, 372
LEFT, RIGHT, HALF = 71, 217, 57  # the middles of the two stacks, and half the width of a box
LESSONS = {  # the parts of figure 1: the page of a lesson, its number and its title
    "attention": ("attention.html", "01", "Attention"),
    "heads": ("multihead.html", "02", "Multi-head attention"),
    "feed-forward": ("feed_forward.html", "03", "Position-wise feed-forward networks"),
    "embedding": ("embeddings.html", "04", "Embeddings and the softmax"),
    "positions": ("positional_encoding.html", "05", "Positional encoding"),
    "add": ("transformer.html", "06", "The Transformer"),
    "norm": ("norms.html", "06a", "Post-norm and pre-norm"),
    "tokens": ("tokenizer.html", "09", "Tokenizer"),
    "next": ("decoding.html", "15", "Decoding"),
}
LOOKING, WHOLE = ("attention", "heads"), (*LESSONS,)
LIT = {page: (part,) for part, (page, _, _) in LESSONS.items()} | {  # which parts a page is about
    "overview.html": WHOLE,
    "transformer.html": ("add", "norm"),
    "norms.html": ("add", "norm"),
    "why_self_attention.html": LOOKING,
    "baselines.html": WHOLE,
    "corpora.html": ("tokens",),
    "batching.html": ("tokens",),
    "optimizer.html": WHOLE,
    "regularization.html": ("positions", "add", "next"),
    "averaging.html": WHOLE,
    "training.html": WHOLE,
    "evaluation.html": ("next",),
    "translation.html": WHOLE,
    "table2.html": WHOLE,
    "variations.html": WHOLE,
    "parsing.html": WHOLE,
    "attention_maps.html": LOOKING,
    "heads.html": ("heads",),
    "alignment.html": LOOKING,
}


def figure_map(
    current,  # The page it is for, such as `attention.html`, whose boxes are lit; None lights none
    to_root,  # From that page to the site's first folder: empty, or `../`
    page_of=str,  # From the page of a lesson to the one that its boxes lead to
    stations=False,  # Shall each box say what it is, for the script of the live figure?
    say=str,  # From what stands in a box to the same in the reader's language; a box's title stays English
):  # An `<svg>` of less than 15 kB
    "Draw figure 1; one unit is a pixel."
    draw = Drawing(LIT.get(current, ()), current, to_root, page_of, stations, say)
    encoder = draw.stack(LEFT, -1, "source", ("self-attention",))
    decoder = draw.stack(RIGHT, 1, "target", ("masked self-attention", "attention to memory"))
    draw.memory(encoder, decoder)
    draw.exit(decoder[-1])
    return draw.svg()


class Drawing:
    "The map while it is drawn, from the bottom to the top: heights are counted from the ground."

    def __init__(self, lit, current, to_root, page_of, stations, say):
        self.lit, self.current, self.to_root, self.page_of = lit, current, to_root, page_of
        self.stations, self.say = stations, say
        self.side, self.sublayer = "encoder", 0  # where a box is that is drawn now
        self.lines = {"": "", "query": "", "key": "", "value": ""}  # one path for each colour
        self.shapes, self.linked = [], set()

    def line(self, *points, kind="", head=True):
        "A line through the points; its head points up or sideways."
        (x0, y0), (x, y) = points[-2:]
        self.lines[kind] += "M" + "L".join(f"{px} {HEIGHT - py}" for px, py in points)
        if head and x == x0:
            self.lines[kind] += "m-2.5 4l2.5 -4l2.5 4"
        elif head:
            back = 4 if x < x0 else -4
            self.lines[kind] += f"m{back} -2.5l{-back} 2.5l{back} 2.5"

    def rect(self, x, y, width, height, kind):
        place = f'x="{x:g}" y="{HEIGHT - y - height:g}" width="{width:g}" height="{height:g}"'
        corners = "" if kind == "frame" else ' rx="2"'
        self.shapes.append(f'<rect class="{kind}" {place}{corners}/>')

    def text(self, x, y, text, kind=""):
        name = kind and f' class="{kind}"'
        self.shapes.append(f'<text{name} x="{x:g}" y="{HEIGHT - y:g}">{self.say(text)}</text>')

    def link(self, part, x, y, text, width=2*HALF, height=20, kind="box"):
        "A box that is a link; the keyboard stops only at the first of those that lead to one lesson."
        page, number, title = LESSONS[part]
        is_lit = part in self.lit
        again = ' tabindex="-1"' if part in self.linked else ""
        here = ' aria-current="page"' if page == self.current else ""
        self.linked.add(part)
        if self.stations:
            what = "softmax" if text == "linear, softmax" else part
            here += f' data-station="{what} {self.side} {self.sublayer}" data-lesson="{number}"'
        self.shapes.append(
            f'<a href="{self.to_root}{self.page_of(page)}" class="{"lit" if is_lit else ""}"{again}{here}>'
            f'<title>{text}: lesson {number}, {escape(title)}</title>'
        )
        self.rect(x - width/2, y, width, height, kind)
        self.text(x, y + height/2 - 3.5, text)
        self.shapes.append("</a>")

    def stack(self, x, side, tokens, attentions):
        "One stack on the middle `x`; returns the heights at which its attentions may take in the memory, and its top."
        self.side, self.sublayer = "encoder" if side < 0 else "decoder", 0
        self.link("tokens", x, 0, f"{tokens} tokens", height=18, kind="plain")
        self.line((x, 18), (x, 27))
        self.link("embedding", x, 27, "embedding")
        self.line((x, 47), (x, 56))
        self.link("positions", x, 56, "+ positions")
        bottom = y = 82
        self.line((x, 76), (x, y), head=False)
        forks = []
        for name in attentions:
            forks.append(y + 14)
            y = self.attention(x, side, y, name, from_memory=name.endswith("memory"))
        y = self.feed_forward(x, side, y)
        self.rect(x - HALF - 13, bottom - 1, 2*HALF + 26, y - bottom + 5, "frame")
        self.text(x + (HALF + 1)*side, y + 8, "N ×", "repeated")
        return *forks, y

    def attention(self, x, side, y, name, from_memory):
        "An attention and its Add & Norm; queries, keys and values keep their colours."
        low = y + 24
        for kind, dx in (("value", -36), ("key", 0), ("query", 36)):
            start = (x, y + 9) if not from_memory or kind == "query" else (x - 36, y + 14)
            turn = (x + dx, start[1])
            self.line(start, turn, (x + dx, low), kind=kind)
            self.text(x + dx + 8, low - 9, kind[0].upper() if kind != "query" else "Q", kind)
        self.line((x, y), (x, y + 9), head=False)
        self.rect(x - HALF, low, 2*HALF, 36, "looks")
        self.text(x, low + 24, name, "hides" if name.startswith("masked") else "")
        self.link("attention", x - 25, low + 2, "attention", 60, 17)
        self.link("heads", x + 31, low + 2, "heads", 48, 17)
        return self.add_norm(x, side, y, low + 36)

    def feed_forward(self, x, side, y):
        "The feed-forward network and its Add & Norm."
        self.line((x, y), (x, y + 15))
        self.link("feed-forward", x, y + 15, "feed-forward")
        return self.add_norm(x, side, y, y + 35)

    def add_norm(self, x, side, start, y):
        "Add & Norm above a sub-layer, and the line that by-passes it."
        end = y + 6
        self.line((x, y), (x, end), head=False)
        self.link("add", x - 29, end, "add", 56, 17)
        self.link("norm", x + 29, end, "norm", 56, 17)
        turn = x + (HALF + 8)*side
        self.line((x, start + 4), (turn, start + 4), (turn, end + 9), (x + HALF*side, end + 9))
        self.line((x, end + 17), (x, end + 20), head=False)
        self.sublayer += 1
        return end + 20

    def memory(self, encoder, decoder):
        "From the top of the encoder to the keys and values of the decoder's second attention."
        middle, top, fork = (LEFT + RIGHT)/2, encoder[-1] + 10, decoder[1]
        self.line((LEFT, encoder[-1]), (LEFT, top), (middle, top), (middle, fork), (RIGHT - 36, fork), head=False)
        self.text(LEFT + 30, top + 5, "memory")

    def exit(self, y):
        "From the decoder to the next token."
        self.line((RIGHT, y), (RIGHT, y + 18))
        self.link("embedding", RIGHT, y + 18, "linear, softmax")
        self.line((RIGHT, y + 38), (RIGHT, y + 46))
        self.link("next", RIGHT, y + 46, "next token", height=18, kind="plain")

    def svg(self):
        "Lines below, boxes above."
        paths = "".join(f'<path class="{kind}" d="{d}"/>' for kind, d in self.lines.items())
        whole = " whole" if self.lit == WHOLE else ""
        return (
            f'<svg class="figure-map{whole}" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
            'role="group" aria-label="Figure 1 of the paper; each box leads to its lesson">'
            f'{paths}{"".join(self.shapes)}</svg>'
        )
