"""The small pictures of the landing page, one for each chapter, drawn by the library.

    python tools/pictures.py          draw them into book/figures/
"""

import os
import re
import sys
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.kernel_env import ENV  # noqa: E402

os.environ.update(ENV)  # before NumPy is imported

import numpy as np  # noqa: E402

import npt_lib as npt  # noqa: E402
from npt_lib import tasks  # noqa: E402
from npt_lib.book import plots  # noqa: E402
from npt_lib.book.figures import svg  # noqa: E402
from npt_lib.book.figures.model_map import _legend  # noqa: E402
from npt_lib.book.figures.svg import MUTED, Picture, element, num  # noqa: E402

FOLDER = ROOT / "book" / "figures"
WIDTH, HEIGHT = 168, 104


def fit(picture: Picture, alt: str) -> Picture:
    """Scaled and centred: every picture has one size."""
    scale = min(WIDTH / picture.width, HEIGHT / picture.height, 1.0)
    x, y = (WIDTH - scale * picture.width) / 2, (HEIGHT - scale * picture.height) / 2
    body = element("g", picture.body, transform=f"translate({num(x)} {num(y)}) scale({scale:.3f})")
    return Picture(body, WIDTH, HEIGHT, alt, scale=1)


def grid(weights, **options) -> Picture:
    """A heatmap without words."""
    return plots.heatmap(weights, None, None, "weights", row_title="", col_title="", key=False,
                         **options)


def looks() -> np.ndarray:
    """Chapter 2's example: the scores of the cat lost her red ball, (T, T)."""
    q = np.array([[2, 2, 0, 0], [0, 0, 4, 0], [3, 3, 0, 0],
                  [4, 0, 0, 0], [0, 4, 0, 0], [0, 0, 0, 4]], float)
    k = np.array([[0, 0, 0, 0], [2, 0, 0, 0], [0, 0, 2, 0],
                  [1, 0, 0, 1], [0, 0, 0, 2], [0, 2, 0, 0]], float)
    return q @ k.T / 2


def chapter_1() -> Picture:
    drawn = plots.flow("x", "[f]", "y", alt="f", back=True)
    return fit(drawn, "A value goes through a function, and its gradient comes back.")


def chapter_2() -> Picture:
    w, _ = npt.softmax(looks())
    return fit(grid(w), "Six words by six words: a strong cell is a long look.")


def chapter_3() -> Picture:
    turns = [np.eye(6), np.eye(6, k=-1) + np.eye(6)[:, :1] * np.eye(6)[:1], np.eye(6)[[1] * 6]]
    heads = [npt.softmax(looks())[0], *(npt.softmax(3 * turn)[0] for turn in turns)]
    drawn = plots.row(*map(grid, heads), width=500, alt="heads")
    return fit(drawn, "Four heads, each with a pattern of its own.")


def chapter_4() -> Picture:
    x = np.linspace(-3, 2.2, 53)
    fig, ax = plots.axes(WIDTH, HEIGHT)
    ax.plot(x, npt.relu(x)[0])
    ax.plot(x, npt.gelu(x)[0], linestyle="-")
    ax.set(xticks=[0], yticks=[0], xticklabels=[""], yticklabels=[""])
    return fit(plots.picture(fig, "curves"), "ReLU with its corner, GELU without.")


def chapter_5() -> Picture:
    waves = npt.sinusoidal_positions(32, 40)[:, :38:2].T
    return fit(grid(waves), "Positions as waves, fast ones above and slow ones below.")


def chapter_6() -> Picture:
    """Twice: a branch that leaves the trunk, passes a box and is added."""
    trunk, top, blue = 84, 30, svg.PALETTE[0]
    body = svg.arrow((0, trunk), (WIDTH, trunk), color=blue, width=2.5)
    for x in (20, 92):
        body += svg.path(f"M{x} {trunk}V{top}H{x + 50}V{trunk - 9}", MUTED)
        body += svg.rect(x + 7, top - 14, 36, 28, svg.SOFT, rx=6)
        body += svg.rect(x + 7, top - 14, 36, 28, stroke=MUTED, stroke_width=1.3, rx=6)
        body += element("circle", cx=x + 50, cy=trunk, r=9, fill=svg.PAPER, stroke=blue,
                        stroke_width=2) + svg.text(x + 50, trunk, "+")
    alt = "A straight trunk; each sublayer is a branch added to it."
    return Picture(body, WIDTH, HEIGHT, alt, scale=1)


def chapter_7() -> Picture:
    mixed = (np.eye(6) + npt.softmax(looks())[0]) / 2
    depths = [np.linalg.matrix_power(mixed, n) for n in (1, 2, 4)]
    drawn = plots.row(*map(grid, depths), width=900, gap=30)
    return fit(drawn, "Six words mix, block after block.")


def chapter_8() -> Picture:
    causal = npt.causal_mask(6)
    w, _ = npt.softmax(looks(), causal)
    return fit(grid(w, mask=causal), "No word looks ahead: half of the square is struck out.")


def chapter_9() -> Picture:
    whole = plots.show_map(whole=True)
    bare = re.sub(r"<text.*?</text>|</?a\b[^>]*>", "", whole.body.removesuffix(_legend(None)))
    return fit(replace(whole, body=bare), "The whole Transformer, all lit.")


def chapter_10() -> Picture:
    """A model learns to reverse six numbers; where it looks while it writes.

    Few steps: once the loss is near zero, rounding decides where the training wanders.
    """
    rng = np.random.default_rng(0)
    task = tasks.reverse_numbers(rng, lengths=(6, 6))
    config = task.config(d_model=32, n_heads=1, d_ff=64, n_layers=1, dropout=0.0)
    model = npt.Transformer(config, rng).astype(np.float64)
    batches = task.batches(64, rng)
    npt.train(model, npt.Adam(model.parameters()), batches, None, 200,
              schedule=lambda step: npt.warmup_cosine(step, 5e-3, 40, 200))
    src, tgt = task.encode(task.test[:1])
    _, backward = model.forward(src, tgt[:, :-1])
    w = npt.attention_maps(backward)["decoder.0.cross"][0, 0, :6, :6]
    return fit(grid(w), "Reversing six numbers, it looks from last to first.")


def pictures() -> dict[str, Picture]:
    """File name and picture, for every chapter."""
    return {f"chapter-{n:02}.svg": globals()[f"chapter_{n}"]() for n in range(1, 11)}


def main() -> int:
    for name, picture in pictures().items():
        file, drawn = FOLDER / name, picture.svg + "\n"
        if not file.exists() or file.read_text("utf8") != drawn:
            file.write_text(drawn, "utf8")
            print(f"{name}: written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
