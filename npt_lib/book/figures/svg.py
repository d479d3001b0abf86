"""Small pieces of SVG, and `Picture`: what every figure of the book is in the end.

A stored picture has plain colours, so that it reads wherever a notebook is shown. `themed`
turns each of them into a CSS variable, which the book's pages set for light and for dark.
"""

import html
import math
from dataclasses import dataclass, replace

PALETTE = ("#0b5cb0", "#c24e00", "#0a7a5a", "#b8309a", "#45300f", "#6b7480")
INK, MUTED, LINE, SOFT, PAPER = "#1f2328", "#59636e", "#c5ccd3", "#f3f5f8", "#ffffff"
PLUS, MINUS = "#2b83c6", "#d9691f"          # cells: larger and smaller than zero
ROLES = {"ink": INK, "muted": MUTED, "line": LINE, "soft": SOFT, "paper": PAPER,
         "plus": PLUS, "minus": MINUS, **{f"c{i}": c for i, c in enumerate(PALETTE)}}

SANS = "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, Menlo, 'DejaVu Sans Mono', monospace"
CANVAS = 520                                # no figure should be wider: it fills the column
FONT = 15.5                                 # no label should be smaller: 10 px on a phone
STRONGEST = 0.75                            # the most opaque a cell gets: its number stays readable
_NARROW, _WIDE = set("ijl.,:;'|!()[]{}tfrI "), set("mwMW@%—→")


def themed(svg: str) -> str:
    """The same SVG with the page's colours: each of ours becomes a variable with a fallback."""
    for role, value in ROLES.items():
        svg = svg.replace(f'"{value}"', f'"var(--npt-{role}, {value})"')
    return svg


def num(value: float) -> str:
    """A coordinate to a tenth, rounded where no drawing puts a point: the same on any machine."""
    return f"{math.floor(value * 10 + 0.5137) / 10 + 0.0:g}"


def fixed(value: float, digits: int) -> str:
    """A number with so many decimals; halves go away from zero, and there is no -0.00."""
    if math.isnan(value) or math.isinf(value):
        return str(float(value)).replace("inf", "∞").replace("-", "−")
    value = math.copysign(math.floor(abs(value) * 10**digits + 0.5 + 1e-6) / 10**digits, value)
    return f"{value + 0.0:.{digits}f}".replace("-", "−")


def text_width(text: str, size: float = FONT, mono: bool = False) -> float:
    """About how wide a text is, in pixels."""
    if mono:
        return 0.61 * size * len(text)
    units = sum(0.36 if c in _NARROW else 0.9 if c in _WIDE else 0.68 if c.isupper() else 0.58
                for c in text)
    return units * size


def element(tag: str, content: str | None = None, **attributes: object) -> str:
    """One SVG element; an underscore in a name is a hyphen, None is left out."""
    written = "".join(f' {name.rstrip("_").replace("_", "-")}="{_value(value)}"'
                      for name, value in attributes.items() if value is not None)
    return f"<{tag}{written}/>" if content is None else f"<{tag}{written}>{content}</{tag}>"


def _value(value: object) -> str:
    return num(value) if isinstance(value, (int, float)) else html.escape(str(value))


def rect(x: float, y: float, width: float, height: float, fill: str = "none", **more) -> str:
    """A rectangle. Opacities in `more` are texts: they are not rounded to a tenth."""
    return element("rect", x=x, y=y, width=width, height=height, fill=fill, **more)


def text(x: float, y: float, words: str, size: float = FONT, anchor: str | None = "middle",
         fill: str | None = INK, mono: bool = False, **more) -> str:
    """Words whose vertical middle is at y."""
    return element("text", html.escape(words), x=x, y=y + 0.35 * size, font_size=size,
                   text_anchor=None if anchor == "start" else anchor, fill=fill,
                   font_family=MONO if mono else None, **more)


def haloed(x: float, y: float, words: str, color: str) -> str:
    """A name that stays readable where lines pass behind it."""
    return text(x, y, words, fill=color, font_weight=600, paint_order="stroke", stroke=PAPER,
                stroke_width=4, stroke_linejoin="round")


def path(d: str, stroke: str | None = INK, width: float | None = 1.5, **more) -> str:
    """A line along d."""
    return element("path", d=d, stroke=stroke, stroke_width=width,
                   **{"fill": "none", **more})


def arrow(*points: tuple[float, float], color: str = INK, width: float = 1.5,
          dash: str | None = None) -> str:
    """A line through the points that ends in a head."""
    (x0, y0), (x1, y1) = points[-2:]
    length = math.hypot(x1 - x0, y1 - y0)
    ux, uy = (x1 - x0) / length, (y1 - y0) / length
    size = 4 + 2 * width
    base = (x1 - size * ux, y1 - size * uy)
    line = "M" + "L".join(f"{num(x)} {num(y)}" for x, y in [*points[:-1], base])
    side = [(base[0] - s * 0.5 * size * uy, base[1] + s * 0.5 * size * ux) for s in (1, -1)]
    head = "M" + "L".join(f"{num(x)} {num(y)}" for x, y in [side[0], (x1, y1), side[1]]) + "z"
    return path(line, color, width, stroke_dasharray=dash) + element("path", d=head, fill=color)


def group(content: str, x: float = 0, y: float = 0, **more) -> str:
    """The content, moved by (x, y)."""
    moved = f"translate({num(x)} {num(y)})" if x or y else None
    return element("g", content, transform=moved, **more)


@dataclass(frozen=True)
class Picture:
    """A drawing and the words for those who cannot see it. A cell that ends in one shows it."""

    body: str
    width: float
    height: float
    alt: str
    role: str = "img"
    middle: float | None = None            # the height at which neighbours are lined up
    margin: float = 8
    scale: float = 1.15                    # how large it is shown where there is room
    beside: "tuple[Picture, Picture] | None" = None   # smaller, for a row: without key, with it

    def __post_init__(self):
        if not self.alt.strip():
            raise ValueError("a figure needs alt, a sentence that says what it shows, got none.")

    @property
    def svg(self) -> str:
        """The whole drawing, on a light card, in plain colours."""
        m = self.margin
        width, height = (math.ceil(v + 2 * m) for v in (self.width, self.height))
        card = rect(-m, -m, width, height, PAPER, rx=6, class_="npt-paper")
        shown = f'width="{width * self.scale:.0f}" height="{height * self.scale:.0f}"'
        return (f'<svg xmlns="http://www.w3.org/2000/svg" class="npt-fig" role="{self.role}" '
                f'aria-label="{html.escape(self.alt)}" {shown} '
                f'viewBox="{num(-m)} {num(-m)} {width} {height}" font-family="{SANS}">'
                f"{card}{self.body}</svg>")

    def described(self, alt: str) -> "Picture":
        """The same drawing with other words."""
        return replace(self, alt=alt)

    def __repr__(self) -> str:
        return f"Figure: {self.alt}"

    def _repr_mimebundle_(self, **_):
        return {"image/svg+xml": self.svg, "text/plain": repr(self)}
