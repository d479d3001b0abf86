"""Every figure of the book: plots made with matplotlib in one look, and the drawings.

The library itself never imports this file: `import npt_lib` does not load matplotlib.
"""

import hashlib
import html
import io
import math
import re
from collections.abc import Mapping, Sequence

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from cycler import cycler
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from .figures.arrays import column, heatmap, matrix, row
from .figures.bits import bits_of, float16_window, float_bits, powers
from .figures.diagrams import flow, shapes
from .figures.files import file_strip, files_map, parting
from .figures.graphs import graph, tree
from .figures.heads import multi_head
from .figures.language import candidates, language_model_map, token_boxes, typed
from .figures.loop import writing_loop, written
from .figures.machines import many_map, ring_of_machines
from .figures.model_map import show_map
from .figures.modern import modern_map, shared_keys, turned_clocks
from .figures.moves import broadcasting, move, product
from .figures.planes import plane, valley
from .figures.source import show_new, show_source
from .figures.svg import CANVAS, FONT, INK, LINE, MUTED, PALETTE, Picture, fixed, num
from .figures.tables import error_table, table
from .figures.tiles import tile_walk
from .figures.words import described_bars, described_lines, described_row, described_weights

__all__ = ["axes", "bars", "bits_of", "broadcasting", "candidates", "column", "described_bars",
           "described_lines", "described_row", "described_weights", "error_table", "file_strip",
           "files_map", "float16_window", "float_bits", "flow", "gradient_sizes", "graph",
           "heatmap", "language_model_map", "lines", "many_map", "matrix", "modern_map", "move",
           "multi_head", "panes", "parting", "picture", "plane", "powers", "product",
           "ring_of_machines", "row", "shapes", "shared_keys", "show", "show_map", "show_new",
           "show_source", "table", "tile_walk", "token_boxes", "tree", "turned_clocks", "typed",
           "valley", "writing_loop", "written"]

DASHES = ["-", (0, (6, 2)), (0, (2, 1.5)), (0, (7, 2, 1.5, 2)), (0, (10, 3)), (0, (1, 2.5))]
LOOK = {
    "svg.hashsalt": "npt", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": FONT,
    "font.sans-serif": ["DejaVu Sans"], "mathtext.fontset": "dejavusans",
    "figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none",
    "text.color": INK, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK,
    "axes.edgecolor": LINE, "axes.linewidth": 1.2, "axes.spines.top": False,
    "axes.spines.right": False, "axes.spines.left": False, "axes.titlelocation": "left",
    "axes.titleweight": "bold", "axes.titlesize": FONT, "axes.labelsize": FONT, "axes.titlepad": 10,
    "xtick.major.size": 0, "ytick.major.size": 0, "xtick.minor.size": 0, "ytick.minor.size": 0,
    "xtick.labelsize": FONT, "ytick.labelsize": FONT, "axes.grid": True, "axes.grid.axis": "y",
    "axes.axisbelow": True, "grid.color": LINE, "grid.linewidth": 0.8, "lines.linewidth": 2.4,
    "lines.markersize": 6.5, "lines.solid_capstyle": "round", "legend.frameon": False,
    "axes.prop_cycle": cycler(color=PALETTE, linestyle=DASHES), "patch.linewidth": 0,
    "figure.constrained_layout.use": True, "axes.unicode_minus": True,
}
DRAWING = ("annotate", "axhline", "axline", "axvline", "bar", "bar_label", "barh", "contour",
           "contourf", "errorbar", "fill_between", "hlines", "imshow", "legend", "plot", "quiver",
           "scatter", "set", "set_title", "set_xticks", "set_yticks", "step", "text", "vlines")


def look():
    """A context in which matplotlib draws as the book does; outside, the caller's look stays."""
    return mpl.rc_context(LOOK)


class BookAxes(Axes):
    """Axes that always draw in the book's look."""


for _name in DRAWING:
    setattr(BookAxes, _name, look()(getattr(Axes, _name)))


def axes(width: float = CANVAS, height: float = 300, rows: int = 1, cols: int = 1, **more):
    """A figure of so many pixels and its axes, in the book's look."""
    with look():
        figure = Figure(figsize=(width / 72, height / 72))
        return figure, figure.subplots(rows, cols, subplot_kw={"axes_class": BookAxes}, **more)


def picture(fig, alt: str) -> Picture:
    """A matplotlib figure as a Picture: the same bytes on every run and machine."""
    out = io.StringIO()
    with look():
        fig.savefig(out, format="svg", metadata={"Date": None})
    plt.close(fig)
    written = out.getvalue()
    _, _, width, height = re.findall(r'viewBox="([^"]+)"', written)[0].split()
    body = written[written.index("</defs>") + 7:written.rindex("</svg>")]
    body = f'<g stroke-linejoin="round">{_tidy(body)}</g>'
    return Picture(body, float(width), float(height), alt)


def _tidy(body: str) -> str:
    """Attributes for styles, coordinates to a tenth, only the ids that are used, made unique."""
    body = re.sub(r"<!--.*?-->", "", body, flags=re.S)
    body = re.sub(r'style="([^"]*)"', lambda m: _attributes(m[1]), body)
    body = re.sub(r' (d|x|y|width|height|transform)="([^"]*)"', _rounded, body)
    body = re.sub(r"\s+", " ", body).replace("> <", "><").replace(' "', '"').replace(" />", "/>")
    body = body.replace("xlink:href", "href")
    # matplotlib names a clip after a hash of its corners, unrounded: they are numbered instead
    names = dict.fromkeys(re.findall(r'(?:href="#|url\(#)([^")]+)', body))
    number = {name: str(n) for n, name in enumerate(names)}
    body = re.sub(r' id="([^"]+)"',
                  lambda m: f' id="{number[m[1]]}"' if m[1] in number else "", body)
    body = re.sub(r'(href="#|url\(#)([^")]+)', lambda m: m[1] + number[m[2]], body)
    tag = "f" + hashlib.sha1(body.encode()).hexdigest()[:6] + "-"
    body = re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{tag}", body)
    while "<g></g>" in body:
        body = body.replace("<g></g>", "")
    return body.strip()


def _attributes(style: str) -> str:
    pairs = (item.split(":", 1) for item in html.unescape(style).split(";") if item.strip())
    kept = [(name.strip(), value.strip()) for name, value in pairs]
    return " ".join(f'{name}="{value}"' for name, value in kept if name != "font-family")


def _rounded(match: re.Match) -> str:
    name, value = match.groups()
    value = re.sub(r"rotate\(-?0(\.0)? [^)]*\)", "", value)
    if "scale" not in value and "matrix" not in value:
        value = re.sub(r"-?\d+(\.\d+)?", lambda m: num(float(m[0])), value)
    return f' {name}="{value.strip()}"' if value.strip() else ""


def show(figure, alt: str | None = None) -> None:
    """Display a Picture, or a matplotlib figure with its alt, here and now."""
    display(figure if isinstance(figure, Picture) and alt is None else
            figure.described(alt or "") if isinstance(figure, Picture)
            else picture(figure, alt or ""))


def lines(x: Sequence[float], series: Mapping[str, Sequence[float]], alt: str, *,
          xlabel: str = "", ylabel: str = "", title: str = "", xscale: str = "linear",
          yscale: str = "linear", points: bool = False, ylim=None,
          marks: Sequence[tuple[float, str]] = (), height: float = 300) -> Picture:
    """One line for each entry of series, its name at its end; marks are labelled verticals."""
    fig, ax = axes(height=height)
    for values in series.values():
        ax.plot(x, values, marker="o" if points else None)
    ax.set(xlabel=xlabel, ylabel=ylabel, title=title, xscale=xscale, yscale=yscale, ylim=ylim)
    _plain_powers(ax)
    if xscale == "log" and len(x) <= 12:
        ax.set_xticks(x, [f"{v:g}" for v in x])
        ax.minorticks_off()
    for at, words in marks:
        ax.axvline(at, color=MUTED, linewidth=1.2, linestyle=(0, (3, 3)))
        ax.annotate(words, (at, 1), (4, -4), xycoords=ax.get_xaxis_transform(),
                    textcoords="offset points", va="top", color=MUTED)
    _name_lines(ax, series)
    return picture(fig, alt)


def panes(x: Sequence[float], cases: Mapping[str, Mapping[str, Sequence[float]]], alt: str, *,
          xlabel: str = "", ylabel: str = "", xticks=None, gap: Sequence[str] = (),
          height: float = 300) -> Picture:
    """The same lines in several cases side by side, on one scale, named at the end of the last.

    A case is a pane with its title. The area between the two lines that gap names is shaded.
    """
    fig, (panels,) = axes(height=height, cols=len(cases), sharey=True, squeeze=False)
    fig.get_layout_engine().set(wspace=0.06)               # labels of neighbours stay apart
    for ax, (title, series) in zip(panels, cases.items(), strict=True):
        for values in series.values():
            ax.plot(x, values)
        if gap:
            ax.fill_between(x, *(series[name] for name in gap), color=PALETTE[0], alpha=0.14)
        ax.set(title=title, xlabel=xlabel)
        if xticks is not None:
            ax.set_xticks(xticks)
    panels[0].set(ylabel=ylabel)
    _name_lines(panels[-1], series)
    return picture(fig, alt)


def _plain_powers(ax) -> None:
    """Powers of ten in figures of one size, and not too many: 0.01, 1,000, 1e−6."""
    for axis in (ax.xaxis, ax.yaxis):
        if axis.get_scale() == "log":
            axis.set_major_locator(LogLocator(numticks=6))
            axis.set_major_formatter(lambda value, _: power(value))
            axis.set_minor_formatter("")


def power(value: float) -> str:
    """A power of ten as a reader writes it."""
    digits = math.floor(math.log10(value) + 0.5)
    return f"{value:,.{max(-digits, 0)}f}" if -3 <= digits <= 4 else f"1e{digits}".replace("-", "−")


def _name_lines(ax, series: Mapping[str, Sequence[float]]) -> None:
    """Each name beside the last point of its line; a thin line leads to one that had to move."""
    ends = [(name, line, [v for v in values if np.isfinite(v)][-1])
            for (name, values), line in zip(series.items(), ax.lines, strict=False) if name]
    right = ax.get_xlim()[1], ax.get_ylim()[1]             # settles the limits
    place = ax.transData + ax.transAxes.inverted()
    heights = [place.transform((right[0], end))[1] for *_, end in ends]
    for (name, line, end), y, moved in zip(ends, heights, _apart(heights, 0.085), strict=True):
        color = line.get_color()
        ax.annotate(name, (1, moved), (6, 0), xycoords="axes fraction",
                    textcoords="offset points", va="center", color=color)
        if abs(moved - y) > 0.03:
            last = [x for x, v in zip(line.get_xdata(), line.get_ydata(), strict=True)
                    if np.isfinite(v)][-1]
            start = place.transform((last, end))
            ax.plot((start[0], 1.01), (start[1], moved), transform=ax.transAxes, color=color,
                    linestyle="-", linewidth=0.8, clip_on=False, zorder=1)


def _apart(heights: Sequence[float], gap: float) -> list[float]:
    """The same heights with at least a gap between neighbours, moved as little as can be.

    Neighbours that would touch form a group, and a group keeps its middle.
    """
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    groups: list[tuple[float, int]] = []                   # of each: the sum, the number
    for i, k in enumerate(order):
        total, n = heights[k] - i * gap, 1
        while groups and groups[-1][0] / groups[-1][1] > total / n:
            more, m = groups.pop()
            total, n = total + more, n + m
        groups.append((total, n))
    lowest = [total / n for total, n in groups for _ in range(n)]
    placed = list(heights)
    for i, k in enumerate(order):
        placed[k] = max(lowest[i], 0.04) + i * gap
    return placed


def bars(labels: Sequence[str], values, alt: str, *, ylabel: str = "", title: str = "",
         mark: Sequence[int] = (), ylim=None, digits: int | None = 2,
         height: float = 280) -> Picture:
    """A bar for each label, its number above it; a dict of values makes groups with a legend."""
    grouped = values if isinstance(values, Mapping) else {"": values}
    fig, ax = axes(height=height)
    width = 0.76 / len(grouped)
    for n, (name, numbers) in enumerate(grouped.items()):
        at = np.arange(len(labels)) + (n - (len(grouped) - 1) / 2) * width
        drawn = ax.bar(at, numbers, 0.92 * width, color=PALETTE[n], label=name)
        for i in mark:
            drawn[i].set_color(PALETTE[1])
        if digits is not None:
            ax.bar_label(drawn, [fixed(float(v), digits) for v in numbers], padding=2)
    ax.set(ylabel=ylabel, title=title, ylim=ylim)
    ax.set_xticks(range(len(labels)), labels)
    if len(grouped) > 1:
        with look():
            fig.legend(loc="outside upper right", ncols=len(grouped))
    return picture(fig, alt)


def gradient_sizes(names: Sequence[str], series: Mapping[str, Sequence[float]], alt: str, *,
                   xlabel: str = "", ylabel: str = "gradient norm", title: str = "") -> Picture:
    """Gradient norms by depth on a logarithmic axis: names are the layers, a line per series."""
    fig, ax = axes()
    for values in series.values():
        ax.plot(range(len(names)), values, marker="o")
    ax.set(yscale="log", xlabel=xlabel, ylabel=ylabel, title=title)
    _plain_powers(ax)
    ax.set_xticks(range(len(names)), names)
    _name_lines(ax, series)
    return picture(fig, alt)
