"""The map: the whole Transformer in one drawing, each chapter's part lit in turn."""

import re

from .map_parts import (
    CHAPTERS,
    HEIGHT,
    LIT,
    SMALL,
    WIDTH,
    Part,
    arrows,
    boxes,
    frames,
    gradients,
    joined,
    panel,
)
from .svg import MUTED, PALETTE, Picture, arrow, element, group, text

WORDS = re.compile(r"<text.*?</text>")


def show_map(chapter: int | None = None, *, whole: bool = False) -> Picture:
    """The whole model; the part that the chapter builds is lit, the others link to theirs.

    Without a chapter nothing is lit, or the whole. Chapter 9 joins the parts: the arrows between
    them are lit, and say which shapes go along them.
    """
    if chapter is not None and chapter not in CHAPTERS:
        raise ValueError(f"chapter must be one of 1 to {len(CHAPTERS)}, got {chapter}.")
    body = _linked(frames(), chapter, whole) + arrows() + _linked(gradients(), chapter, whole)
    body += _linked(boxes(), chapter, whole) + _legend(chapter)
    body += joined() if chapter == 9 else ""
    return Picture(body, WIDTH, HEIGHT, _alt(chapter), role="group", scale=0.97)


def _linked(parts, chapter: int | None, whole: bool) -> str:
    """The shapes of each chapter together in one link; this chapter's own are lit, and no link.

    The words stand outside, so that the link has one name, the chapter's; without shapes, none.
    """
    out = ""
    for number in dict.fromkeys(part.chapter for part in parts):
        drawn = "".join(part.draw(whole or _is_lit(part, chapter)) for part in parts
                        if part.chapter == number)
        file, title = CHAPTERS[number]
        words, bare = "".join(WORDS.findall(drawn)), WORDS.sub("", drawn)
        out += drawn if number == chapter or not bare else element(
            "a", bare, href=f"{file}.ipynb",
            aria_label=f"Chapter {number}: {title}") + group(words, pointer_events="none")
    return out


def _is_lit(part: Part, chapter: int | None) -> bool:
    return chapter is not None and chapter in (part.chapter, part.also)


def _alt(chapter: int | None) -> str:
    where = ("No part is lit." if chapter is None else
             "Lit: the arrows between the parts, which chapter 9 joins, with their shapes. Ids are "
             "(B, S) on the left and (B, T) on the right; embedded, (B, S, D) and (B, T, D); the "
             "encoder's output, the memory, is (B, S, D); out of the decoder comes (B, T, D), out "
             "of the linear layer (B, T, V)." if chapter == 9 else
             "Lit: the loss and the gradients, of chapter 10, Training." if chapter == 10 else
             f"Lit: {CHAPTERS[chapter][1]}, built in chapter {chapter}.")
    return ("Map of the Transformer. Source tokens pass through embedding and positions into the "
            "encoder blocks; target tokens likewise into the decoder blocks, which also attend to "
            "the encoder's output; a linear layer and softmax give the next token. Dashed arrows "
            "show the gradients: from the loss back through softmax, the linear layer and the "
            f"decoder, from there into the encoder, and down to both embeddings. {where}")


def _legend(chapter: int | None) -> str:
    """Upper left: which chapter this is, and how to read the drawing."""
    words, y = "", 20
    if chapter is not None:
        words = (text(0, 10, f"Chapter {chapter}", SMALL, "start", MUTED)
                 + text(0, 33, CHAPTERS[chapter][1], 18, "start", LIT, font_weight=700))
        y = 70
    back = arrow((26, y + 52), (0, y + 52), color=PALETTE[1], dash="4 3")
    done = ((arrow((0, y), (26, y), color=LIT, width=2.2), "joined in this chapter")
            if chapter == 9 else (panel(0, y - 8, 26, 16, True, 4), "built in this chapter"))
    rows = [done,
            (text(13, y + 26, "3", SMALL, fill=MUTED), "the chapter that builds it"),
            (back, "gradients, going back")]
    rows = rows if chapter is not None else rows[1:]
    return words + "".join(sign + text(34, y + 26 * n, label, SMALL, "start", MUTED)
                           for n, (sign, label) in enumerate(rows, 3 - len(rows)))
