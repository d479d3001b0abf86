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
    panel,
)
from .svg import MUTED, PALETTE, Picture, arrow, element, group, text

WORDS = re.compile(r"<text.*?</text>")


def show_map(chapter: int | None = None) -> Picture:
    """The whole model; the part that the chapter builds is lit, the others link to theirs.

    Without a chapter nothing is lit; chapter 9 builds the whole, so all of it is.
    """
    if chapter is not None and chapter not in CHAPTERS:
        raise ValueError(f"chapter must be one of 1 to {len(CHAPTERS)}, got {chapter}.")
    body = _linked(frames(), chapter) + arrows() + _linked(gradients(), chapter)
    body += _linked(boxes(), chapter) + _legend(chapter)
    return Picture(body, WIDTH, HEIGHT, _alt(chapter), role="group", scale=0.97)


def _linked(parts, chapter: int | None) -> str:
    """The shapes of each chapter together in one link; this chapter's own are lit, and no link.

    The words stand outside, so that the link has one name, the chapter's; without shapes, none.
    """
    out = ""
    for number in dict.fromkeys(part.chapter for part in parts):
        drawn = "".join(part.draw(_is_lit(part, chapter)) for part in parts
                        if part.chapter == number)
        file, title = CHAPTERS[number]
        words, bare = "".join(WORDS.findall(drawn)), WORDS.sub("", drawn)
        out += drawn if number == chapter or not bare else element(
            "a", bare, href=f"{file}.ipynb",
            aria_label=f"Chapter {number}: {title}") + group(words, pointer_events="none")
    return out


def _is_lit(part: Part, chapter: int | None) -> bool:
    return chapter is not None and chapter in (part.chapter, part.also, 9)


def _alt(chapter: int | None) -> str:
    where = ("No part is lit." if chapter is None else
             "All of it is lit: chapter 9 puts it together." if chapter == 9 else
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
    done = "put together in this chapter" if chapter == 9 else "built in this chapter"
    rows = [(panel(0, y - 8, 26, 16, True, 4), done),
            (text(13, y + 26, "3", SMALL, fill=MUTED), "the chapter that builds it"),
            (back, "gradients, going back")]
    rows = rows if chapter is not None else rows[1:]
    return words + "".join(sign + text(34, y + 26 * n, label, SMALL, "start", MUTED)
                           for n, (sign, label) in enumerate(rows, 3 - len(rows)))
