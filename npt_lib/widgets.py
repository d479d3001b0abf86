"""Explorers: one output, live where a kernel runs, drawn beforehand where none does."""

import html
import math
from collections.abc import Callable, Iterable, Mapping
from itertools import product

import ipywidgets as live
import numpy as np

from .svg import Picture, themed

MOST_FRAMES = 60

# Runs in the page, as the figure's own `oninput`: reads the controls, writes their values,
# shows the one frame that belongs to them.
SWITCH = (
    "var i=0;this.querySelectorAll('[data-n]').forEach(function(c){"
    "var v=c.type=='checkbox'?+c.checked:c.selectedIndex>=0?c.selectedIndex:+c.value;"
    "i=i*c.dataset.n+v;var o=c.parentNode.querySelector('output');"
    "if(o){o.value=o.dataset.t.split('|')[v];c.setAttribute('aria-valuetext',o.value)}});"
    "this.querySelectorAll('.npt-frame').forEach(function(f,k){f.hidden=k!=i})")


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
    return Explorer(Frames(draw, alt), values, first)


def _values(name: str, given: Iterable) -> list:
    """Plain Python values, so that they print the same everywhere."""
    found = [value.item() if isinstance(value, np.generic) else value for value in given]
    if not found:
        raise ValueError(f"{name} needs at least one value, got none.")
    return found


class Frames:
    """draw and alt as one: a choice in, the HTML of its frame out."""

    def __init__(self, draw: Callable, alt: str | Callable | None):
        self.draw, self.alt = draw, alt

    def html(self, choice: Mapping, page: bool) -> str:
        """One frame; in the page's colours, or as a card with its own."""
        drawn = self.draw(**choice)
        drawn, caption = drawn if isinstance(drawn, tuple) else (drawn, "")
        alt = self.alt(**choice) if callable(self.alt) else self.alt
        words = f'<p class="npt-caption">{html.escape(caption)}</p>' if caption else ""
        return _drawing(drawn, alt, page) + words


def _drawing(drawn, alt: str | None, page: bool) -> str:
    """Whatever draw returned, as HTML."""
    if isinstance(drawn, str):
        if not alt:
            raise ValueError("an explorer of texts needs alt, a sentence or a function, got None.")
        return f'<div role="group" aria-label="{html.escape(alt)}">{drawn}</div>'
    if not isinstance(drawn, Picture):
        from .plots import picture
        drawn = picture(drawn, alt or "")
    drawn = drawn.described(alt) if alt else drawn
    return (themed(drawn.svg) if page else drawn.svg).replace(
        ' xmlns="http://www.w3.org/2000/svg"', "")


class Explorer(live.VBox):
    """Live widgets for a kernel; for the stored notebook and the page, HTML with every frame."""

    def __init__(self, frames: Frames, values: Mapping[str, list], first: Mapping):
        self._page, self._names = page(frames, values, first), ", ".join(values)
        shown = live.HTML()
        controls = {name: _live(name, found, first[name]) for name, found in values.items()}

        def redraw(_=None):
            shown.value = frames.html({n: control.value for n, control in controls.items()}, False)

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


def page(frames: Frames, values: Mapping[str, list], first: Mapping) -> str:
    """Plain HTML: the controls over all frames, of which one is shown."""
    rows = [_row(name, found, found.index(first[name])) for name, found in values.items()]
    drawn = []
    for combination in product(*values.values()):
        choice = dict(zip(values, combination, strict=True))
        hidden = "" if choice == first else " hidden"
        drawn.append(f'<div class="npt-frame"{hidden}>\n{frames.html(choice, True)}\n</div>')
    return (f'<div class="npt-explorer" role="group" aria-label="Explorer: {", ".join(values)}" '
            f'oninput="{SWITCH}">\n<div class="npt-controls">{"".join(rows)}</div>\n'
            f'<div class="npt-frames" aria-live="polite">\n' + "\n".join(drawn) + "\n</div></div>")


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
