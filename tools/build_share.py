"""Draw `tools/site_libs/share.png`, which chats and social networks show beside a link to the site. Run it again after
a change of the title or of the colours."""
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt

OUT = Path(__file__).parent / "site_libs/share.png"
GROUND, SOFT = "#243b53", "#b8cde0"
QUERY, KEY, LINE = "#f58a4b", "#00b886", "#9fc6e6"
WEIGHTS = .08, .14, .6, .12, .06  # how much the query looks at each key
EQUATION = r"$\mathrm{Attention}(Q, K, V) = \mathrm{softmax}\left(\frac{QK^\top}{\sqrt{d_k}}\right)V$"


def looking(ax):
    "A query that looks at its keys."
    for i, weight in enumerate(WEIGHTS):
        y = 525 - 105*i
        ax.plot((960, 1120), (y, 315), color=LINE, lw=1 + 14*weight, zorder=1)
        ax.scatter(960, y, s=600, color=KEY, zorder=2)
    ax.scatter(1120, 315, s=1100, color=QUERY, zorder=2)


def card():
    "The card, 1200 by 630."
    fig = plt.figure(figsize=(12, 6.3), dpi=100, facecolor=GROUND)
    ax = fig.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, 1200), ylim=(0, 630))
    ax.axis("off")
    looking(ax)
    ax.text(70, 500, "Attention Is All You Need", color="white", fontsize=42, weight="bold", va="center")
    ax.text(70, 425, "the paper as notebooks, library and course", color=SOFT, fontsize=25, va="center")
    ax.text(70, 280, EQUATION, color="white", fontsize=34, va="center")
    ax.text(70, 110, "transformer_nb", color=SOFT, fontsize=30, va="center", family="monospace")
    return fig


if __name__ == "__main__":
    matplotlib.use("agg")
    card().savefig(OUT, metadata={"Software": None}, pil_kwargs={"optimize": True})
    print(OUT, OUT.stat().st_size)
