"""The pieces of the map: where each stands, and which chapter builds it."""

from collections.abc import Callable
from dataclasses import dataclass

from .svg import INK, LINE, MUTED, PALETTE, PAPER, SOFT, arrow, group, rect, text

# file and title of each chapter: a part is named by it, and links to it
CHAPTERS = {
    1: ("01_introduction", "Softmax and Linear"), 2: ("02_attention", "Attention"),
    3: ("03_multi_head", "Multi-head attention"), 4: ("04_feed_forward", "Feed-forward"),
    5: ("05_positions", "Tokens and positions"), 6: ("06_encoder_block", "The encoder block"),
    7: ("07_encoder", "The encoder"), 8: ("08_decoder", "The decoder"),
    9: ("09_transformer", "The whole model"), 10: ("10_training", "Training"),
}
LIT, BACK = PALETTE[0], PALETTE[1]
WIDTH, HEIGHT = 452, 602
SMALL = 13.5                                  # the least size of a label: 10 px on a phone
LEFT, RIGHT, WIDE = 18, 258, 164              # the boxes of the two columns, and their width
BOTTOM, ENCODER_TOP, DECODER_TOP = 502, 266, 150
PAD = 20                                      # below the lowest sublayer of a block
EMBED, IDS = BOTTOM + 22, BOTTOM + 72         # the tops of the two lowest boxes
SIZES = {"attention": (58, 12), "norm": (28, 18), "feed": (32, 12)}      # height, gap above
ENCODER = [("attention", "Self-attention"), ("norm", "Add & norm"),
           ("feed", "Feed-forward"), ("norm", "Add & norm")]
DECODER = [("attention", "Masked self-attention"), ("norm", "Add & norm"),
           ("attention", "Cross-attention"), *ENCODER[1:]]
ENDS = [(RIGHT, 0, 30, "Loss", 10), (RIGHT, 46, 30, "Softmax", 1), (RIGHT, 92, 30, "Linear", 1),
        (LEFT, EMBED, 32, "Embed + position", 5), (RIGHT, EMBED, 32, "Embed + position", 5),
        (LEFT, IDS, 28, "Source token ids", 5), (RIGHT, IDS, 28, "Target token ids", 5)]
# the middle of cross-attention
CROSS = BOTTOM - PAD - sum(SIZES["attention"]) - sum(SIZES["norm"]) - 29


@dataclass(frozen=True)
class Part:
    """A piece of the drawing, lit or not, and the chapter that builds it."""

    chapter: int
    draw: Callable[[bool], str]
    also: int | None = None                   # another chapter that lights it


def panel(x: float, y: float, width: float, height: float, lit: bool, radius: float = 7) -> str:
    """The face of a box: opaque, tinted where it is lit."""
    tint = (rect(x, y, width, height, LIT, rx=radius, fill_opacity="0.16") if lit else
            rect(x, y, width, height, SOFT, rx=radius))
    return (rect(x, y, width, height, PAPER, rx=radius, class_="npt-solid") + tint
            + rect(x, y, width, height, stroke=LIT if lit else LINE,
                   stroke_width=2 if lit else 1.3, rx=radius))


def wording(x: float, y: float, words: str, lit: bool, size: float | None = None) -> str:
    """A box's words; long ones are smaller, and leave room for the numeral."""
    size = size or (SMALL if len(words) > 15 else 14.5)
    return text(x, y, words, size, "start", fill=LIT if lit else INK)


def numeral(x: float, y: float, number: int, lit: bool) -> str:
    return text(x, y, str(number), SMALL, "end", LIT if lit else MUTED,
                font_weight=700 if lit else None)


def _box(x: float, y: float, height: float, words: str, number: int) -> Part:
    """A plain box: its words, and its chapter's number at the right."""
    middle = y + height / 2
    return Part(number, lambda lit: panel(x, y, WIDE, height, lit)
                + wording(x + 11, middle, words, lit) + numeral(x + WIDE - 10, middle, number, lit))


def _attention(x: float, y: float, words: str) -> list[Part]:
    """Several heads, one attention in each: chapter 3's box round chapter 2's."""
    def heads(lit: bool) -> str:
        sheets = "".join(panel(x + 12 + 6 * n, y + 34 - 4 * n, 104, 20, lit, 5) for n in (2, 1))
        return (panel(x, y, WIDE, 58, lit) + wording(x + 11, y + 14, words, lit, SMALL) + sheets
                + numeral(x + WIDE - 10, y + 44, 3, lit))

    def one(lit: bool) -> str:
        return (panel(x + 12, y + 34, 104, 20, lit, 5)
                + wording(x + 19, y + 44, "attention", lit, SMALL)
                + numeral(x + 110, y + 44, 2, lit))
    return [Part(3, heads), Part(2, one)]


def _residual(edge: float, side: float, to: float, start: float) -> Part:
    """The line that carries a sublayer's input round it, to be added."""
    middle = LEFT + WIDE / 2 if edge == LEFT else RIGHT + WIDE / 2
    return Part(6, lambda lit: arrow((middle, start), (side, start), (side, to), (edge, to),
                                     color=LIT if lit else MUTED, width=2 if lit else 1.2))


def _rows(column: list[tuple[str, str]]) -> list[tuple[str, str, float]]:
    """Kind, words and top of each sublayer, from the bottom up."""
    rows: list[tuple[str, str, float]] = []
    y = float(BOTTOM - PAD)
    for kind, words in column:
        rows.append((kind, words, y - SIZES[kind][0]))
        y -= sum(SIZES[kind])
    return rows


def _block(x: float, column: list[tuple[str, str]]) -> list[Part]:
    """The sublayers of a block, with the residual round each."""
    parts, rows = [], _rows(column)
    edge, side = (x, x - 10) if x == LEFT else (x + WIDE, x + WIDE + 10)
    for (kind, words, y), (_, norm, above) in zip(rows[::2], rows[1::2], strict=True):
        parts += _attention(x, y, words) if kind == "attention" else [_box(x, y, 32, words, 4)]
        parts.append(_box(x, above, 28, norm, 6))
        parts.append(_residual(edge, side, above + 14, y + SIZES[kind][0] + 9))
    return parts


def boxes() -> list[Part]:
    """Everything that stands in front: the sublayers, and what is before and after the blocks."""
    ends = [_box(*end) for end in ENDS]
    return [*_block(LEFT, ENCODER), *_block(RIGHT, DECODER), _times(), *ends]


def frames() -> list[Part]:
    """The blocks, N of each behind each other."""
    def sheets(x, top, which, lit):
        return "".join(panel(x + 5 * n, top - 5 * n, 200, BOTTOM - top, lit, 10) for n in which)

    def label(x, top, words, number, lit):
        return (wording(x + 14, top + 14, words, lit, SMALL)
                + numeral(x + 136, top + 14, number, lit))

    return [Part(7, lambda lit: sheets(0, ENCODER_TOP, (2, 1), lit)),
            Part(6, lambda lit: sheets(0, ENCODER_TOP, (0,), lit)
                 + label(0, ENCODER_TOP, "Encoder block", 6, lit), also=7),
            Part(8, lambda lit: sheets(240, DECODER_TOP, (2, 1, 0), lit)
                 + label(240, DECODER_TOP, "Decoder block", 8, lit)
                 + wording(402, DECODER_TOP + 14, "× N", lit, SMALL))]


def _times() -> Part:
    """How often the encoder block is repeated, in front of it."""
    return Part(7, lambda lit: wording(146, ENCODER_TOP + 14, "× N", lit, SMALL)
                + numeral(192, ENCODER_TOP + 14, 7, lit))


def _links() -> list[tuple[tuple[float, float], ...]]:
    """Where values go from one large part to the next, from the bottom up."""
    up = [((x + WIDE / 2, IDS - 1), (x + WIDE / 2, EMBED + 33)) for x in (LEFT, RIGHT)]
    up += [((x + WIDE / 2, EMBED - 1), (x + WIDE / 2, BOTTOM + 1)) for x in (LEFT, RIGHT)]
    right = RIGHT + WIDE / 2
    up += [((right, y), (right, y - 15)) for y in (46, 92)]
    return [*up, ((right, DECODER_TOP - 11), (right, 123)),
            ((100, ENCODER_TOP - 11), (100, ENCODER_TOP - 34), (227, ENCODER_TOP - 34),
             (227, CROSS - 8), (RIGHT - 1, CROSS - 8))]


def joined() -> str:
    """What chapter 9 builds: the way forward between the parts, and the shapes that go along it."""
    right = RIGHT + WIDE / 2
    shapes = [(x + WIDE / 2 + beside, y, f"(B, {length}{more})")
              for x, length in ((LEFT, "S"), (RIGHT, "T"))
              for y, beside, more in ((IDS - 9, 9, ""), (EMBED - 11, 21, ", D"))]
    shapes += [(right + 21, 131, "(B, T, D)"), (right + 21, 84, "(B, T, V)"),
               (100, ENCODER_TOP - 45, "memory (B, S, D)")]
    ways = [points for points in _links() if points[-1][1] > 46]            # not that to the loss
    lines = "".join(arrow(*points, color=LIT, width=2.2) for points in ways)
    return lines + "".join(text(x, y, words, SMALL, "start", LIT, font_weight=600)
                           for x, y, words in shapes)


def arrows() -> str:
    """The way forward, between the parts and inside the blocks."""
    inner = [((x + WIDE / 2, y + SIZES[kind][0] + (12 if kind == "norm" else 17)),
              (x + WIDE / 2, y + SIZES[kind][0] + 1))
             for x, column in ((LEFT, ENCODER), (RIGHT, DECODER)) for kind, _, y in _rows(column)]
    return "".join(arrow(*points, color=MUTED, width=1.3) for points in [*_links(), *inner])


def gradients() -> list[Part]:
    """The way back: a dashed arrow beside each of the large ones. It ends above the token ids."""
    beside = [tuple((x + 13, y) for x, y in reversed(points)) for points in _links()[2:-1]]
    beside.append(((RIGHT, CROSS + 8), (218, CROSS + 8), (218, ENCODER_TOP - 25),
                   (113, ENCODER_TOP - 25), (113, ENCODER_TOP - 11)))
    return [Part(10, lambda lit: group("".join(
        arrow(*points, color=BACK, width=1.8 if lit else 1.3, dash="4 3") for points in beside),
        opacity=None if lit else "0.8"), also=9)]
