"""Make the font of the formulas, `site_libs/math/stix-two-math.woff2`: STIX Two Math, with the signs that a course has.
Run: `python tools/build_math_font.py ORIGINAL`, the .woff2 of npm's @fontsource/stix-two-math 5.3.0; needs brotli."""
import sys
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont

FONT = Path(__file__).parent / "site_libs/math/stix-two-math.woff2"
SIGNS = [  # first and last of a range
    (0x20, 0x7E), (0xA0, 0xA0), (0xAC, 0xAC), (0xB1, 0xB1), (0xB7, 0xB7), (0xD7, 0xD7),
    (0x391, 0x3C9), (0x3D1, 0x3D1), (0x3D5, 0x3D5), (0x3F5, 0x3F5),  # Greek
    (0x2016, 0x2016), (0x2026, 0x2026), (0x2032, 0x2033), (0x2061, 0x2063),
    (0x210E, 0x210E), (0x2113, 0x2113), (0x211D, 0x211D),  # the letters h, l and R of mathematics
    (0x2190, 0x2194), (0x21A6, 0x21A6), (0x21D2, 0x21D2), (0x21D4, 0x21D4),  # arrows
    (0x2200, 0x2200), (0x2202, 0x2203), (0x2205, 0x2205), (0x2207, 0x2209), (0x220F, 0x220F), (0x2211, 0x2213),
    (0x2217, 0x2218), (0x221A, 0x221A), (0x221D, 0x221E), (0x2223, 0x2223), (0x2225, 0x2225), (0x2227, 0x222A),
    (0x2248, 0x2248), (0x2260, 0x2261), (0x2264, 0x2265), (0x226A, 0x226B), (0x2282, 0x2287), (0x2295, 0x2299),
    (0x22A4, 0x22A5), (0x22C5, 0x22C5), (0x22EF, 0x22EF), (0x2308, 0x230B), (0x27E8, 0x27E9),
    (0x1D400, 0x1D467), (0x1D6E2, 0x1D71B),  # bold and slanted letters
]
ROOT_SIGN = 0x221A


def known_signs():
    "Every sign of the font."
    return {chr(code) for first, last in SIGNS for code in range(first, last + 1)}


def cut_down(font):
    "Leave the signs above, the shapes they stretch to, and what places them in a formula."
    options = subset.Options(layout_features=["ssty", "dtls", "flac"], hinting=False)
    options.drop_tables += ["GPOS", "DSIG"]
    few = subset.Subsetter(options)
    few.populate(unicodes=map(ord, known_signs()))
    few.subset(font)


def narrow_roots(font):
    "Chromium keeps room for the widest root sign after every root: make the tall ones as narrow as the small one."
    variants = font["MATH"].table.MathVariants
    small = font.getBestCmap()[ROOT_SIGN]
    sizes = variants.VertGlyphConstruction[variants.VertGlyphCoverage.glyphs.index(small)]
    sizes.GlyphAssembly = None  # the tallest root that has a shape of its own spans three lines
    width = font["hmtx"][small][0]
    for variant in sizes.MathGlyphVariantRecord:
        squeeze(font, variant.VariantGlyph, width)


def squeeze(font, name, width):
    "Make a glyph as wide as this."
    glyph, (old, bearing) = font["glyf"][name], font["hmtx"][name]
    glyph.coordinates.scale((width / old, 1))
    glyph.coordinates.toInt()
    glyph.recalcBounds(font["glyf"])
    font["hmtx"][name] = width, round(bearing * width / old)


if __name__ == "__main__":
    font = TTFont(sys.argv[1])
    cut_down(font)
    narrow_roots(font)
    font.flavor = "woff2"
    font.save(FONT)
    print(FONT, f"{FONT.stat().st_size:,} bytes")
