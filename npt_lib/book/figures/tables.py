"""Tables as a cell's output."""

import html
from collections.abc import Mapping, Sequence


class Table:
    """Rows under headers: an HTML table, and aligned text where there is no HTML."""

    def __init__(self, rows: Sequence[Sequence], headers: Sequence[str], caption: str = ""):
        self.rows = [[str(cell) for cell in row] for row in rows]
        self.headers, self.caption = list(headers), caption
        if not all(header.strip() for header in self.headers):     # read aloud, it would be nothing
            raise ValueError(f"each column needs a header that is not empty, got {self.headers}.")
        if wrong := [row for row in self.rows if len(row) != len(self.headers)]:
            raise ValueError(f"each row needs {len(self.headers)} cells, one for each header, "
                             f"got {len(wrong[0])} in {wrong[0]}.")

    def _repr_html_(self) -> str:
        caption = f"<caption>{html.escape(self.caption)}</caption>" if self.caption else ""
        head = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in self.headers)
        body = "\n".join("<tr>" + _cells(row) + "</tr>" for row in self.rows)
        return (f'<table class="npt-table">{caption}\n<thead><tr>{head}</tr></thead>\n'
                f"<tbody>\n{body}\n</tbody></table>")

    def __repr__(self) -> str:
        columns = list(zip(self.headers, *self.rows))
        padded = [[cell.ljust(max(map(len, column))) for cell in column] for column in columns]
        return "\n".join("  ".join(line).rstrip() for line in zip(*padded))


def _cells(row: Sequence[str]) -> str:
    first, *others = (html.escape(cell) for cell in row)
    return f'<th scope="row">{first}</th>' + "".join(f"<td>{cell}</td>" for cell in others)


def table(rows: Sequence[Sequence], headers: Sequence[str], *, caption: str = "") -> Table:
    """A table; the first cell of a row names it."""
    return Table(rows, headers, caption)


def error_table(errors: Mapping[str, float], *, bound: float = 1e-6, caption: str = "",
                of: str = "gradient of") -> Table:
    """Relative errors as a bound that holds on every machine; an error where one is not below."""
    if not errors:
        raise ValueError("error_table needs at least one error, got none.")
    for name, error in errors.items():
        if not error < bound:                                  # also true of NaN
            raise ValueError(f"{name}: relative error {error:.1e}, must be below {bound:g}.")
    return Table([[name, f"< {bound:g}"] for name in errors], [of, "relative error"], caption)
