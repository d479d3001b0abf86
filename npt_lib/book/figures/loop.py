"""The loop of writing: what is read, how likely each next token is, and the way back in."""

from collections.abc import Sequence

from .svg import (
    CANVAS,
    INK,
    LINE,
    MUTED,
    PALETTE,
    PAPER,
    SOFT,
    Picture,
    arrow,
    fixed,
    num,
    path,
    rect,
    text,
    text_width,
)

READ, WRONG, WRITE = PALETTE[0], PALETTE[1], PALETTE[2]
ROW, NAMES, BAR, EDGE = 25.0, 84.0, 250.0, 508.0
N_BARS = 4
MODEL, SLOTS = 140.0, 226.0                  # the middles of the model's box and of the tokens
FOOT = 268.0


def writing_loop(source: str, read: Sequence[str], chances: Sequence[tuple[str, float]], alt: str,
                 *, slots: int = 8) -> Picture:
    """One turn: the model reads the tokens so far; the likeliest next one goes back in.

    chances are the likeliest tokens, best first, with their probabilities.
    """
    if not read or not chances or len(read) >= slots:
        raise ValueError(f"a turn needs 1 to {slots - 1} tokens that are read, and chances, "
                         f"got {len(read)} and {len(chances)}.")
    at = [CANVAS * (i + 0.5) / slots for i in range(slots)]
    body = "".join(_bar(n, *one) for n, one in enumerate(chances[:N_BARS])) + _model(source)
    for i, x in enumerate(at):
        word = read[i] if i < len(read) else chances[0][0] if i == len(read) else ""
        body += _token(x, word, WRITE if i == len(read) else READ if word else LINE)
    for x in at[:len(read)]:
        body += arrow((x, SLOTS - 17), (x, MODEL + 23), color=READ)
    for n, words in enumerate(("is written,", "goes back in"), 1):
        body += text(EDGE, ROW * (n + 0.5), words, anchor="end", fill=WRITE)
    y, edge = ROW / 2, EDGE + 8
    body += arrow((NAMES + BAR + 64, y), (edge, y), (edge, FOOT), (at[len(read)], FOOT),
                  (at[len(read)], SLOTS + 17), color=WRITE, width=2)
    return Picture(body, CANVAS, FOOT + 6, alt)


def _bar(n: int, word: str, chance: float) -> str:
    """A token, its bar, its probability; the first is written."""
    y, best = ROW * (n + 0.5), n == 0
    return (text(NAMES - 10, y, word, anchor="end", fill=WRITE if best else INK,
                 font_weight=700 if best else None)
            + rect(NAMES, y - 8, BAR, 16, SOFT, rx=3)
            + rect(NAMES, y - 8, max(BAR * chance, 1), 16, WRITE if best else MUTED, rx=3)
            + text(NAMES + BAR + 10, y, fixed(chance, 2), anchor="start", fill=MUTED))


def _model(source: str) -> str:
    """The box that the beginning goes into; the source is always there."""
    words = f"the model, with the source: {source}"
    middle = NAMES + BAR / 2
    return (arrow((middle, MODEL - 20), (middle, ROW * N_BARS + 3), color=INK)
            + rect(0, MODEL - 20, 490, 40, SOFT, stroke=MUTED, rx=7)
            + text(12, MODEL, words, anchor="start"))


def _token(x: float, word: str, color: str) -> str:
    """A place for a token, empty or not."""
    width = max(text_width(word) + 10, 34.0)
    return (rect(x - width / 2, SLOTS - 15, width, 30, PAPER, rx=6, class_="npt-solid")
            + rect(x - width / 2, SLOTS - 15, width, 30, stroke=color, rx=6,
                   stroke_width=2 if word else 1.2, stroke_dasharray=None if word else "3 4")
            + (text(x, SLOTS, word) if word else ""))


def written(rows: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]], alt: str, *,
            slots: int = 7) -> Picture:
    """Lines of tokens: those that are as wanted in green, the others in orange and underlined."""
    body = ""
    for n, (line, right) in enumerate(zip(rows, wanted, strict=True)):
        for i, word in enumerate(line[:slots]):
            x, y = CANVAS * (i + 0.5) / slots, 14 + 34 * n
            good = i < len(right) and word == right[i]
            body += text(x, y, word, 16, fill=WRITE if good else WRONG, font_weight=600)
            if not good:
                half = 0.56 * text_width(word, 16)
                body += path(f"M{num(x - half)} {y + 12}H{num(x + half)}", WRONG, 1.8)
    return Picture(body, CANVAS, 34 * len(rows) - 6, alt)
