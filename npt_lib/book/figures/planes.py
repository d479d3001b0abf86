"""The plane: vectors as arrows, words that move, and paths down a valley."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from .svg import (
    CANVAS,
    LINE,
    MUTED,
    PALETTE,
    PAPER,
    Picture,
    arrow,
    element,
    haloed,
    num,
    path,
    text,
    text_width,
)

HEIGHT = 380                                     # of the plane, without its numbers
Point = tuple[float, float]


class Frame:
    """From numbers to pixels: the same scale along both axes."""

    def __init__(self, limits: Sequence[float], height: float):
        self.x0, self.x1, self.y0, self.y1 = map(float, limits)
        scale = min(height / (self.y1 - self.y0), (CANVAS - 50) / (self.x1 - self.x0))
        self.scale, self.left = scale, 40.0
        self.width, self.height = scale * (self.x1 - self.x0), scale * (self.y1 - self.y0)

    def at(self, point: Sequence[float]) -> Point:
        """Where a point stands."""
        x, y = (float(v) for v in point)
        return self.left + (x - self.x0) * self.scale, (self.y1 - y) * self.scale

    def step(self) -> float:
        """A round distance between the lines of the grid: 1, 2 or 5 of some power of ten."""
        raw = max(self.x1 - self.x0, self.y1 - self.y0) / 5
        power = 10.0 ** math.floor(math.log10(raw))
        return power * min((1, 2, 5, 10), key=lambda n: abs(math.log(n * power / raw)))


def plane(vectors: Mapping[str, Sequence[float]], alt: str, *,
          points: Mapping[str, Sequence[float]] | None = None,
          trails: Mapping[str, Sequence[Sequence[float]]] | None = None,
          legs: Mapping[str, Sequence[Sequence[float]]] | None = None,
          reach: Mapping[str, tuple[Sequence[float], Sequence[float]]] | None = None,
          colors: Mapping[str, int] | None = None, faint: Sequence[str] = (),
          circle: float | None = None, limits: float | Sequence[float] | None = None,
          xlabel: str = "", ylabel: str = "", title: str = "", height: float = HEIGHT) -> Picture:
    """Vectors as arrows from the origin, each named at its tip.

    points are dots; trails are ways that end in a dot, (n, 2) each; legs are ways without dots,
    named beside the middle of their last leg. reach gives a tip and a vector for a name: a
    perpendicular drops from the tip on the vector's line, and the band from the origin to its
    foot is named at the foot. colors gives the number of a palette colour for a name, faint
    names are drawn dashed. circle is a radius. limits is half the width, or (x0, x1, y0, y1):
    give it where several pictures are compared.
    """
    colors, points, trails = colors or {}, points or {}, trails or {}
    ways = {name: np.asarray(way, float) for name, way in trails.items()}
    bare = {name: np.asarray(way, float) for name, way in (legs or {}).items()}
    drops = {name: _drop(*pair) for name, pair in (reach or {}).items()}
    ends = {**{name: way[-2:].mean(axis=0) for name, way in bare.items()},
            **{name: foot for name, (_, foot, _) in drops.items()},
            **vectors, **points, **{name: way[-1] for name, way in ways.items()}}
    seen = [*ends.values(), *(point for way in (ways | bare | drops).values() for point in way)]
    frame = Frame(_limits(limits, seen, circle or 0.0), height)
    paint = {name: PALETTE[colors.get(name, 0)] for name in ends}
    body = _grid(frame, xlabel, ylabel)
    if circle:
        body += element("circle", cx=frame.at((0, 0))[0], cy=frame.at((0, 0))[1],
                        r=circle * frame.scale, fill="none", stroke=MUTED, stroke_width=1.3,
                        stroke_dasharray="5 4")
    body += "".join(_reach(frame, way, paint[name]) for name, way in drops.items())
    body += "".join(_thin(frame, way, paint[name]) for name, way in bare.items())
    body += "".join(_way(frame, way, paint[name]) for name, way in ways.items())
    body += "".join(_vector(frame, tip, paint[name], name in faint)
                    for name, tip in vectors.items())
    body += "".join(_dot(frame.at(ends[name]), paint[name]) for name in [*points, *ways])
    lines = [*bare.values(), *drops.values()]
    if lines:                                                 # names keep off them, and arrows
        lines += [np.array([(0, 0), tip], float) for tip in vectors.values()]
    lie = [frame.at(point) for way in lines for start, end in pairwise(way)
           for point in np.linspace(start, end, 30)]
    body += _names(frame, ends, paint, lie)
    return _titled(body, frame, title, xlabel, alt)


def _limits(limits, seen: Sequence, circle: float) -> Sequence[float]:
    """The corners that hold everything, the origin included."""
    if limits is not None and np.ndim(limits) == 1:
        return limits
    if limits is not None:
        return (-limits, limits, -limits, limits)
    shown = np.array([(0.0, 0.0), (circle, circle), (-circle, -circle), *map(tuple, seen)], float)
    low, high = shown.min(axis=0), shown.max(axis=0)
    room = 0.14 * max(float((high - low).max()), 1e-9)
    (x0, y0), (x1, y1) = low - room, high + room
    return (x0, x1, y0, y1)


def _grid(frame: Frame, xlabel: str, ylabel: str) -> str:
    """Lines at round numbers, the two axes stronger, the numbers at the edges."""
    step, out = frame.step(), ""
    for n in range(math.ceil(frame.x0 / step), math.floor(frame.x1 / step) + 1):
        x, _ = frame.at((n * step, 0))
        out += path(f"M{num(x)} 0V{num(frame.height)}", LINE, 1.6 if n == 0 else 0.7)
        out += text(x, frame.height + 13, _number(n * step), fill=MUTED)
    for n in range(math.ceil(frame.y0 / step), math.floor(frame.y1 / step) + 1):
        _, y = frame.at((0, n * step))
        out += path(f"M{num(frame.left)} {num(y)}H{num(frame.left + frame.width)}", LINE,
                    1.6 if n == 0 else 0.7)
        out += text(frame.left - 6, y, _number(n * step), anchor="end", fill=MUTED)
    if ylabel:
        out += text(frame.left + 6, 8, ylabel, anchor="start")
    if xlabel:
        out += text(frame.left + frame.width, frame.height + 34, xlabel, anchor="end")
    return out


def _number(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")


def _vector(frame: Frame, tip: Sequence[float], color: str, faint: bool) -> str:
    start, end = frame.at((0, 0)), frame.at(tip)
    if math.dist(start, end) < 1:
        return _dot(start, color)
    return arrow(start, end, color=color, width=2.4, dash="6 5" if faint else None)


def _way(frame: Frame, way: np.ndarray, color: str) -> str:
    """A line through the places, a small dot at each."""
    places = [frame.at(point) for point in way]
    dots = "".join(element("circle", cx=x, cy=y, r=2.6, fill=color) for x, y in places[:-1])
    return _thin(frame, way, color) + dots


def _thin(frame: Frame, way: np.ndarray, color: str) -> str:
    return path(_line(frame, way), color, 1.6, stroke_opacity="0.55", stroke_linejoin="round")


def _drop(tip: Sequence[float], along: Sequence[float]) -> np.ndarray:
    """From the origin to the foot of the perpendicular from tip on along's line, then to tip."""
    p, line = np.asarray(tip, float), np.asarray(along, float)
    return np.stack([np.zeros(2), line * (p @ line) / (line @ line), p])


def _reach(frame: Frame, way: np.ndarray, color: str) -> str:
    """A band from the origin to the foot, the perpendicular, and its right angle's sign."""
    start, foot, tip = (np.array(frame.at(point)) for point in way)
    back, up = (7 * (end - foot) / max(math.dist(end, foot), 1e-9) for end in (start, tip))
    corner = foot + back, foot + back + up, foot + up
    sign = "M" + "L".join(f"{num(x)} {num(y)}" for x, y in corner)
    return (path(_line(frame, way[:2]), color, 9, stroke_opacity="0.25")
            + _thin(frame, way[:2], color) + _thin(frame, way[1:], MUTED) + path(sign, MUTED, 1.2))


def _dot(at: Point, color: str) -> str:
    return element("circle", cx=at[0], cy=at[1], r=6, fill=color, stroke=PAPER, stroke_width=1.5)


def _names(frame: Frame, ends: Mapping[str, Sequence[float]], paint: Mapping[str, str],
           lie: Sequence[Point] = ()) -> str:
    """Each name beside its tip, outwards if nothing stands there, else where there is room.

    Of the places with room, the first one that covers fewest of the points that lie about.
    """
    taken = [_box(frame.at(end), 12, 12) for end in ends.values()]
    out, origin = "", frame.at((0, 0))
    for name, end in ends.items():
        x, y = frame.at(end)
        away = math.atan2(y - origin[1], x - origin[0])
        wide = text_width(name)
        places = [_beside(x, y, away + turn, wide, far) for far in (16, 24, 34)
                  for turn in (0, 0.6, -0.6, 1.2, -1.2, 2, -2, 3)]
        free = [p for p in places if not any(_meet(_box(p, wide, 17), t) for t in taken)]
        spot = min(free or places[:1], key=lambda p: _covered(_box(p, wide, 17), lie))
        taken.append(_box(spot, wide, 17))
        out += haloed(*spot, name, paint[name])
    return out


def _beside(x: float, y: float, angle: float, wide: float, far: float) -> Point:
    """The middle of a text of that width, in that direction from (x, y)."""
    return x + math.cos(angle) * (far + wide / 2 - 4), y + math.sin(angle) * (far + 2)


def _box(middle: Point, width: float, height: float) -> tuple[float, float, float, float]:
    (x, y), w, h = middle, width / 2, height / 2
    return x - w, x + w, y - h, y + h


def _covered(box: Sequence[float], points: Sequence[Point]) -> int:
    return sum(box[0] < x < box[1] and box[2] < y < box[3] for x, y in points)


def _meet(a: Sequence[float], b: Sequence[float]) -> bool:
    return a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]


def _titled(body: str, frame: Frame, title: str, xlabel: str, alt: str) -> Picture:
    """The plane with its title above, and room for its numbers."""
    top = 28 if title else 8
    head = text(0, 9, title, anchor="start", font_weight=700) if title else ""
    body = head + element("g", body, transform=f"translate(0 {top})")
    return Picture(body, frame.left + frame.width + 10,
                   top + frame.height + (44 if xlabel else 22), alt)


def valley(height_at: Callable, paths: Mapping[str, Sequence[Sequence[float]]], alt: str, *,
           limits: Sequence[float], levels: Sequence[float], best: Sequence[float] | None = None,
           colors: Mapping[str, int] | None = None, xlabel: str = "", ylabel: str = "",
           title: str = "", height: float = HEIGHT) -> Picture:
    """A landscape seen from above: a contour line at each level, and ways through it.

    height_at(x, y) takes arrays. paths are (n, 2) each, a ring at the start and a dot at the end.
    limits is (x0, x1, y0, y1); best is marked by a cross.
    """
    from contourpy import contour_generator

    colors = colors or {}
    frame = Frame(limits, height)
    x, y = np.meshgrid(np.linspace(frame.x0, frame.x1, 81), np.linspace(frame.y0, frame.y1, 81))
    rings = contour_generator(x, y, height_at(x, y))
    body = _grid(frame, xlabel, ylabel)
    body += path("".join(_line(frame, np.asarray(ring))
                         for level in levels for ring in rings.lines(level)),
                 MUTED, 1, stroke_opacity="0.6")
    ways = {name: np.asarray(way, float) for name, way in paths.items()}
    paint = {name: PALETTE[colors.get(name, n)] for n, name in enumerate(ways)}
    if best is not None:
        cx, cy = frame.at(best)
        body += path(f"M{num(cx - 7)} {num(cy)}h14M{num(cx)} {num(cy - 7)}v14", width=2.2)
    for name, way in ways.items():
        (sx, sy), end = frame.at(way[0]), frame.at(way[-1])
        body += _way(frame, way, paint[name]) + _dot(end, paint[name])
        body += element("circle", cx=sx, cy=sy, r=6, fill=PAPER, stroke=paint[name],
                        stroke_width=2)
    lie = [frame.at(point) for way in ways.values() for point in way]
    body += _names(frame, {name: way[-1] for name, way in ways.items()}, paint, lie)
    return _titled(body, frame, title, xlabel, alt)


def _line(frame: Frame, ring: np.ndarray) -> str:
    return "M" + "L".join(f"{num(x)} {num(y)}" for x, y in map(frame.at, ring))
