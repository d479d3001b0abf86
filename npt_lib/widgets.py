"""Explorers: one output, live where a kernel runs, drawn beforehand where none does."""

import base64
import html
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product

import ipywidgets as live
import numpy as np

from .figures.svg import Picture, themed

MOST_FRAMES = 60

# Runs in the page, as the explorer's own `oninput`: reads the controls, writes their values,
# shows the stored frame that belongs to them.
SWITCH = (
    "var i=0;this.querySelectorAll('[data-n]').forEach(function(c){"
    "var v=c.type=='checkbox'?+c.checked:c.selectedIndex>=0?c.selectedIndex:+c.value;"
    "i=i*c.dataset.n+v;var o=c.parentNode.querySelector('output');"
    "if(o){o.value=o.dataset.t.split('|')[v];c.setAttribute('aria-valuetext',o.value)}});"
    "this.querySelector('.npt-frame').innerHTML="
    "this.querySelectorAll('.npt-stored')[i].textContent")


def explore(draw: Callable, alt: str | Callable | None, *, start: Mapping | None = None,
            **controls: Iterable) -> "Explorer":
    """A figure with controls: sliders, menus, tick boxes, one for each keyword.

    Numbers make a slider, texts a menu, [False, True] a tick box. draw(**choice) returns a
    figure, a Picture, an SVG or HTML text, or any of these with a caption. alt is a text, a
    function of the same choice, or None where the Pictures carry their own. At most 60 frames.
    """
    values = {name: _values(name, given) for name, given in controls.items()}
    count = math.prod(map(len, values.values()))
    if not values or count > MOST_FRAMES:
        sizes = " × ".join(f"{name}: {len(found)}" for name, found in values.items()) or "none"
        raise ValueError(f"an explorer has 1 to {MOST_FRAMES} frames, got {count} ({sizes}).")
    first = {name: found[0] for name, found in values.items()} | dict(start or {})
    for name, value in first.items():
        if value not in values.get(name, []):
            raise ValueError(f"start: {name} must be one of {values.get(name, [])}, got {value!r}.")
    return Explorer(partial(_frame, draw, alt), values, first)


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


class Explorer(live.VBox):
    """Live widgets for a kernel; for the stored notebook and the page, HTML with every frame."""

    def __init__(self, frame: Callable, values: Mapping[str, list], first: Mapping):
        self._page, self._names = page(frame, values, first), ", ".join(values)
        shown = live.HTML()
        controls = {name: _live(name, found, first[name]) for name, found in values.items()}

        def redraw(_=None):
            shown.value = frame({n: control.value for n, control in controls.items()}).html(card)

        for control in controls.values():
            control.observe(redraw, "value")
        redraw()
        super().__init__([*controls.values(), shown])

    def __repr__(self) -> str:
        return f"Explorer: {self._names}"

    def _repr_mimebundle_(self, **options):
        bundle = super()._repr_mimebundle_(**options)
        bundle = bundle[0] if isinstance(bundle, tuple) else bundle
        return {**bundle, "text/html": self._page, "text/plain": repr(self)}


def _live(name: str, values: list, first):
    """The live control: any value between the ends where the steps are even."""
    words = {"description": name.replace("_", " "), "style": {"description_width": "initial"}}
    if values == [False, True]:
        return live.Checkbox(value=first, **words)
    if isinstance(values[0], str):
        return live.Dropdown(options=values, value=first, **words)
    steps = np.diff(values)
    if len(values) > 2 and np.allclose(steps, steps[0]) and steps[0] > 0:
        whole = all(isinstance(value, int) for value in values)
        kind = live.IntSlider if whole else live.FloatSlider
        step = int(steps[0]) if whole else float(steps[0]) / 5
        return kind(min=values[0], max=values[-1], step=step, value=first, **words)
    return live.SelectionSlider(options=[(f"{v:g}", v) for v in values], value=first, **words)


def page(frame: Callable, values: Mapping[str, list], first: Mapping) -> str:
    """Plain HTML: the controls, the first frame, and all frames stored for the controls to show."""
    rows = [_row(name, found, found.index(first[name])) for name, found in values.items()]
    choices = [dict(zip(values, combination)) for combination in product(*values.values())]
    frames = [frame(choice) for choice in choices]
    shown = frames[choices.index(dict(first))].html(image)
    stored = [f'<script type="text/html" class="npt-stored">{one.html(of_page)}</script>'
              for one in frames]
    return (f'<div class="npt-explorer" role="group" aria-label="Explorer: {", ".join(values)}" '
            f'oninput="{SWITCH}">\n<div class="npt-controls">{"".join(rows)}</div>\n'
            f'<div class="npt-frame" aria-live="polite">\n{shown}\n</div>\n'
            + "\n".join(stored) + "\n</div>")


def _row(name: str, values: list, at: int) -> str:
    """One labelled control; no stored state, so that a reload starts at the first frame shown."""
    label = f'<span>{html.escape(name.replace("_", " "))}</span>'
    common = f'data-n="{len(values)}" autocomplete="off"'
    if values == [False, True]:
        control = f'<input type="checkbox" {common}{" checked" if at else ""}>'
    elif isinstance(values[0], str):
        options = "".join(f'<option{" selected" if i == at else ""}>{html.escape(value)}</option>'
                          for i, value in enumerate(values))
        control = f"<select {common}>{options}</select>"
    else:
        texts = [f"{value:g}" for value in values]
        control = (f'<input type="range" {common} min="0" max="{len(values) - 1}" value="{at}" '
                   f'aria-valuetext="{texts[at]}"><output aria-live="off" '
                   f'data-t="{"|".join(texts)}">{texts[at]}</output>')
    return f"<label>{label} {control}</label>"
