"""Explorers: one output with two lives, and frames that agree with their controls."""

import base64
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from npt_lib.book import plots, widgets
from npt_lib.book.figures.svg import Picture, rect
from npt_lib.book.widgets import MOST_FRAMES, Live, between, explore

WORDS = ["the", "cat", "lost"]


def square(size, filled=False, color="red"):
    """A picture that says which choice it was drawn for."""
    return Picture(rect(0, 0, size, size), size, size, f"size {size}, {filled}, {color}")


def page(explorer):
    return explorer._repr_mimebundle_()["text/html"]


class Page(HTMLParser):
    """The controls, and the frames with their words, as a browser without scripts sees them."""

    def __init__(self, html):
        super().__init__()
        self.controls, self.open, self.first = [], [], None
        self.feed(html)
        self.frames = re.findall(r'class="npt-stored">(.*?)</script>', html)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag in ("input", "select"):
            self.controls.append((attrs.get("type", tag), attrs))
        if attrs.get("class") == "npt-first":
            self.first = attrs
        if tag not in ("input", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_stored_output_is_html_alone():
    bundle = explore(square, None, size=[1, 2, 4])._repr_mimebundle_()
    assert {"text/html", "text/plain"} == set(bundle)
    assert bundle["text/plain"] == "Explorer: size"


@pytest.mark.parametrize("values, halves", [
    ([1, 2, 4], 2), ([1, 2, 3], 1), (WORDS, 1), ([False, True], 1),
])
def test_the_kernels_half_is_shown_where_there_is_something_between(monkeypatch, values, halves):
    shown = []
    monkeypatch.setattr(widgets, "display", lambda data, raw: shown.append(data))
    explore(lambda x: Picture("", 1, 1, str(x)), None, x=values)._ipython_display_()
    assert [list(data) for data in shown] == [
        ["text/html", "text/plain"], [widgets.WIDGET_VIEW]][:halves]


def test_frames_come_in_the_order_in_which_the_page_counts_them():
    seen = Page(page(explore(square, None, size=[1, 2, 4], filled=[False, True], color=WORDS)))
    assert [kind for kind, _ in seen.controls] == ["range", "checkbox", "select"]
    counts = [int(attrs["data-n"]) for _, attrs in seen.controls]
    assert counts == [3, 2, 3] and seen.open == []
    for place, (i, j, k) in enumerate(np.ndindex(*counts)):
        alt = f"size {[1, 2, 4][i]}, {[False, True][j]}, {WORDS[k]}"
        assert f'aria-label="{alt}"' in seen.frames[place]
    assert len(seen.frames) == 18 and seen.first["alt"] == "size 1, False, the"


def test_the_first_frame_shown_is_the_start():
    html = page(explore(square, None, size=[1, 2, 4], filled=[False, True],
                        start={"size": 2, "filled": True}))
    assert Page(html).first["alt"] == "size 2, True, red"
    assert 'value="1" aria-valuetext="2"' in html and "checked>" in html
    assert re.search(r'data-t="1\|2\|4">2</output>', html)


def test_every_control_has_a_name_and_forgets_on_reload():
    html = page(explore(square, None, size=[1, 2], filled=[False, True], color=WORDS))
    html = html.replace("http://www.w3.org/2000/svg", "")
    assert html.count("<label><span>") == 3 == html.count('autocomplete="off"')
    assert " id=" not in html and "http" not in html
    assert html.count("<script") == 12 == html.count('<script type="text/html" class="npt-stored">')
    assert 'aria-live="polite"' in html


def test_two_explorers_on_a_page_do_not_share_an_id():
    draw = lambda slope: plots.lines([0, 1], {"a": [0, slope]}, f"slope {slope}", points=True)
    ids = re.findall(r' id="([^"]+)"', page(explore(draw, None, slope=[1, 2, 3])))
    assert ids and len(ids) == len(set(ids))


def test_frames_have_the_colours_of_the_page():
    explorer = explore(lambda size: plots.matrix([[size]], "one"), None, size=[1, 2, 4])
    assert "var(--npt-ink" in page(explorer) and "var(--npt-ink" in explorer.at([2])["html"]


def test_the_kernel_answers_for_values_between():
    explorer = explore(lambda x, color: square(1 + x, color=color), None,
                       x=np.linspace(0, 1, 5), color=WORDS)
    place = explorer.fine[0].index(0.4)                    # no frame: 0, 0.25, 0.5 …
    answer = explorer.at([place, 1])
    assert 'aria-label="size 1.4, False, cat"' in answer["html"]
    assert answer["at"] == [place, 1] and answer["texts"] == ["0.4", ""]


def test_where_draw_fails_the_kernel_says_that_there_is_no_picture():
    draw = lambda n: square({1: 10, 4: 20}[n])
    assert explore(draw, None, n=[1, 4]).at([1]) == {"at": [1], "html": None, "texts": ["2"]}


def test_the_kernels_half_knows_where_the_stored_values_stand():
    live = Live(explore(square, None, size=[1, 2, 4], color=WORDS))
    assert live.fine == [{"texts": ["1", "2", "3", "4"], "at": [0, 1, 3]}, None]
    sent = []
    live.send = sent.append
    live.asked(live, {"at": [2, 0]}, [])
    assert 'aria-label="size 3, False, the"' in sent[0]["html"]


@pytest.mark.parametrize("values, some, count", [
    ([False, True], None, None), (WORDS, None, None), (range(2, 9), None, None), ([5], None, None),
    ([3, 1, 2], None, None), ([0, 10, 20], {1, 15}, 21), ([0.0, 0.5, 1.0], {0.01, 0.99}, 101),
    ([1, 2, 4, 8, 16, 32, 64, 128, 256], {3, 7, 215}, 90), ([0.1, 1.0, 10.0], {0.316, 3.16}, 101),
    (range(0, 1000, 100), {5, 895}, 181), ([-1, 0, 3], {1, 2}, 5),
])
def test_between_the_values(values, some, count):
    """Whole numbers stay whole, uneven steps are divided by ratio, the given values stay."""
    found = between(list(values))
    assert (found and len(found)) == count
    if found:
        assert set(values) | some <= set(found) and found == sorted(found)
        assert {type(value) for value in found} == {type(values[0])}


def test_a_listed_control_keeps_to_its_values():
    assert explore(square, None, size=[1, 2, 4], listed=["size"]).fine == [None]


def test_a_button_plays_one_control():
    html = page(explore(square, None, filled=[False, True], size=[1, 2], play="size", interval=50))
    assert html.count("<button") == 1 and 'data-c="1" data-ms="50"' in html
    assert "<button" not in page(explore(square, None, size=[1, 2]))


def test_draw_may_return_anything_that_shows():
    def draw(kind):
        fig, ax = plots.axes()
        ax.plot([0, 1])
        made = {"figure": fig, "text": "<b>bold</b>", "picture": square(1)}[kind]
        return (made, "a & b") if kind == "picture" else made

    html = page(explore(draw, lambda kind: f"this is a {kind}", kind=["figure", "text", "picture"]))
    assert [f'aria-label="this is a {kind}"' in frame for kind, frame in zip(
        ("figure", "text", "picture"), Page(html).frames)] == [True] * 3
    assert 'alt="this is a figure"' in html
    assert '<p class="npt-caption">a &amp; b</p>' in html and "<b>bold</b>" in html


@pytest.mark.parametrize("call, message", [
    (lambda: explore(square, None, size=range(1, 12), color=list("abcdef")),
     r"1 to 60 frames, got 66 \(size: 11 × color: 6\)"),
    (lambda: explore(square, None), r"1 to 60 frames, got 1 \(none\)"),
    (lambda: explore(square, None, size=[]), r"size needs at least one value, got none"),
    (lambda: explore(square, None, size=[1, 2], start={"size": 3}),
     r"start: size must be one of \[1, 2\], got 3"),
    (lambda: explore(square, None, size=[1, 2], play="sise"),
     r"play: one of size is required, got 'sise'"),
    (lambda: explore(square, None, size=[1, 2], listed=["sise"]),
     r"listed: one of size is required, got 'sise'"),
    (lambda: explore(lambda size: "text", None, size=[1, 2]), r"needs alt, .* got None"),
    (lambda: explore(lambda size: plots.axes()[0], None, size=[1, 2]), r"a figure needs alt"),
])
def test_errors_name_what_is_required(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_limit_itself_is_allowed():
    html = page(explore(square, None, size=range(1, MOST_FRAMES + 1)))
    assert len(Page(html).frames) == MOST_FRAMES == 60


def test_a_frame_of_a_plot_is_light():
    draw = lambda n: plots.lines(np.arange(50), {"a": np.sin(np.arange(50) / n)}, "a wave")
    html = page(explore(draw, None, n=[1, 2, 3, 4]))
    frames = Page(html).frames
    assert len(frames) == 4 and max(map(len, frames)) < 11_000


def test_the_first_frame_is_an_image_that_any_viewer_shows():
    seen = Page(page(explore(square, None, size=[3, 5], start={"size": 5})))
    kind, data = seen.first["src"].split(",")
    assert kind == "data:image/svg+xml;base64"
    assert base64.b64decode(data).decode() == square(5).svg
