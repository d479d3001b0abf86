"""The report's words: tables and sentences made of numbers, so that they cannot contradict them."""

from collections.abc import Iterable, Mapping, Sequence

from benchmarks.writing.stats import Range, Seconds, compared


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table: the first column is words, the others are numbers."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *rows)) + "\n"


def times(r: Range) -> str:
    """A ratio, with its range in small; the reference itself is 1."""
    if r.least == r.most == 1:
        return "1"
    return f"{r.median:.2f}<br><small>{r.least:.2f}–{r.most:.2f}</small>"


def duration(seconds: float) -> str:
    """In milliseconds, to three digits."""
    ms = 1e3 * seconds
    return f"{ms:.0f} ms" if ms >= 100 else f"{ms:.3g} ms"


def number(value: float) -> str:
    """To three digits, or whole."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def size(n_bytes: float) -> str:
    return f"{n_bytes / 2**20:,.0f} MiB" if n_bytes >= 2**20 else f"{n_bytes / 2**20:.1f} MiB"


def listed(words: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def verdict(seconds: Seconds, titles: Mapping[str, str], key: str = "npt") -> str:
    """Whom npt_lib is faster than, whom it is slower than, from the rounds alone."""
    found = compared(seconds, key, rivals(seconds, key))
    parts = [f"{words} {listed([f'{titles[k]} ({r.median:.2f})' for k, r in found[kind].items()])}"
             for kind, words in (("faster", "faster than"), ("slower", "**slower than**"),
                                 ("level", "now faster, now slower than"))
             if found[kind]]
    return "; ".join(parts) if parts else "nothing to compare with"


def in_short(by_name: Mapping[str, Seconds], titles: Mapping[str, str], key: str = "npt") -> str:
    """Where npt_lib is faster in every round: than all others, than all but some, than nobody."""
    places: dict[str, list[str]] = {}
    for name, seconds in by_name.items():
        others = rivals(seconds, key)
        found = compared(seconds, key, others)
        unbeaten = [titles[other] for other in [*found["slower"], *found["level"]]]
        whom = ("all others" if not unbeaten else "**nobody**" if len(unbeaten) == len(others)
                else f"all **but** {listed(unbeaten)}")
        places.setdefault(whom, []).append(name)
    return "faster than " + "; than ".join(
        f"{whom} at {listed(names)}" for whom, names in places.items())


def rivals(seconds: Seconds, key: str) -> list[str]:
    """Everyone who is not key, nor key on another kernel."""
    return [other for other in seconds if not other.startswith(key)]
