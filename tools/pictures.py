"""The small pictures of the landing page, one for each chapter, those of the race, and README's.

    python tools/pictures.py          draw them into book/figures/
"""

import json
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
from benchmarks import charts  # noqa: E402
from npt_lib import tasks  # noqa: E402
from npt_lib.book import plots  # noqa: E402
from npt_lib.book.figures import svg  # noqa: E402
from npt_lib.book.figures.language import plus_sign  # noqa: E402
from npt_lib.book.figures.model_map import _legend  # noqa: E402
from npt_lib.book.figures.svg import MUTED, Picture, element, num  # noqa: E402

FOLDER = ROOT / "book" / "figures"
RACE = ROOT / "benchmarks" / "report" / "results.json"
SECOND = ROOT / "benchmarks" / "second" / "results.json"
WHERE = ROOT / "benchmarks" / "where" / "results.json"
LAW = ROOT / "book" / "beyond" / "scaling_law.json"
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


def by_hand(body: str, alt: str) -> Picture:
    """A picture of the one size, drawn by hand."""
    return Picture(body, WIDTH, HEIGHT, alt, scale=1)


def chapter_1() -> Picture:
    """Letters of a size that a phone leaves readable."""
    blue, orange = svg.PALETTE[:2]
    body = svg.rect(59, 12, 50, 80, svg.SOFT, rx=10)
    body += svg.rect(59, 12, 50, 80, stroke=MUTED, stroke_width=1.3, rx=10)
    body += svg.text(84, 52, "f", 26)
    for x, value in ((19, "x"), (149, "y")):
        body += svg.text(x, 29, value, 23) + svg.text(x, 76, f"d{value}", 23, fill=orange)
    for x in (37, 112):
        body += svg.arrow((x, 31), (x + 19, 31), color=blue, width=2)
        body += svg.arrow((x + 19, 77), (x, 77), color=orange, width=2)
    return by_hand(body, "A value goes through a function, and its gradient comes back.")


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
        body += plus_sign(x + 50, trunk, blue)
    return by_hand(body, "A straight trunk; each sublayer is a branch added to it.")


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


def chapter_11() -> Picture:
    """Pieces of a text, and bars for what might come next."""
    x, blue = 4.0, svg.PALETTE[0]
    body = ""
    for wide in (30, 18, 36, 24):
        body += svg.rect(x, 8, wide, 22, blue, opacity="0.45", rx=5)
        x += wide + 5
    body += svg.rect(x, 8, 36, 22, stroke=svg.PALETTE[1], stroke_width=2, rx=5,
                     stroke_dasharray="4 3")
    for n, share in enumerate((0.62, 0.21, 0.1, 0.04)):
        body += svg.rect(x, 40 + 15 * n, 36, 10, svg.SOFT, rx=3)
        body += svg.rect(x - 120 * share - 6, 40 + 15 * n, 120 * share, 10,
                         svg.PALETTE[1], opacity="0.75")
    return by_hand(body, "A text in pieces, and four candidates for the next one.")


def chapter_12() -> Picture:
    """One arrow, turned by the same angle for each place."""
    x, y, r = WIDTH / 2, 92, 82
    body = svg.path(f"M{num(x - r)} {y}A{r} {r} 0 0 1 {num(x + r)} {y}", svg.LINE)
    for n, angle in enumerate(np.radians([150, 120, 90, 60, 30])):
        tip = (x + r * np.cos(angle), y - r * np.sin(angle))
        color = svg.PALETTE[1] if n == 4 else svg.PALETTE[0]
        body += svg.group(svg.arrow((x, y), tip, color=color, width=3),
                          opacity=("0.25", "0.4", "0.6", "0.8", None)[n])
    return by_hand(body, "An arrow, turned a little further at each place of a sentence.")


def chapter_13() -> Picture:
    """The triangle of causal attention in tiles; a window reads a band of it."""
    body, side, n = "", 12.4, 8
    for row in range(n):
        for col in range(n):
            near = 0 <= row - col <= 2
            fill, opacity = ((svg.PALETTE[0], "0.7" if near else "0.2") if col <= row
                             else (svg.SOFT, None))
            body += svg.rect(34 + side * col, 3 + side * row, side - 1.6, side - 1.6, fill,
                             opacity=opacity, rx=2)
    return by_hand(body, "A triangle of tiles: the near ones are read, the far ones left out.")


def chapter_14() -> Picture:
    """A number in 32 bits, in 16 and in 8: sign, exponent, digits."""
    body, wide = "", WIDTH / 32
    digits, exponent, sign = svg.PALETTE[:3]
    for row, (n, n_exponent) in enumerate(((32, 8), (16, 8), (8, 0))):
        for bit in range(n):
            color = sign if bit == 0 else exponent if bit <= n_exponent else digits
            body += svg.rect(wide * bit, 8 + 33 * row, wide - 1.2, 22, color, opacity="0.65")
    return by_hand(body, "A number in 32 bits, in 16 and in 8.")


def chapter_15() -> Picture:
    """The losses of chapter 15's scaling law, smaller for larger models."""
    runs = [r for r in json.loads(LAW.read_text("utf8")) if r["stage"] == "last"]
    sizes = sorted({r["parameters"] for r in runs})
    losses = [np.mean([r["loss"] for r in runs if r["parameters"] == size]) for size in sizes]
    across, down = np.log(sizes), np.log(losses)
    xs = 16 + 136 * (across - across[0]) / (across[-1] - across[0])
    ys = 14 + 74 * (down[0] - down) / (down[0] - down[-1])
    slope, start = np.polyfit(xs, ys, 1)
    body = svg.path(f"M6 4V98H{WIDTH - 4}", svg.LINE)
    body += svg.path(f"M10 {num(start + 10 * slope)}L160 {num(start + 160 * slope)}",
                     svg.PALETTE[1], 2)
    body += "".join(element("circle", cx=x, cy=y, r=5, fill=svg.PALETTE[0])
                    for x, y in zip(xs, ys, strict=True))
    return by_hand(body, "Six sizes of a model: the larger, the smaller its loss, along a line.")


def chapter_16() -> Picture:
    """A folder, and a model with the folder's numbers in it."""
    blue, orange = svg.PALETTE[:2]
    body = svg.path("M6 30V86H64V22H38L32 30Z", MUTED, 2, fill=svg.SOFT, stroke_linejoin="round")
    for n, wide in enumerate((34, 42, 28)):
        body += svg.rect(14, 42 + 13 * n, wide, 6, orange, opacity="0.7", rx=2)
    body += svg.arrow((72, 54), (98, 54), color=blue, width=2.5)
    for n in range(4):
        body += svg.rect(108, 6 + 24 * n, 54, 19, svg.SOFT, rx=5)
        body += svg.rect(108, 6 + 24 * n, 54, 19, stroke=MUTED, stroke_width=1.3, rx=5)
        body += svg.rect(116, 12.5 + 24 * n, (34, 42, 28, 38)[n], 6, orange, opacity="0.7", rx=2)
    return by_hand(body, "A folder of weights becomes a model.")


def pictures() -> dict[str, Picture]:
    """File name and picture, for every chapter."""
    return {f"chapter-{n:02}.svg": globals()[f"chapter_{n}"]() for n in range(1, 17)}


def races() -> dict[str, Picture]:
    """File name and picture, for the pages on speed."""
    results = json.loads(RACE.read_text("utf8"))
    page = (FOLDER.parent / "making_it_fast.md").read_text("utf8")
    pairs = {charts.file_of(form): charts.pair(form) for form in results["forms"]}
    return {name: drawn for name, drawn in pairs.items() if f"figures/{name}" in page} | {
            "race-training.svg": charts.training(results),
            "race-older.svg": charts.training(json.loads(SECOND.read_text("utf8")),
                                              " on the older processor"),
            "race-writing.svg": charts.writing(results),
            "savings.svg": charts.worth(results),
            "where.svg": charts.where(json.loads(WHERE.read_text("utf8"))["found"])}


def sentence() -> str:
    """What README shows: the landing page's sentence and its translation, as they are stored."""
    cells = json.loads((FOLDER.parent / "index.ipynb").read_text("utf8"))["cells"]
    shown = ["".join(output.get("data", {}).get("text/html", "")) for cell in cells
             for output in cell.get("outputs", [])]
    (page,) = (html for html in shown if "the cat lost her red ball becomes" in html)
    drawn = page[(start := page.index("<svg ")):page.index("</svg>", start)] + "</svg>"
    return drawn.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)


def main() -> int:
    drawings = {name: picture.svg for name, picture in (pictures() | races()).items()}
    for name, drawing in (drawings | {"sentence.svg": sentence()}).items():
        file, drawn = FOLDER / name, drawing + "\n"
        if not file.exists() or file.read_text("utf8") != drawn:
            file.write_text(drawn, "utf8")
            print(f"{name}: written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
