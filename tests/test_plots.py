"""Figures: the same bytes everywhere, words for everyone, colours that can be told apart."""

import itertools
import linecache
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as tree
from pathlib import Path

import numpy as np
import pytest

import npt_lib as npt
from npt_lib.book import plots
from npt_lib.book.figures import arrays
from npt_lib.book.figures.map_parts import CHAPTERS
from npt_lib.book.figures.svg import (
    INK,
    MINUS,
    PALETTE,
    PAPER,
    PLUS,
    ROLES,
    STRONGEST,
    fixed,
    num,
    themed,
)

ROOT = Path(__file__).resolve().parent.parent
WORDS = ["the", "cat", "lost", "her", "red", "ball"]
W = np.random.default_rng(0).dirichlet(np.ones(6), 6)


def matplotlib_figure():
    fig, ax = plots.axes()
    ax.plot(np.linspace(0, 1, 9), np.linspace(0, 1, 9) ** 2, "o-")
    return fig


FIGURES = {
    "heatmap": lambda alt: plots.heatmap(W, WORDS, WORDS, alt, values=True, mask=W > 0.05),
    "large heatmap": lambda alt: plots.heatmap(np.outer(W, W), None, None, alt),
    "matrix": lambda alt: plots.matrix(W - 0.2, alt, rows=WORDS, mark=[(0, 1)], title="scores"),
    "sheets": lambda alt: plots.matrix(np.arange(24).reshape(2, 3, 4), alt),
    "row": lambda alt: plots.row(plots.matrix([1, 2], "two"), "+", "more", alt=alt),
    "product": lambda alt: plots.product(W[:2, :3], W[:3, :4], alt, cell=(1, 2)),
    "named product": lambda alt: plots.product(np.eye(3)[:2], W[:3, :2], alt, cols="12", largest=1),
    "stacked product": lambda alt: plots.product(W.reshape(2, 3, 6), W[:6, :2], alt,
                                                 cell=(1, 0, 1)),
    "broadcasting": lambda alt: plots.broadcasting(W[:2, :3], W[0, :3], alt),
    "move": lambda alt: plots.move(np.arange(6).reshape(2, 3), np.transpose, "x.T", alt),
    "shapes": lambda alt: plots.shapes("x (B, T, D)", "reshape", "(B, T, H, K)", alt=alt,
                                       sizes={"T": 6, "D": 8}),
    "flow": lambda alt: plots.flow("x", "[Linear]", "y", alt=alt, back=True),
    "lines": lambda alt: plots.lines([1, 2, 4], {"a": [1, 2, 3], "b": [3, 2, 3]}, alt, xscale="log",
                                     marks=[(2, "here")]),
    "panes": lambda alt: plots.panes([0, 40, 80], {case: {"a": W[0, :3], "b": W[1, :3]}
                                                   for case in ("exact", "rounded")}, alt,
                                     gap=("a", "b"), xticks=(0, 40, 80), ylabel="logit"),
    "bars": lambda alt: plots.bars(WORDS, {"before": W[0], "after": W[1]}, alt, mark=[1]),
    "gradient_sizes": lambda alt: plots.gradient_sizes("123", {"norm": [1e-3, 1e-2, 1]}, alt),
    "plane": lambda alt: plots.plane({"q": (1, 2), "k": (2, -1)}, alt, circle=1, title="a plane",
                                     trails={"her": W[:4, :2]}, points={"cat": (0.5, 0.1)},
                                     colors={"k": 1}, faint=["k"], xlabel="living"),
    "valley": lambda alt: plots.valley(lambda x, y: x * x + 4 * y * y, {"a": W[:, :2]}, alt,
                                       limits=(-1, 1, -1, 1), levels=[0.5, 1, 2], best=(0, 0)),
    "graph": lambda alt: plots.graph({"a": "", "b": "", "u": "a * b", "y": "u + a"}, alt,
                                     values={"a": 2, "u": 6}, gradients={"a": 4},
                                     paths={("a", "u"): 3}, mark=["y"], digits=0),
    "tree": lambda alt: plots.tree([[("las", 0.6, 0, True), ("el", 0.4, 0, True)],
                                    [("casas", 0.5, 0, True), ("gato", 0.3, 1, False)]], alt,
                                   best=0),
    "multi_head": lambda alt: plots.multi_head(alt),
    "writing_loop": lambda alt: plots.writing_loop("a ball", ["<bos>", "la"], [("pelota", 0.75)],
                                                   alt),
    "written": lambda alt: plots.written([["la", "roja"]], [["la", "pelota"]], alt),
    "heads": lambda alt: plots.row(*(plots.heatmap(W, WORDS, WORDS, "a head") for _ in range(4)),
                                   alt=alt),
    "picture": lambda alt: plots.picture(matplotlib_figure(), alt),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_well_formed_labelled_and_portable(name):
    figure = FIGURES[name]("what it <shows>")
    root = tree.fromstring(figure.svg)
    assert root.get("role") == "img" and root.get("aria-label") == "what it <shows>"
    assert not re.search(r"var\(|style=|<style|currentColor|<script", figure.svg)
    unknown = set(re.findall(r'"(#[0-9a-f]{6})"', figure.svg)) - set(ROLES.values())
    assert not unknown, f"{name} has colours that do not follow the page: {unknown}"
    assert set(figure._repr_mimebundle_()) == {"image/svg+xml", "text/plain"}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_needs_words(name):
    with pytest.raises(ValueError, match="a figure needs alt"):
        # a row may take its words from its parts
        FIGURES[name](" ")


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_fits_a_phone(name):
    assert FIGURES[name]("what it shows").width <= 520


@pytest.mark.parametrize("name", FIGURES)
def test_its_labels_can_be_read_on_a_phone(name):
    figure = FIGURES[name]("what it shows")
    shown = min(1, 358 / (figure.width + 2 * figure.margin))
    sizes = [float(size) for size in re.findall(r'font-size="([\d.]+)"', figure.svg)]
    assert min(sizes, default=99) * shown >= 10


def test_the_map_can_be_read_on_a_phone_and_fits_a_screen():
    figure = plots.show_map(9)
    sizes = [float(size) for size in re.findall(r'font-size="([\d.]+)"', figure.svg)]
    assert min(sizes) * 358 / (figure.width + 16) >= 10
    assert float(re.search(r' height="(\d+)"', figure.svg)[1]) <= 620


def test_a_figure_fills_most_of_the_column():
    shown = float(re.search(r'width="(\d+)"', plots.lines([0, 1], {"a": [0, 1]}, "line").svg)[1])
    assert 600 <= shown <= 688


def test_a_wide_array_moves_together():
    for n in (2, 8, 10):
        drawn = plots.matrix(-0.12 * np.ones((6, n)), "numbers", rows=WORDS)
        assert drawn.width <= 520


def test_drawing_leaves_the_look_of_other_plots_alone():
    code = """
import matplotlib as mpl
before = dict(mpl.rcParams)
import npt_lib as npt
from npt_lib.book import plots
from npt_lib.book.figures import arrays
fig, ax = plots.axes()
line, = ax.plot([0, 1], [0, 1])
plots.picture(fig, "a line")
after = dict(mpl.rcParams)
print(before == after, line.get_linewidth(), line.get_color())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "2.4", PALETTE[0]]


@pytest.mark.parametrize("value, words", [
    (0.001, "0.001"), (1.0, "1"), (10_000, "10,000"), (1e-6, "1e−6"), (1e6, "1e6")])
def test_powers_of_ten_need_no_small_print(value, words):
    assert plots.power(value) == words


def test_an_id_is_used_and_belongs_to_one_figure():
    one, two = (plots.lines([0, 1], {"a": [0, n]}, "line", points=True).svg for n in (1, 2))
    for svg in (one, two):
        ids = re.findall(r' id="([^"]+)"', svg)
        assert ids and len(ids) == len(set(ids))
        assert set(ids) == set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
    assert not set(re.findall(r' id="([^"]+)"', one)) & set(re.findall(r' id="([^"]+)"', two))


PRINT_ALL = """
import hashlib, sys
sys.path.insert(0, "tests")
from test_plots import FIGURES, plots
for name, draw in FIGURES.items():
    print(name, hashlib.sha256(draw("a figure").svg.encode()).hexdigest())
for chapter in range(1, 11):
    print(chapter, hashlib.sha256(plots.show_map(chapter).svg.encode()).hexdigest())
"""


def _hashes(**environment):
    done = subprocess.run([sys.executable, "-c", PRINT_ALL], cwd=ROOT, capture_output=True,
                          text=True, env={**os.environ, **environment}, check=True)
    return done.stdout


def test_figures_are_the_same_bytes_in_every_process():
    first = _hashes(PYTHONHASHSEED="0")
    assert len(first.splitlines()) == len(FIGURES) + 10
    assert first == _hashes(PYTHONHASHSEED="7", OPENBLAS_CORETYPE="Prescott",
                            OPENBLAS_NUM_THREADS="1")


def test_a_last_bit_does_not_move_a_figure():
    for value in (0.125, 0.5, 12.35, 100.05, 7.0, 0.0):
        for nudged in (np.nextafter(value, -1), value, np.nextafter(value, 1e9)):
            assert num(nudged) == num(value) and fixed(nudged, 2) == fixed(value, 2)
    x = np.linspace(0, 1, 17)
    drawn = {plots.lines(x, {"a": y}, "a line").svg for y in (x**2, np.nextafter(x**2, 2))}
    assert len(drawn) == 1


def test_what_is_smaller_than_a_tenth_of_a_pixel_changes_no_byte():
    """Not even the names of what is clipped: matplotlib hashes its corners, unrounded."""
    def drawn(shift):
        fig, ax = plots.axes()
        ax.plot([1, 2], [3, 4])
        ax.set_position([0.1, 0.1 + shift, 0.8, 0.8])
        fig.set_layout_engine("none")
        return plots.picture(fig, "a line").svg

    assert drawn(1e-12) == drawn(0) != drawn(0.1)


@pytest.mark.parametrize("value, digits, words", [
    (0.125, 2, "0.13"), (-0.125, 2, "−0.13"), (-0.001, 2, "0.00"), (2.5, 0, "3"),
    (-np.inf, 1, "−∞"), (np.nan, 1, "nan"), (1.0, 3, "1.000"),
])
def test_numbers_are_printed_the_same_way_everywhere(value, digits, words):
    assert fixed(value, digits) == words


# the map

def test_the_map_lights_its_chapter_and_links_to_the_others():
    for chapter in CHAPTERS:
        svg = plots.show_map(chapter).svg
        links = re.findall(r'<a href="(\d\d)_\w+\.ipynb" aria-label="Chapter (\d+): ', svg)
        assert all(int(file) == int(number) for file, number in links)
        assert {int(n) for _, n in links} == set(CHAPTERS) - {chapter, 9}
        assert f"Chapter {chapter}</text>" in svg
        inside = re.findall(r"<a href=[^>]*>(.*?)</a>", svg)
        assert len(inside) == len(links) and all("<rect" in one or "<path" in one
                                                 for one in inside)
    drawings = {plots.show_map(chapter).svg for chapter in [None, *CHAPTERS]}
    assert len(drawings) == 11


def test_chapter_9_lights_the_arrows_it_joins_and_says_their_shapes():
    svg = plots.show_map(9).svg
    for shape in ("(B, S)", "(B, T)", "(B, S, D)", "memory (B, S, D)", "(B, T, V)"):
        assert f">{shape}</text>" in svg
    lit = 'fill-opacity="0.16"'
    assert lit not in svg and lit in plots.show_map(8).svg, "no box is built in chapter 9"
    assert plots.show_map(whole=True).svg.count(lit) > plots.show_map(8).svg.count(lit)


def test_a_turn_of_the_loop_needs_something_read_and_a_place_to_write():
    for read in ([], ["<bos>"] * 8):
        with pytest.raises(ValueError, match="a turn needs 1 to 7 tokens"):
            plots.writing_loop("a ball", read, [("la", 0.5)], "a turn")


def test_the_map_is_a_group_so_that_its_links_can_be_reached():
    root = tree.fromstring(plots.show_map(2).svg)
    assert root.get("role") == "group" and "chapter 2 builds" not in root.get("aria-label")
    assert "Lit: Attention, built in chapter 2." in root.get("aria-label")


def test_the_map_has_no_gradient_to_token_ids():
    dashed = re.findall(r'<path d="M([^"]+)"[^>]*stroke-dasharray="4 3"', plots.show_map(10).svg)
    lowest = max(float(pair.split()[1]) for d in dashed for pair in d.split("L"))
    assert lowest < 556, "an arrow goes below the embedding, which ends at 556"


def test_an_unknown_chapter_is_named():
    with pytest.raises(ValueError, match=r"chapter must be one of 1 to 10, got 11\."):
        plots.show_map(11)


# arrays

def test_a_heatmap_has_a_key_unless_it_has_numbers():
    keyed = plots.heatmap(W, WORDS, WORDS, "looks", vmax=0.7).svg
    assert ">0</text>" in keyed and ">0.7</text>" in keyed and ">−0.7</text>" not in keyed
    assert ">−2</text>" in plots.heatmap(W - 0.5, None, None, "signed", vmax=2).svg
    assert ">0.7</text>" not in plots.heatmap(W, WORDS, WORDS, "looks", vmax=0.7, values=True).svg
    assert ">0.7</text>" not in plots.heatmap(W, WORDS, WORDS, "looks", vmax=0.7, key=False).svg


def test_heatmaps_in_a_row_share_one_key():
    assert FIGURES["heads"]("four heads").svg.count(">1</text>") == 1


def test_no_line_of_a_row_ends_in_an_arrow():
    wide, narrow = (plots.matrix(np.ones((2, n)), f"{n} columns") for n in (5, 2))
    for parts, sizes in [([wide, "->", wide], [1, 2]), ([narrow, "->", narrow, "="], [4]),
                         ([narrow, "->", wide, "*", "->", wide], [3, 3])]:
        assert [len(line) for line in arrays._wrap(arrays._units(parts), 520, 14)] == sizes


def test_each_array_move_keeps_the_colour_of_every_element():
    x = np.arange(6).reshape(2, 3)
    svg = plots.move(x, lambda a: a.swapaxes(0, 1), "swap", "moved").svg
    before, after = svg.split("swap")
    for color in PALETTE[:2]:
        assert before.count(color) == after.count(color) == 1        # one path for each colour
        cells = [part.split(f'fill="{color}"')[0].rsplit('d="', 1)[1].count("M")
                 for part in (before, after)]
        assert cells == [3, 3]


def test_broadcasting_draws_only_one_copy_as_real():
    svg = plots.broadcasting(np.zeros((2, 3)), np.arange(1.0, 4), "a row over a matrix").svg
    assert svg.count('stroke-dasharray="3 4"') == 1
    assert svg.count(">1.00</text>") == 2 + 2                       # stretched, and the result


@pytest.mark.parametrize("draw, message", [
    (lambda: plots.heatmap(W[0], WORDS, WORDS, "x"), r"weights must have two axes .* \(6,\)"),
    (lambda: plots.heatmap(W, WORDS[:4], WORDS, "x"), r"rows needs 6 labels, .* got 4\."),
    (lambda: plots.shapes("x (A, B, C, D, E)", alt="x"), r"1 to 4 axes, got 5: x \(A,"),
    (lambda: plots.table([["a"]], ["one", "two"]), r"each row needs 2 cells, .* got 1 in \['a'\]"),
    (lambda: plots.table([["a", 1]], ["", "one"]), r"not empty, got \['', 'one'\]"),
    (lambda: plots.error_table({}), r"at least one error, got none"),
])
def test_errors_name_what_is_required(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()


# tables

def test_the_error_table_prints_a_bound_and_fails_where_it_does_not_hold():
    written = plots.error_table({"dx": 3e-10, "W": 2e-9}, bound=1e-8)._repr_html_()
    assert written.count("&lt; 1e-08") == 2 and "e-10" not in written
    for error in (2e-8, float("nan")):
        with pytest.raises(ValueError, match=r"dx: relative error .* must be below 1e-08"):
            plots.error_table({"dx": error}, bound=1e-8)


def test_a_table_is_text_where_there_is_no_html():
    assert repr(plots.table([["x", "(T, D)"]], ["name", "shape"])) == "name  shape\nx     (T, D)"


def mine(x, y):
    z = x + y
    if z > 3: z = 3                                    # noqa: E701
    return z


def finished(
    x: float, y: float, scale=1.0
) -> float:
    """The sum, scaled."""
    z: float = x + y                                   # (T, D)
    if z > 3: z = 3                                    # noqa: E701

    if scale != 1:
        z = z * scale
    else:
        z = z + 0
    return z


def test_only_what_is_new_is_shown():
    shown = plots.show_new(mine, finished)
    assert repr(shown).split("\n") == [
        "- def mine(x, y):", "+ def finished(", "+     x: float, y: float, scale=1.0",
        "+ ) -> float:", "      z: float = x + y                                   # (T, D)",
        "      if z > 3: z = 3                                    # noqa: E701",
        "+     if scale != 1:", "+         z = z * scale", "+     else:", "+         z = z + 0",
        "      return z"]
    written = shown._repr_markdown_()
    assert written.startswith("```diff\n- def mine") and '"""The sum, scaled."""' not in written


def test_types_comments_and_line_breaks_are_nothing_new():
    def relu(x):                                       # as a reader writes it
        check_floats("relu", x)                        # noqa: F821
        y = np.maximum(x, 0)

        def backward(dy):
            return dy * (y > 0)

        return (
            y, backward)

    assert repr(plots.show_new(relu, npt.relu)).startswith("Nothing is new")


def test_what_is_alike_is_said_to_be_so_or_left_out():
    same = plots.show_new(mine, mine)
    assert repr(same) == "Nothing is new: it is what you have just written."
    long = "def long(x):\n" + "".join(f"    x = x + {n}\n" for n in range(9)) + "    return x\n"
    spaces = {}
    for name, code in (("a", long), ("b", long.replace("return x", "return x * 2"))):
        file = f"<{name}>"
        linecache.cache[file] = (len(code), None, code.splitlines(True), file)
        exec(compile(code, file, "exec"), space := {})
        spaces[name] = space["long"]
    assert repr(plots.show_new(spaces["a"], spaces["b"])).split("\n") == [
        "  …", "      x = x + 8", "-     return x", "+     return x * 2"]


def test_the_source_of_a_class_from_a_notebook_is_found():
    code = "import math\n\n\nclass Box:\n    def area(self):\n        return 4\n\n\nBox()\n"
    linecache.cache["<cell>"] = (len(code), None, code.splitlines(True), "<cell>")
    exec(compile(code, "<cell>", "exec"), space := {"__name__": "__main__"})
    assert repr(plots.show_source(space["Box"])) == (
        "class Box:\n    def area(self):\n        return 4")


def test_source_can_fold():
    written = plots.show_source(num, fold=True)._repr_markdown_()
    assert written.startswith("<details>\n<summary>The whole of <code>num</code>, 3 lines")
    assert written.endswith("```\n\n</details>")


# descriptions

def test_descriptions_are_made_from_numbers():
    assert plots.described_row([0.1, 0.7, 0.2], "abc", "her") == (
        "her looks most at b, 0.70, then c, 0.20, then a, 0.10")
    assert plots.described_weights(np.eye(2), ["x", "y"], ["a", "b"]) == (
        "x looks most at a, 1.00; y looks most at b, 1.00")
    assert plots.described_bars("ab", [0.5, 2]) == "a 0.50, b 2.00"
    assert plots.described_lines([1, 2, 3], {"loss": [3, 1, 2], "": [np.nan, 4, 5]}) == (
        "loss: 3 at 1, 2 at 3, lowest 1 at 2; 4 at 2, 5 at 3")


# planes and graphs

def test_names_in_a_plane_do_not_cover_each_other():
    svg = plots.plane({"one": (1, 1), "two": (1.02, 1), "three": (1, 1.02)}, "three arrows").svg
    spots = re.findall(r'<text x="([\d.]+)" y="([\d.]+)"[^>]*paint-order[^>]*>(\w+)', svg)
    assert len(spots) == 3
    for (x0, y0, _), (x1, y1, _) in itertools.combinations(spots, 2):
        assert abs(float(y0) - float(y1)) >= 15 or abs(float(x0) - float(x1)) >= 25


def test_a_graph_goes_from_left_to_right():
    svg = plots.graph({"x": "", "w": "", "u": "x * w", "y": "u + x"}, "a graph").svg
    left = {name: float(re.search(rf'translate\(([\d.]+) [^>]*>(?:<rect[^>]*>)*<text[^>]*>{name}',
                                  svg)[1]) for name in ("w", "u", "y")}
    assert 0 <= left["w"] < left["u"] < left["y"]
    assert svg.count("<path") == 2 * 4, "an arrow for each use"


def test_source_comes_from_the_package():
    shown = plots.show_source(num, fixed)
    assert repr(shown).startswith("def num(") and "\n\n\ndef fixed(" in repr(shown)
    assert shown._repr_markdown_() == f"```python\n{shown!r}\n```"


# colours

def _dark():
    css = (ROOT / "_static/book.css").read_text("utf8")
    dark = css[css.index('html[data-theme="dark"]'):]
    return dict(re.findall(r"--npt-(\w+): (#[0-9a-f]{6})", dark[:dark.index("}")]))


def _linear(color):
    c = np.array([int(color[i:i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4), c


def _contrast(a, b):
    low, high = sorted(float(c @ [0.2126, 0.7152, 0.0722]) for c in (a, b))
    return (high + 0.05) / (low + 0.05)


LIGHT = {**ROLES}
DARK = {**_dark(), "paper": "#14181d"}
SCHEMES = {"light": LIGHT, "dark": DARK}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_colour_can_be_read_on_its_page(scheme):
    colors = SCHEMES[scheme]
    paper = _linear(colors["paper"])[0]
    for role in ["ink", "muted", *(f"c{i}" for i in range(6))]:
        assert _contrast(_linear(colors[role])[0], paper) >= 4.5, role


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_number_can_be_read_on_the_strongest_cell(scheme):
    colors = SCHEMES[scheme]
    for role, most in [("plus", STRONGEST), ("minus", STRONGEST),
                       *((f"c{i}", 0.5 * STRONGEST) for i in range(5))]:
        for alpha in np.linspace(0, most, 6):
            mixed = alpha * _linear(colors[role])[1] + (1 - alpha) * _linear(colors["paper"])[1]
            cell = np.where(mixed <= 0.04045, mixed / 12.92, ((mixed + 0.055) / 1.055) ** 2.4)
            assert _contrast(_linear(colors["ink"])[0], cell) >= 4.5, (role, alpha)


# what three kinds of colour blindness make of linear RGB (Machado, Oliveira and Fernandes, 2009)
BLINDNESS = {
    "none": np.eye(3),
    "red": np.array([[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]]),
    "green": np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]),
    "blue": np.array([[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]]),
}


def _lab(linear):
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722],
                    [0.0193, 0.1192, 0.9505]]) @ linear / [0.9505, 1, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("kind", BLINDNESS)
def test_colours_differ_for_the_colour_blind(scheme, kind):
    seen = [_lab(np.clip(BLINDNESS[kind] @ _linear(SCHEMES[scheme][f"c{i}"])[0], 0, 1))
            for i in range(6)]
    closest = min(float(np.linalg.norm(a - b)) for a, b in itertools.combinations(seen, 2))
    assert closest > 8, closest


def test_every_role_is_set_for_dark_and_replaced_in_a_page():
    css = (ROOT / "_static/book.css").read_text("utf8")
    for role in ROLES:
        assert f"--npt-{role}:" in css, role
    page = themed(plots.matrix([[1.0, -2.0]], "two").svg)
    assert f'"var(--npt-plus, {PLUS})"' in page and f'"var(--npt-minus, {MINUS})"' in page
    assert f'"{INK}"' not in page and f'"{PAPER}"' not in page


def test_importing_the_library_loads_no_matplotlib():
    code = "import sys, npt_lib; print({'matplotlib', 'ipywidgets', 'IPython'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_space_and_the_end_of_a_line_are_seen():
    boxes = plots.token_boxes([["a", " b", "\n"], ["\x1f"]], "four tokens").svg
    for shown in (">a<", ">␣b<", ">⏎<", ">\ufffd<"):
        assert shown in boxes


def test_tokens_go_on_in_the_next_line():
    assert plots.token_boxes([["word"] * 30], "many").height > plots.token_boxes(
        [["word"] * 3], "few").height


def test_what_a_model_types_is_a_drawing_whatever_it_types():
    drawn = plots.typed("a < b\n" + "x" * 60 + "\x00\n\nlast", "typed", n_lines=4)
    tree.fromstring(drawn.svg)
    assert drawn.svg.count("<text") == 4 and "last" not in drawn.svg


def test_candidates_show_what_is_cut_away():
    rows = [(" sum", 0.5, True, True), (" mean", 0.3, True, False), ("\n", 0.01, False, False)]
    drawn = plots.candidates("Return the " * 9, rows, "three tokens").svg
    tree.fromstring(drawn)
    assert all(color in drawn for color in (PALETTE[2], PALETTE[0]))
    assert ">…" in drawn and ">0.50<" in drawn and ">⏎<" in drawn


def test_the_map_of_chapter_11_names_the_chapters_that_built_it():
    drawn = plots.language_model_map("what is left").svg
    tree.fromstring(drawn)
    for words in ("Masked self-attention", "Feed-forward", "Unembedding", "Encoder",
                  "and cross-attention"):
        assert f">{words}<" in drawn
    assert len(re.findall(r">(?:1|2|3|4|5|6|10)<", drawn)) == 12


def test_the_map_of_chapter_12_sets_two_blocks_side_by_side():
    drawn = plots.modern_map("two blocks").svg
    tree.fromstring(drawn)
    for words in ("LayerNorm", "RMSNorm"):
        assert drawn.count(f">{words}<") == 3
    for words in ("Feed-forward", "SwiGLU", "keys per head", "rotary, shared keys", "Embed"):
        assert drawn.count(f">{words}<") == 1
    assert re.findall(r">([3-6])<", drawn) == list("646365")        # the chapters of the old parts


def test_heads_stand_above_the_keys_that_they_share():
    drawn = plots.shared_keys([("own", 4), ("groups", 2), ("all", 1)], 4, "shared").svg
    tree.fromstring(drawn)
    assert drawn.count(">q<") == 12 and drawn.count(">kv<") == 7


def test_clocks_add_up_to_the_match():
    hands = [(1, 0), (0, 1)], [(0.5, 0.5), (0.25, -0.25)]
    drawn = plots.turned_clocks(*hands, "ab", ("query at place 3", "key at place 1"))
    tree.fromstring(drawn.svg)
    assert drawn.alt == ("query at place 3, key at place 1: the clocks match by 0.50, −0.25, "
                         "together 0.25")
    apart = plots.turned_clocks(*hands, "ab", ("x", "y"), total=False)
    assert apart.alt == "x, y: the clocks match by 0.50, −0.25"
    assert ">+<" in drawn.svg and ">+<" not in apart.svg


def test_the_map_of_a_later_chapter_lights_one_box():
    drawn = plots.language_model_map("x", lit="Masked self-attention")
    assert "what this chapter changes" in drawn.svg and "what is gone" not in drawn.svg
    assert "Chapter 11" not in drawn.svg and ">what stays<" in drawn.svg
    assert ">fewer bits<" in plots.language_model_map("x", lit="Loss", rest="fewer bits").svg


def test_a_walk_over_tiles_says_what_is_known_so_far():
    scores, seen = np.array([[1.0, 9, 9], [0, 2, 9], [5, 1, 3]]), np.tri(3, dtype=bool)
    drawn, caption = plots.tile_walk(scores, seen, 1, 5, "abc")
    assert caption == "Tile 5: b meet b."
    assert "a: largest 1.0, total 1.00; b: largest 2.0, total 1.14" in drawn.alt
    assert "c: largest" not in drawn.alt
    _, caption = plots.tile_walk(scores, seen, 1, 2, "abc")
    assert caption == "Tile 2: a may not look at b. The tile is left out."
    drawn, caption = plots.tile_walk(scores, seen, 1, 0, "abc")
    assert caption == "Nothing is read yet." and drawn.svg.count("−∞") == 3


def test_a_ring_says_who_sends_what_and_what_is_complete():
    drawn, caption = plots.ring_of_machines([["11", "01"], ["10", "11"]], [(0, 0), (1, 1)], 1, 2)
    assert caption == "Step 1 of 2: each machine sends one chunk on, and adds what comes."
    assert "2 of 4 chunks are complete: machine 0 has 11, 01; machine 1 has 10, 11" in drawn.alt
    _, caption = plots.ring_of_machines([["11", "11"]] * 2, [(0, 0), (1, 1)], 2, 2)
    assert "takes what comes, for it is complete" in caption
    _, caption = plots.ring_of_machines([["01", "01"], ["10", "10"]], [], 0, 2)
    assert caption.startswith("Before the first step")


def test_the_map_of_many_machines():
    drawn = plots.many_map("two ways")
    assert drawn.width <= plots.CANVAS and "add" in drawn.svg and "own rate" in drawn.svg


def test_the_four_files_of_a_model_become_three_parts():
    drawn = plots.files_map("files").svg
    tree.fromstring(drawn)
    for words in ("config.json", "model.safetensors", "vocab.json", "merges.txt", "gpt_config",
                  "GPT", "its tokenizer"):
        assert drawn.count(f">{words}<") == 1


def test_a_file_is_a_strip_from_its_first_byte():
    drawn = plots.file_strip([("length", 8), ("header", 92), ("W", 24), ("tiny", 1)], 2,
                             ["shape (2, 3)"], "W").svg
    tree.fromstring(drawn)
    for words in ("W", "bytes 100 to 123", "shape (2, 3)", "125"):
        assert f">{words}<" in drawn


def test_the_first_part_that_differs_is_lit():
    names = ["embed", "h.0", "h.1", "logits"]
    drawn = plots.parting(names, [1e-8, 2e-6, 0.02, 0.31], 1e-5)
    tree.fromstring(drawn.svg)
    assert drawn.alt == "The first part that differs is h.1, by 0.02; logits by 0.3"
    assert ">2e−6<" in drawn.svg and drawn.svg.count("#c24e00") == 2
    assert plots.parting(names, [0.0] * 4, 1e-5).alt == "All 4 parts agree but for rounding"


def test_the_bits_of_a_number_in_three_formats():
    assert plots.bits_of(0.1, "float16") == ("0010111001100110", float(np.float16(0.1)))
    assert plots.bits_of(1.0, "bfloat16") == ("0011111110000000", 1.0)
    digits, value = plots.bits_of(-2.0, "float32")
    assert digits == "1" + "10000000" + "0" * 23 and value == -2
    drawn = plots.float_bits(70000.0)
    assert "float16: ∞" in drawn.alt and "bfloat16: 70144" in drawn.alt
    assert drawn.svg.count(">1</text>") + drawn.svg.count(">0</text>") == 64


def test_gradients_beside_the_range_of_float16():
    counts = plots.powers(np.array([0.0, 1.0, 1.5, -0.25, 2.0**-26, 2.0**-25]))
    assert counts == {-26: 1, -25: 1, -2: 1, 0: 2}
    drawn, words = plots.float16_window(counts, 0)
    assert words == ("Loss scale 2⁰: 20.0% vanish, 20.0% keep fewer bits, "
                     "none becomes infinite.") == drawn.alt
    assert "2 become infinite" in plots.float16_window(counts, 16)[1]
    assert "1 becomes infinite" in plots.float16_window({0: 1, 1: 1}, 15)[1]
    assert "under 0.1% vanish" in plots.float16_window({0: 5000, -30: 1}, 0)[1]


def test_names_of_lines_move_apart_as_little_as_can_be():
    found = plots._apart([0.5, 0.9, 0.52, 0.51], 0.1)
    np.testing.assert_allclose(found, [0.41, 0.9, 0.61, 0.51])     # a group about its middle
    np.testing.assert_allclose(plots._apart([0.0, -0.2], 0.1), [0.14, 0.04])


def test_panes_share_a_scale_and_name_their_lines_once():
    cases = {"near": {"up": [0, 1], "down": [0, -1]}, "far": {"up": [0, 9], "down": [0, 1]}}
    plain, shaded = (plots.panes([0, 1], cases, "two cases", gap=gap).svg
                     for gap in ((), ("up", "down")))
    for words in ("near", "far", "up", "down"):
        assert plain.count(f">{words}</text>") == 1
    assert plain.count(">8</text>") == 1                         # heights are said at the left
    assert shaded.count('fill-opacity="0.14"') == 2 and "fill-opacity" not in plain


def test_a_name_keeps_off_the_ways():
    """The end's name goes where no way passes, though outwards would be its first place."""
    ways = {"a": [(0, 0), (1, 0)], "b": [(1.1 + 0.01 * n, 0.0) for n in range(60)]}
    drawn = plots.valley(lambda x, y: x * x + y * y, ways, "two ways", limits=(-1, 2, -1, 1),
                         levels=[1]).svg
    (y,) = {float(at) for at in re.findall(r'<text[^>]* y="([\d.]+)"[^>]*>a</text>', drawn)}
    (line,) = {float(at) for at in re.findall(r'<circle[^>]* cy="([\d.]+)" r="2\.6"', drawn)}
    assert abs(y - line) > 8


def test_legs_are_thin_lines_named_at_their_last_middle_and_without_dots():
    legs = {"two steps": [(0, 0), (0, -1), (2, -1)]}
    drawn = plots.plane({"q": (1, 2)}, "a way", legs=legs, limits=3).svg
    bare = plots.plane({"q": (1, 2)}, "no way", limits=3).svg
    assert drawn.count("<path") == bare.count("<path") + 1 and "<circle" not in drawn
    (x,) = re.findall(r'<text x="([\d.]+)"[^>]*>two steps</text>', drawn)
    left, right = (float(re.search(rf'<text x="([\d.]+)"[^>]*>{n}</text>', drawn)[1])
                   for n in (0, 2))
    assert left < float(x) < right + 40             # beside (1, -1), not at the end


def test_reach_is_a_band_up_to_the_foot_of_the_perpendicular():
    drawn = plots.plane({"q": (2, 1)}, "how far", reach={"2.68": ((2, 2), (2, 1))}, limits=3).svg
    (band,) = re.findall(r'd="M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)"[^>]* stroke-width="9"', drawn)
    x0, y0, x1, y1 = map(float, band)
    scale = 380 / 6                                 # of the plane, 6 units high
    np.testing.assert_allclose([(x1 - x0) / scale, (y0 - y1) / scale], [2.4, 1.2], atol=0.01)
    (x,) = re.findall(r'<text x="([\d.]+)"[^>]*>2\.68</text>', drawn)
    assert float(x) > x1                            # the name stands beyond the foot, not on it
