"""Source code as a cell's output: whole, folded, or only what is new in it."""

import ast
import copy
import difflib
import inspect
import linecache
import textwrap
from collections.abc import Iterator
from types import FunctionType


class Source:
    """Markdown for whoever shows it, plain code for everybody else."""

    def __init__(self, code: str, markdown: str):
        self.code, self.markdown = code, markdown

    def _repr_markdown_(self) -> str:
        return self.markdown

    def __repr__(self) -> str:
        return self.code


def show_source(*objects, fold: bool = False) -> Source:
    """The source of functions and classes, read from the package itself; fold hides it at first."""
    code = "\n\n\n".join(map(source_of, objects))
    block = f"```python\n{code}\n```"
    return Source(code, _folded(objects, block) if fold else block)


def show_new(mine, finished, *, context: int = 1) -> Source:
    """What the finished version has that mine has not, line by line.

    Both are functions or classes, mine from the notebook. Types, comments, docstrings and line
    breaks do not count. A new line has a +, one that has gone a -; what is alike is left out.
    """
    changes = _difference(source_of(mine), source_of(finished), context)
    if not changes:
        changes = "Nothing is new: it is what you have just written."
        return Source(changes, changes)
    return Source(changes, f"```diff\n{changes}\n```")


def _folded(objects, block: str) -> str:
    names = ", ".join(f"<code>{thing.__name__}</code>" for thing in objects)
    n_lines = block.count("\n") - 1
    return (f"<details>\n<summary>The whole of {names}, {n_lines} lines</summary>\n\n"
            f"{block}\n\n</details>")


def source_of(thing) -> str:
    """The source of a function or a class, also of one that a notebook's cell has defined."""
    thing = inspect.unwrap(thing)
    if not isinstance(thing, type):
        return textwrap.dedent(inspect.getsource(thing)).rstrip()
    method = next((f for f in vars(thing).values() if isinstance(f, FunctionType)), None)
    if method is None:
        return textwrap.dedent(inspect.getsource(thing)).rstrip()
    lines = linecache.getlines(method.__code__.co_filename)
    found = [node for node in ast.walk(ast.parse("".join(lines)))
             if isinstance(node, ast.ClassDef) and node.name == thing.__name__]
    first = min([found[-1].lineno, *(d.lineno for d in found[-1].decorator_list)])
    return textwrap.dedent("".join(lines[first - 1:found[-1].end_lineno])).rstrip()


def _difference(mine: str, finished: str, context: int) -> str:
    """The statements that differ, with so many around them; dots for what is left out."""
    before, after = _statements(mine), _statements(finished)
    steps = difflib.SequenceMatcher(None, [key for key, _ in before], [key for key, _ in after],
                                    autojunk=False)
    out: list[str] = []
    for n, hunk in enumerate(steps.get_grouped_opcodes(context)):
        if hunk[0][3] > 0 or n:
            out.append("  …")
        for tag, i0, i1, j0, j1 in hunk:
            if tag == "equal":
                out += _marked("  ", after[j0:j1])
            else:
                out += _marked("- ", before[i0:i1]) + _marked("+ ", after[j0:j1])
    if out and hunk[-1][4] < len(after):
        out.append("  …")
    return "\n".join(out)


Statement = tuple[str, list[str]]                # what it is compared by, and its lines


def _marked(sign: str, statements: list[Statement]) -> list[str]:
    return [sign + line for _, lines in statements for line in lines]


def _statements(code: str) -> list[Statement]:
    """What the code does, statement by statement; of a def or an if, its head is one."""
    return list(_of_body(ast.parse(code).body, code.split("\n"), 0))


def _of_body(body: list[ast.stmt], lines: list[str], depth: int) -> Iterator[Statement]:
    for node in body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue                                           # a docstring
        parts = [part for part in _parts(node) if part and part[0].lineno > node.lineno]
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        last = parts[0][0].lineno - 1 if parts else node.end_lineno
        yield _key(node, depth, bool(parts)), [line for line in lines[first - 1:last] if line]
        for n, part in enumerate(parts):
            above = lines[part[0].lineno - 2]
            if n and above.strip().startswith(("else", "except", "finally")):
                yield " " * depth + above.strip(), [above]
            yield from _of_body(part, lines, depth + 1)


def _parts(node: ast.stmt) -> list[list[ast.stmt]]:
    """What stands under it, and under its except, else and finally."""
    handlers = [handler.body for handler in getattr(node, "handlers", [])]
    ends = [getattr(node, name, []) for name in ("orelse", "finalbody")]
    return [getattr(node, "body", []), *handlers, *ends]


def _key(node: ast.stmt, depth: int, head: bool) -> str:
    """The statement as it is compared: without types, comments and line breaks."""
    node = _Untyped().visit(copy.deepcopy(node))
    if head:
        for name in ("body", "handlers", "orelse", "finalbody"):
            if hasattr(node, name):
                setattr(node, name, [])
    return " " * depth + ast.unparse(ast.fix_missing_locations(node))


class _Untyped(ast.NodeTransformer):
    """Takes the types off arguments, returns and assignments."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.returns = None
        self.generic_visit(node)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is None:
            return node
        return ast.Assign(targets=[node.target], value=node.value)
