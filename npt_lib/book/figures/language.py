"""Figures of a language model: its map, a text cut into tokens, what it writes, what it weighs."""

from collections.abc import Sequence

from .map_parts import LEFT, LIT, RIGHT, SMALL, WIDE, WIDTH, numeral, panel, wording
from .svg import (
    CANVAS,
    FONT,
    INK,
    LINE,
    MUTED,
    PALETTE,
    PAPER,
    SOFT,
    Picture,
    arrow,
    fixed,
    path,
    rect,
    text,
    text_width,
)

TOP, FOOT = 196, 508                         # of the frame round a block
ENDS = [(0, 30, "Loss", 10), (46, 30, "Softmax", 1), (92, 30, "Unembedding", 5),
        (146, 28, "Norm", 6), (530, 32, "Embed + position", 5), (580, 28, "Token ids", 5)]
BRANCHES = [(444, 28, 350), (300, 28, 238)]  # of each sublayer: its norm, and where it is added
COLUMNS = 54                                 # letters of one width that fit a line
SIGNS = {" ": "␣", "\n": "⏎"}


def language_model_map(alt: str, *, lit: str = "", rest: str = "what stays") -> Picture:
    """What is left of chapter 9's map when the encoder goes; norms stand on the branches.

    lit names the one box that a later chapter changes, such as "Masked self-attention": then the
    legend says so, rest is its word for the other boxes, and nothing that is gone is drawn.
    """
    middle, side = RIGHT + WIDE / 2, RIGHT + WIDE + 10
    body = "".join(panel(240 + 5 * n, TOP - 5 * n, 200, FOOT - TOP, not lit, 10)
                   for n in (2, 1, 0))
    body += wording(254, TOP + 14, "Block", False, SMALL)
    body += wording(402, TOP + 14, "× N", False, SMALL)
    ways = [((middle, 579), (middle, 563)), ((middle, 529), (middle, 473)),
            ((middle, 443), (middle, 431)), ((middle, 371), (middle, 329)),
            ((middle, 299), (middle, 287)), ((middle, TOP - 11), (middle, 175)),
            ((middle, 145), (middle, 123)), ((middle, 91), (middle, 77)),
            ((middle, 45), (middle, 31)), ((middle, 230), (middle, TOP + 1))]
    body += "".join(arrow(*points, color=MUTED, width=1.3) for points in ways)
    color = MUTED if lit else LIT                  # blue is for what is new
    for norm, height, plus in BRANCHES:
        at = norm + height + (12 if norm > 400 else 8)
        body += arrow((middle, at), (side, at), (side, plus), (middle + 10, plus),
                      color=color, width=2)
        body += plus_sign(middle, plus, color)
        body += _box(norm, height, "Norm", 6, lit)
    body += _attention(372, lit) + _box(254, 32, "Feed-forward", 4, lit)
    body += path(f"M{middle} 254V248", MUTED, 1.3)
    for end in ENDS:
        body += _box(*end, lit)
    body += _changed(rest) if lit else _gone() + _legend()
    return Picture(body, WIDTH, 608, alt, scale=0.97)


def _is_lit(words: str, lit: str) -> bool:
    return not lit or words == lit


def _box(y: float, height: float, words: str, chapter: int, lit: str) -> str:
    middle = y + height / 2
    return (panel(RIGHT, y, WIDE, height, _is_lit(words, lit))
            + wording(RIGHT + 11, middle, words, False)
            + numeral(RIGHT + WIDE - 10, middle, chapter, False))


def _attention(y: float, lit: str) -> str:
    name = "Masked self-attention"
    bright = _is_lit(name, lit)
    sheets = "".join(panel(RIGHT + 12 + 6 * n, y + 34 - 4 * n, 104, 20, bright, 5)
                     for n in (2, 1, 0))
    return (panel(RIGHT, y, WIDE, 58, bright)
            + wording(RIGHT + 11, y + 14, name, False, SMALL) + sheets
            + wording(RIGHT + 19, y + 44, "attention", False, SMALL)
            + numeral(RIGHT + 110, y + 44, 2, False)
            + numeral(RIGHT + WIDE - 10, y + 44, 3, False))


def plus_sign(x: float, y: float, color: str = LIT) -> str:
    """The circle in which a residual is added."""
    ring = rect(x - 10, y - 10, 20, 20, PAPER, rx=10, class_="npt-solid")
    return (ring + rect(x - 10, y - 10, 20, 20, stroke=color, stroke_width=2, rx=10)
            + path(f"M{x - 5} {y}H{x + 5}M{x} {y - 5}V{y + 5}", color, 2))


def _gone() -> str:
    """What chapter 9 had and this model has not: outlines alone."""
    places = [(0, 300, 200, FOOT - 300, 10), (LEFT, 530, WIDE, 32, 7), (LEFT, 580, WIDE, 28, 7)]
    out = "".join(rect(x, y, width, height, stroke=MUTED, stroke_dasharray="4 4",
                       stroke_width=1.3, rx=round_)
                  for x, y, width, height, round_ in places)
    names = [(380, "Encoder"), (546, "Embed + position"), (594, "Source token ids")]
    out += "".join(text(100, y, name, 14.5, fill=MUTED) for y, name in names)
    out += text(100, 406, "and cross-attention", SMALL, fill=MUTED)
    return out


def _legend() -> str:
    rows = [(panel(0, 62, 26, 16, True, 4), "what is left"),
            (rect(0, 88, 26, 16, stroke=MUTED, stroke_dasharray="4 4", rx=4), "what is gone"),
            (text(13, 122, "3", SMALL, fill=MUTED), "the chapter that built it")]
    return (text(0, 10, "Chapter 11", SMALL, "start", MUTED)
            + text(0, 33, "A language model", 18, "start", LIT, font_weight=700)
            + "".join(sign + text(34, 70 + 26 * n, words, SMALL, "start", MUTED)
                      for n, (sign, words) in enumerate(rows)))


def _changed(rest: str) -> str:
    rows = [(panel(0, 12, 26, 16, True, 4), "what this chapter changes"),
            (panel(0, 38, 26, 16, False, 4), rest),
            (text(13, 72, "3", SMALL, fill=MUTED), "the chapter that built it")]
    return "".join(sign + text(34, 20 + 26 * n, words, SMALL, "start", MUTED)
                   for n, (sign, words) in enumerate(rows))


def visible(token: str) -> str:
    """A token with a sign for each space and each end of a line."""
    return "".join(SIGNS.get(letter, letter if letter.isprintable() else "\ufffd")
                   for letter in token)


def token_boxes(rows: Sequence[Sequence[str]], alt: str) -> Picture:
    """Texts cut into tokens, each token in a box of its own; long rows go on in the next line."""
    body, y, widest = "", 0.0, 0.0
    for tokens in rows:
        x = 0.0
        for n, token in enumerate(map(visible, tokens)):
            width = text_width(token, mono=True) + 12
            if x + width > CANVAS:
                x, y = 0.0, y + 36
            color = PALETTE[n % 3]
            body += rect(x, y, width, 30, color, rx=5, fill_opacity="0.14")
            body += rect(x, y, width, 30, stroke=color, stroke_width=1.2, rx=5)
            body += text(x + width / 2, y + 15, token, mono=True)
            x += width + 4
            widest = max(widest, x)
        y += 48
    return Picture(body, widest, y - 18, alt)


def typed(words: str, alt: str, *, n_lines: int = 6) -> Picture:
    """A text as on a typewriter: the first lines of it, broken where they are too long."""
    lines: list[str] = []
    words = "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in words)
    for line in words.split("\n"):
        lines += [line[i:i + COLUMNS] for i in range(0, max(len(line), 1), COLUMNS)]
    body = rect(0, 0, CANVAS, 21 * n_lines + 12, SOFT, rx=6)
    for n, line in enumerate(lines[:n_lines]):
        body += text(8, 16 + 21 * n, line.replace(" ", "\u00a0"), FONT, "start", mono=True)
    return Picture(body, CANVAS, 21 * n_lines + 12, alt)


def candidates(before: str, tokens: Sequence[tuple[str, float, bool, bool]], alt: str) -> Picture:
    """The likeliest next tokens: (token, chance, may it be drawn, was it drawn), best first."""
    read = visible(before)
    read = "…" + read[1 - COLUMNS:] if len(read) > COLUMNS else read
    body = rect(0, 0, CANVAS, 30, SOFT, rx=6) + text(8, 15, read, FONT, "start", mono=True)
    for n, (token, chance, allowed, drawn) in enumerate(tokens):
        y = 54 + 26 * n
        color = PALETTE[2] if drawn else PALETTE[0] if allowed else LINE
        body += text(136, y, visible(token), FONT, "end", INK if allowed else MUTED, mono=True,
                     font_weight=700 if drawn else None)
        body += rect(146, y - 9, max(300 * chance, 1), 18, color, rx=3)
        body += text(456, y, fixed(chance, 2), FONT, "start", MUTED)
    return Picture(body, CANVAS, 54 + 26 * len(tokens) - 12, alt)
