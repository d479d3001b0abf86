"""The race as pictures: a dot for the middle round, a line from the least round to the most."""

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.contestants import REFERENCE
from benchmarks.report import Results, duration, gain, shares
from npt_lib.book.figures import svg
from npt_lib.book.figures.svg import LINE, MUTED, PALETTE, Picture, element, num

LEFT, RIGHT, TOP, ROW, GAP = 78, 470, 64, 25, 17      # pixels
LEVEL = (0.8, 1.25)                                   # between these, nobody leads in training,
WIDE = (0.7, 1.3)                                     # and in all else: see the page's second race
TRAINING = {"npt": "we, keeping memory", "npt-bare": "we, not keeping it"}
WRITING = {"npt": "we", "jax": "JAX, compiled"}
COLORS = {"npt": PALETTE[0], "npt-bare": PALETTE[0], "jax": PALETTE[1]}


@dataclass(frozen=True)
class Panel:
    """Ratios of all rounds by contestant and group, under a heading."""

    heading: str
    groups: Mapping[str, Mapping[str, Sequence[float]]]


def ratios(numbers: Results, key: str) -> list[float]:
    """The time of a contestant over the reference's, round by round."""
    seconds = numbers["seconds"]
    return [a / b for a, b in zip(seconds[key], seconds[REFERENCE], strict=True)]


def training(results: Results, where: str = "") -> Picture:
    """A step of training, for each size."""
    return draw([_panel("", results["train"], TRAINING)], TRAINING, 2.25,
                f"A training step{where}, as a part of PyTorch's time", LEVEL)


def writing(results: Results) -> Picture:
    """64 tokens written with a cache, for each size: one sequence, and a batch."""
    panels = [_panel(heading, {size: numbers[kind] for size, numbers in results["decode"].items()},
                     WRITING)
              for kind, heading in (("one", "one sequence"), ("batch", "a batch at once"))]
    return draw(panels, WRITING, 1.5, "Writing 64 tokens, as a part of PyTorch's time", WIDE)


def _panel(heading: str, by_group: Mapping[str, Results], names: Mapping[str, str]) -> Panel:
    return Panel(heading, {group: {key: ratios(numbers, key) for key in names}
                           for group, numbers in by_group.items()})


def draw(panels: Sequence[Panel], names: Mapping[str, str], most: float, title: str,
         band: tuple[float, float]) -> Picture:
    """Panels under each other, on one axis from 0 to `most`; 1 is the reference, its band level."""

    def at(ratio: float) -> float:
        return LEFT + (RIGHT - LEFT) * ratio / most

    body, y = "", float(TOP)
    for panel in panels:
        if panel.heading:
            body += svg.text(0, y, panel.heading, anchor="start", font_weight=600)
            y += ROW
        for group, by_key in panel.groups.items():
            body += svg.text(0, y + ROW * (len(names) - 1) / 2, group, anchor="start")
            for key in names:
                body += _spread([at(r) for r in by_key[key]], y, key)
                body += svg.text(RIGHT + 44, y, f"{statistics.median(by_key[key]):.2f}",
                                 anchor="end", fill=COLORS[key])
                y += ROW
            y += GAP
    bottom = y - GAP
    low, high = map(at, band)
    axis = svg.rect(low, TOP - 16, high - low, bottom - TOP + 16, LINE, opacity="0.45")
    for tick in (n / 2 for n in range(int(2 * most) + 1)):
        reference = tick == 1
        axis += svg.path(f"M{num(at(tick))} {TOP - 16}V{num(bottom)}", MUTED if reference else LINE,
                         2 if reference else 1)
        axis += svg.text(at(tick), bottom + 13, f"{tick:g}", fill=MUTED)
    axis += svg.text(at(1), TOP - 27, "PyTorch", fill=MUTED)
    axis += svg.text(LEFT, TOP - 27, "← faster", anchor="start", fill=MUTED)
    return Picture(_legend(names) + axis + body, RIGHT + 48, bottom + 22,
                   _words(panels, names, title))


def _spread(xs: Sequence[float], y: float, key: str) -> str:
    """The line from the least to the most, and the mark of the middle: a shape and a colour."""
    x, color = statistics.median(xs), COLORS[key]
    line = svg.path(f"M{num(min(xs))} {num(y)}H{num(max(xs))}", color, 2.5, stroke_linecap="round")
    return line + _mark(x, y, key)


def _mark(x: float, y: float, key: str) -> str:
    """A square for JAX, a circle for us: hollow where it keeps no memory."""
    if key == "jax":
        return svg.rect(x - 5.3, y - 5.3, 10.6, 10.6, COLORS[key])
    if key == "npt-bare":
        return element("circle", cx=x, cy=y, r=5, fill=svg.PAPER, stroke=COLORS[key],
                       stroke_width=2.5)
    return element("circle", cx=x, cy=y, r=6, fill=COLORS[key])


def _legend(names: Mapping[str, str]) -> str:
    body, x = "", 6.0
    for key, name in names.items():
        body += _mark(x, 8, key)
        body += svg.text(x + 13, 8, name, anchor="start", fill=COLORS[key])
        x += 13 + svg.text_width(name) + 26
    return body


def _words(panels: Sequence[Panel], names: Mapping[str, str], title: str) -> str:
    """The middle of all rounds, for those who cannot see the picture."""
    parts = []
    for panel in panels:
        said = "; ".join(
            f"{name} " + ", ".join(f"{statistics.median(by_key[key]):.2f} at {group}"
                                   for group, by_key in panel.groups.items())
            for key, name in names.items())
        parts.append(f"{panel.heading}: {said}" if panel.heading else said)
    return f"{title}. {'. '.join(parts)}."


MEMORY = "memory that stays"
# of Linear: by multiplications; each D to F, and each attention's four D to D, is one
# of its biases: by width; that of F is one
USES = {"precision of Linear": 14, "ReLU backward": 4, "softmax of short rows": 6,
        "layer norm": 10, "embedding gradient, vocabulary of 32": 2, "Adam": 1,
        "bias gradient": 11}                 # how often each form stands in a step of SMALL
SHORT = {"precision of Linear": "float32 in Linear",
         "the largest of each row, np.sum": "shifted, np.sum",
         "one parameter at a time": "one at a time",
         "embedding gradient, vocabulary of 32": "embedding gradient"}


@dataclass(frozen=True)
class Saving:
    """What a form gains by itself, and what a step saves by it."""

    name: str
    times: float
    ms: float


def savings(results: Results) -> list[Saving]:
    """Of each form, and of the line that keeps memory: its gain, and what a step saves by it."""
    small = results["train"]["SMALL"]["seconds"]
    timed = {form["name"]: form for form in results["forms"]}
    timed[MEMORY] = {"before": small["npt-bare"], "after": small["npt"]}
    return [Saving(SHORT.get(name, name), gain(timed[name]),
                   1e3 * uses * statistics.median(
                       a - b for a, b in zip(timed[name]["before"], timed[name]["after"],
                                             strict=True)))
            for name, uses in ({MEMORY: 1} | USES).items()]


def worth(results: Results) -> Picture:
    """Two bars for each form: how many times as fast it is, and the milliseconds of a step."""
    forms = savings(results)
    starts, wide = (176, 356), 130
    body = "".join(svg.text(x, 8, words, anchor="start", fill=MUTED)
                   for x, words in zip(starts, ("times as fast", "ms saved in a step"),
                                       strict=True))
    largest = (max(form.times for form in forms), max(form.ms for form in forms))
    for n, form in enumerate(forms):
        y = 36 + 30 * n
        body += svg.text(0, y, form.name, anchor="start")
        for i, (x, value) in enumerate(zip(starts, (form.times, form.ms), strict=True)):
            long = max(wide * value / largest[i], 1.5)
            body += svg.rect(x, y - 9, long, 18, PALETTE[1 - i], rx=2)
            body += svg.text(x + long + 6, y, said(value), anchor="start", fill=PALETTE[1 - i])
    words = "; ".join(f"{form.name} {said(form.times)} times, {said(form.ms)} ms"
                      for form in forms)
    return Picture(body, 528, 36 + 30 * len(forms) - 12,
                   f"How many times as fast each form is, and what a step of SMALL saves: {words}.")


def pair(form: Results) -> Picture:
    """Two bars: the middle time of a form, and of the one that took its place."""
    bars = [(SHORT.get(form["from"], form["from"]), form["before"], MUTED),
            (form["to"].replace("npt_lib.", "").replace("npt_lib", "the library"), form["after"],
             PALETTE[0])]
    middle = [statistics.median(times) for _, times, _ in bars]
    start, wide, body, words = 184, 150, "", []
    for n, ((name, _, color), time) in enumerate(zip(bars, middle, strict=True)):
        y, long = 9 + 24 * n, max(wide * time / max(middle), 1.5)
        body += svg.text(start - 12, y, name, anchor="end", fill=color)
        body += svg.rect(start, y - 8, long, 16, color, rx=2)
        body += svg.text(start + long + 6, y, duration(time), anchor="start", fill=color)
        words.append(f"{name} {duration(time)}")
    return Picture(body, start + wide + 80, 42, f"{form['name']}: {'; '.join(words)}.")


def file_of(form: Results) -> str:
    """Where the picture of a form lies."""
    return "gain-" + re.sub(r"[^a-z0-9]+", "-", form["name"].lower()) + ".svg"


def said(value: float) -> str:
    """A number with one digit after the point, or two where it is small."""
    return f"{value:.{1 if value > 0.1 else 2}f}"


PARTS = ("matrix products", "calls", "the rest")


def where(found: Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]) -> Picture:
    """A bar for each size: how a step's time is shared."""
    body, x = "", float(LEFT)
    for part, color in zip(PARTS, PALETTE, strict=False):
        body += svg.rect(x, 0, 14, 14, color, rx=2)
        body += svg.text(x + 20, 8, part, anchor="start", fill=color)
        x += 20 + svg.text_width(part) + 26
    words, y = [], 44
    for size, kinds in found.items():
        parts = shares(kinds["step"])
        body += svg.text(0, y, size, anchor="start")
        x = float(LEFT)
        for share, color in zip(parts, PALETTE, strict=False):
            wide = (RIGHT - LEFT) * share
            body += svg.rect(x, y - 13, wide, 26, color, opacity="0.85")
            if share > 0.05:
                body += svg.text(x + wide / 2, y, f"{share:.0%}", fill=svg.PAPER, font_weight=600)
            x += wide
        y += 38
        *first, last = (f"{share:.0%}" for share in parts)
        words.append(f"{size} {', '.join(first)} and {last}")
    return Picture(body, RIGHT + 8, y - 12,
                   "Where the time of a training step goes, as shares of products, calls and the "
                   f"rest: {'; '.join(words)}.")
