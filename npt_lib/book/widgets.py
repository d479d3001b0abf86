"""Explorers: one output that works in the page, and better where a kernel runs.

An explorer is HTML with every frame drawn beforehand: its controls work in the rendered page and
in a trusted notebook without a kernel. Where a kernel runs, its sliders also reach the values
between the stored ones: `explorer_live.js` asks for them, the stored frames stand in meanwhile.

Needs anywidget, ipywidgets and IPython: requirements.txt brings them.
"""

import asyncio
import base64
import html
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise, product
from pathlib import Path

import anywidget
import numpy as np
import traitlets
from IPython.display import display

from .figures.svg import Picture, themed

MOST_FRAMES = 60
FINE = 100                                  # a live slider has at least so many steps
PARTS = (1, 2, 4, 5, 10, 20, 25, 50, 100)   # of each step between two given values
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
OURS = 'data-lm-suppress-shortcuts="true"'   # JupyterLab leaves a control its keys
ASLEEP = ("The controls of this explorer are asleep here. In JupyterLab, run the cell, or trust "
          "the notebook: press Ctrl+Shift+C and choose Trust Notebook.")


@cache
def _file(name: str) -> str:
    """A script or style that stands beside this file."""
    return Path(__file__).with_name(name).read_text("utf8")


@cache
def _inline(name: str) -> str:
    """A script as an attribute: its lines without comments and indentation."""
    lines = (line.strip() for line in _file(name).splitlines())
    script = " ".join(line for line in lines if line and not line.startswith("//"))
    return html.escape(script, quote=False)


def explore(draw: Callable, alt: str | Callable | None, *, start: Mapping | None = None,
            play: str | None = None, interval: int = 700, listed: Collection[str] = (),
            **controls: Iterable) -> "Explorer":
    """A figure with controls: sliders, menus, tick boxes, one for each keyword.

    Numbers make a slider, texts a menu, [False, True] a tick box. draw(**choice) returns a
    figure, a Picture, an SVG or HTML text, or any of these with a caption. alt is a text, a
    function of the same choice, or None where the Pictures carry their own. play names the
    control that a button moves on, every interval milliseconds. With a kernel a slider also
    reaches the values between the given ones, unless it is listed. At most 60 frames.
    """
    values = {name: _values(name, given) for name, given in controls.items()}
    _check(values, play, listed)
    first = {name: found[0] for name, found in values.items()} | dict(start or {})
    for name, value in first.items():
        if value not in values.get(name, []):
            raise ValueError(f"start: {name} must be one of {values.get(name, [])}, got {value!r}.")
    frame = partial(_frame, draw, alt)
    fine = [None if name in listed else between(found) for name, found in values.items()]
    return Explorer(page(frame, values, first, play, interval), frame, values, fine)


def _check(values: Mapping[str, list], play: str | None, listed: Collection[str]) -> None:
    count = math.prod(map(len, values.values()))
    if not values or count > MOST_FRAMES:
        sizes = " × ".join(f"{name}: {len(found)}" for name, found in values.items()) or "none"
        raise ValueError(f"an explorer has 1 to {MOST_FRAMES} frames, got {count} ({sizes}).")
    for option, names in (("play", [play] if play else []), ("listed", listed)):
        for name in names:
            if name not in values:
                raise ValueError(f"{option}: one of {', '.join(values)} is required, got {name!r}.")


def _values(name: str, given: Iterable) -> list:
    """Plain Python values, so that they print the same everywhere."""
    found = [value.item() if isinstance(value, np.generic) else value for value in given]
    if not found:
        raise ValueError(f"{name} needs at least one value, got none.")
    return found


@dataclass(frozen=True)
class Frame:
    """What draw returned for one choice: a Picture or an HTML text, and a caption."""

    drawn: Picture | str
    caption: str

    def html(self, form: Callable[[Picture], str]) -> str:
        """The frame, its picture in the given form."""
        words = f'<p class="npt-caption">{html.escape(self.caption)}</p>' if self.caption else ""
        return (self.drawn if isinstance(self.drawn, str) else form(self.drawn)) + words


def card(picture: Picture) -> str:
    """Inline, with its own colours."""
    return picture.svg.replace(' xmlns="http://www.w3.org/2000/svg"', "")


def of_page(picture: Picture) -> str:
    """Inline, in the page's colours."""
    return themed(card(picture))


def image(picture: Picture) -> str:
    """An image: what a viewer shows that lets neither scripts nor inline drawings through."""
    data = base64.b64encode(picture.svg.encode()).decode()
    return (f'<img class="npt-first" alt="{html.escape(picture.alt)}" '
            f'src="data:image/svg+xml;base64,{data}">')


def _frame(draw: Callable, alt: str | Callable | None, choice: Mapping) -> Frame:
    """Draw one choice, whatever kind of thing draw returns."""
    drawn = draw(**choice)
    drawn, caption = drawn if isinstance(drawn, tuple) else (drawn, "")
    words = alt(**choice) if callable(alt) else alt
    if isinstance(drawn, str):
        if not words:
            raise ValueError("an explorer of texts needs alt, a sentence or a function, got None.")
        return Frame(f'<div role="group" aria-label="{html.escape(words)}">{drawn}</div>', caption)
    if not isinstance(drawn, Picture):
        from .plots import picture
        drawn = picture(drawn, words or "")
    return Frame(drawn.described(words) if words else drawn, caption)


def between(values: list) -> list | None:
    """The values of a live slider: the given ones and others between them; None for other controls.

    Whole numbers stay whole. Uneven steps, such as 1, 2, 4, 8, are divided by ratio.
    """
    if isinstance(values[0], str | bool) or sorted(set(values)) != values or len(values) < 2:
        return None
    steps = np.diff(values)
    spread = np.linspace if values[0] <= 0 or np.allclose(steps, steps[0]) else np.geomspace
    found = dict.fromkeys(values)
    for low, high in pairwise(values):
        gap = high - low
        whole = isinstance(gap, int)
        parts = next(n for n in PARTS if n * len(steps) >= FINE or (whole and n >= gap))
        digits = None if whole else 2 - math.floor(math.log10(gap))
        inner = spread(low, high, min(parts, gap) + 1 if whole else parts + 1)[1:-1]
        found |= dict.fromkeys(round(float(x), digits) for x in inner)
    return sorted(found) if len(found) > len(values) else None


class Explorer:
    """What `explore` returns: HTML with every frame, and where a kernel runs, what is between."""

    def __init__(self, html: str, frame: Callable, values: Mapping[str, list],
                 fine: list[list | None]):
        self.html, self.frame, self.values, self.fine = html, frame, values, fine

    def __repr__(self) -> str:
        return f"Explorer: {', '.join(self.values)}"

    def _repr_mimebundle_(self, **_) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": repr(self)}

    def _ipython_display_(self) -> None:
        display(self._repr_mimebundle_(), raw=True)
        if any(self.fine):
            self.live = Live(self)
            view = {"version_major": 2, "version_minor": 0, "model_id": self.live.model_id}
            display({WIDGET_VIEW: view}, raw=True)

    def at(self, places: list[int]) -> dict:
        """The frame for these places of the live controls, or None where draw has none."""
        ladders = [fine or found for fine, found in zip(self.fine, self.values.values())]
        choice = {name: ladder[i] for name, ladder, i in zip(self.values, ladders, places)}
        try:
            drawn = self.frame(choice).html(of_page)
        except Exception:
            drawn = None
        texts = [_text(value) if fine else "" for fine, value in zip(self.fine, choice.values())]
        return {"at": places, "html": drawn, "texts": texts}


class Live(anywidget.AnyWidget):
    """The kernel's half of an explorer: it stands behind the HTML, and shows nothing itself."""

    _esm = _file("explorer_live.js")
    fine = traitlets.List().tag(sync=True)

    def __init__(self, explorer: Explorer):
        self.explorer, self.loop = explorer, _kernel_loop()
        ladders = zip(explorer.fine, explorer.values.values())
        super().__init__(fine=[fine and {"texts": [_text(value) for value in fine],
                                         "at": [fine.index(value) for value in stored]}
                               for fine, stored in ladders])
        self.on_msg(self.asked)

    def asked(self, _, question: dict, buffers) -> None:
        """Draw when the kernel is free: questions may come on a thread beside the one that runs
        the cells, and neither matplotlib nor a notebook's variables bear two at once."""
        if self.loop:
            self.loop.call_soon_threadsafe(self.answer, question["at"])
        else:
            self.answer(question["at"])

    def answer(self, places: list[int]) -> None:
        self.send(self.explorer.at(places))


def _kernel_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop of the kernel that runs this cell, if one does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def page(frame: Callable, values: Mapping[str, list], first: Mapping, play: str | None = None,
         interval: int = 700) -> str:
    """Plain HTML: the controls, the first frame, and all frames stored for the controls to show."""
    rows = [_row(name, found, found.index(first[name])) for name, found in values.items()]
    if play:
        rows.append(_player(list(values).index(play), interval))
    choices = [dict(zip(values, combination)) for combination in product(*values.values())]
    frames = [frame(choice) for choice in choices]
    shown = frames[choices.index(dict(first))].html(image)
    stored = [f'<script type="text/html" class="npt-stored">{one.html(of_page)}</script>'
              for one in frames]
    return (f'<style class="npt-style">{_file("explorer.css")}</style>\n'
            f'<div class="npt-explorer" role="group" aria-label="Explorer: {", ".join(values)}" '
            f'oninput="{_inline("explorer_page.js")}">\n<p class="npt-dead">{ASLEEP}</p>\n'
            f'<div class="npt-controls">{"".join(rows)}</div>\n'
            f'<div class="npt-frame" aria-live="polite">\n{shown}\n</div>\n'
            + "\n".join(stored) + "\n</div>")


def _player(control: int, interval: int) -> str:
    """The button that plays; for a reader who wants no motion it goes one step at a time."""
    return (f'<button type="button" class="npt-play" data-c="{control}" data-ms="{interval}" '
            f'{OURS} onclick="{_inline("explorer_play.js")}"><span>Play</span>'
            '<span style="display:none">Next step</span></button>')


def _row(name: str, values: list, at: int) -> str:
    """One labelled control; no stored state, so that a reload starts at the first frame shown."""
    label = f'<span>{html.escape(name.replace("_", " "))}</span>'
    common = f'data-n="{len(values)}" autocomplete="off" {OURS}'
    if values == [False, True]:
        control = f'<input type="checkbox" {common}{" checked" if at else ""}>'
    elif isinstance(values[0], str):
        options = "".join(f'<option{" selected" if i == at else ""}>{html.escape(value)}</option>'
                          for i, value in enumerate(values))
        control = f"<select {common}>{options}</select>"
    else:
        texts = [_text(value) for value in values]
        control = (f'<input type="range" {common} min="0" max="{len(values) - 1}" value="{at}" '
                   f'aria-valuetext="{texts[at]}"><output aria-live="off" '
                   f'data-t="{"|".join(texts)}">{texts[at]}</output>')
    return f"<label>{label} {control}</label>"


def _text(value: float) -> str:
    return f"{value:g}"
