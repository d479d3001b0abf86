"""Write what can be made from elsewhere on the pages for looking things up, or compare it.

    python tools/reference.py           write
    python tools/reference.py check     fail if something would change

The contents come from the chapters' titles, the list of papers from references.bib, and the page
of the library from npt_lib: its headings and names, while the examples on it stay. The terms of
the glossary are put in order.
"""

import importlib
import inspect
import json
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import get_args
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools import links  # noqa: E402

BOOK = ROOT / "book"
MADE = re.compile(r"(<!-- made by tools/reference\.py -->\n).*(<!-- that is all -->)", re.S)


# papers


def papers() -> str:
    """Every entry of references.bib, by author: who is meant by a citation, and where it is."""
    from pybtex.database import parse_file

    entries = parse_file(str(links.BIB), "bibtex").entries
    lines = {plain(entry.persons["author"][0], "last") + key: paper(key, entry)
             for key, entry in entries.items()}  # fmt: skip
    return "\n".join(lines[name] for name in sorted(lines, key=str.casefold))


def paper(key: str, entry) -> str:
    """One entry as a paragraph of Markdown, with an anchor to link to."""
    authors = [plain(p, "first", "middle", "prelast", "last") for p in entry.persons["author"]]
    names = " and ".join(filter(None, [", ".join(authors[:-1]), authors[-1]]))
    where = links.papers()[key]
    shown = re.sub(r"^https://(doi\.org/)?", "", where).removesuffix("/")
    shown = unquote(shown if len(shown) < 60 else shown.split("/")[0])
    parts = [f"{names}.", f"*{unicode(entry.fields['title'])}.*", f"{published(entry.fields)}."]
    return f'<a id="{key}"></a>\n{" ".join(parts)}\n[{shown}]({where})\n'


def published(fields) -> str:
    """Where and when it came out."""
    names = ("journal", "booktitle", "howpublished", "note")
    kind, where = next(((n, unicode(fields[n])) for n in names if n in fields), ("", ""))
    if kind == "journal" and "volume" in fields:
        where += f" {fields['volume']}" + (f"({fields['number']})" if "number" in fields else "")
        where += f", {unicode(fields['pages'])}"
    return f"In {where}, {fields['year']}" if kind == "booktitle" else f"{where}, {fields['year']}"


def plain(person, *parts: str) -> str:
    """A person's names without TeX."""
    return unicode(" ".join(n for part in parts for n in getattr(person, f"{part}_names")))


def unicode(text: str) -> str:
    from pybtex.richtext import Text

    return str(Text.from_latex(text)).replace("--", "–")


# contents


def contents() -> str:
    """The chapters by title, each with its solutions; those beyond the ten in their own table."""
    parts = {"The chapters": BOOK, "Beyond the ten": BOOK / "beyond"}
    return "\n".join(line for name, folder in parts.items()
                     for line in [f"| {name} | |", "|---|---|", *rows(folder), ""])  # fmt: skip


def rows(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("[01][0-9]_*.ipynb")):
        first = "".join(json.loads(path.read_text("utf8"))["cells"][0]["source"])
        title = first.split("\n")[0].removeprefix("# ")
        yield (f"| [{title}]({path.relative_to(BOOK).as_posix()}) "
               f"| [solutions](solutions/{path.name}) |")


# terms


def glossary() -> str:
    """The glossary with its terms in order; one that stands as a directive becomes paragraphs."""
    page = (BOOK / "glossary.md").read_text("utf8")
    page = re.sub(r"^```\{glossary\}\n(.*?)\n```$", paragraphs, page, flags=re.M | re.S)
    head, *terms = re.split(r'^(?=<a id="term-)', page, flags=re.M)
    terms = sorted((text.strip() for text in terms), key=lambda t: t.split("**")[1].casefold())
    return "\n\n".join([head.strip(), *terms]) + "\n"


def paragraphs(directive: re.Match) -> str:
    entries = [entry.strip().split("\n") for entry in re.split(r"\n\n(?=\S)", directive[1])]
    return "\n\n".join("\n".join([f'<a id="term-{name.replace(" ", "-")}"></a>', f"**{name}**:",
                                  *map(str.strip, lines)]) for name, *lines in entries)  # fmt: skip


# the library

# In the order in which the book meets them. A file that is not named here stands with the chapter
# that its first line names; one that names no chapter is an inner part and is left out.
ORDER = (
    "module", "gradcheck", "layers", "dot_product_attention", "multi_head_attention",
    "feed_forward", "tokenizer", "embedding", "norm", "config", "encoder", "decoder",
    "transformer", "generate", "loss", "optim", "training", "checkpoint",
    "tasks.task", "tasks.sequences", "tasks.numbers", "tasks.spanish",
    "byte_pairs", "gpt", "modern", "long_attention", "pattern_attention",
    "fewer_bits", "int8", "tasks.documentation", "gpt2",
    "book.exercises", "book.plots", "book.widgets",
)  # fmt: skip
BEYOND, CORES, TOOLS = 97, 98, 99          # after the chapters
CHAPTER = {"module": 1, "gradcheck": 1, "config": 6, "tasks.task": 10, "sweeps": CORES,
           **dict.fromkeys(
               ("byte_pairs", "gpt", "modern", "long_attention", "pattern_attention",
                "fewer_bits", "int8", "tasks.documentation", "gpt2"), BEYOND)}
TITLES = {
    1: "First parts", 2: "Attention", 3: "Heads", 4: "Feed-forward network",
    5: "Tokens and positions", 6: "Encoder block", 7: "Encoder", 8: "Decoder",
    9: "The Transformer", 10: "Training",
    BEYOND: "Beyond the ten chapters", CORES: "More than one core",
}  # fmt: skip
LIBRARY = {"api.md": range(1, TOOLS), "notebook_tools.md": (TOOLS,)}     # what is on which page
EXAMPLE = re.compile(r"^```python\n.*?^```$", re.M | re.S)


def library(wanted: Iterable[int]) -> str:
    """These parts of the library: a heading for each, if there are several, its files under it."""
    parts: dict[int, list[str]] = {}
    kept = examples()
    for stem in files():
        number = chapter(stem)
        if number in wanted and public(stem):
            parts.setdefault(number, []).append(section(stem, kept.get(stem)))
    if len(parts) == 1:
        return re.sub("^###", "##", "\n".join(*parts.values()), flags=re.M)
    return "\n".join(line for number in sorted(parts)
                     for line in (f"## {heading(number)}\n", *parts[number]))  # fmt: skip


def examples() -> dict[str, str]:
    """The example of each file on the library's pages, with its fence."""
    text = "\n".join((BOOK / name).read_text("utf8") for name in LIBRARY)
    sections = re.split(r"^##+ `(\S+)\.py`$", text, flags=re.M)
    found = zip(sections[1::2], map(EXAMPLE.search, sections[2::2]))
    return {file.replace("/", "."): example[0] for file, example in found if example}


def heading(number: int) -> str:
    title = TITLES.get(number)
    return title if number >= BEYOND else " · ".join(
        filter(None, [f"Chapter {number}", title]))  # fmt: skip


def files() -> list[str]:
    """Every module of the library, in the book's order."""
    paths = sorted((ROOT / "npt_lib").rglob("*.py"))
    stems = [".".join(p.relative_to(ROOT / "npt_lib").with_suffix("").parts) for p in paths]
    there = [stem for stem in stems if not stem.endswith("__") and stem.count(".") < 2]
    return [m for m in ORDER if m in there] + [m for m in there if m not in ORDER]


def chapter(stem: str) -> int | None:
    """Where on the page a file stands; None for an inner part."""
    if stem.startswith("book."):
        return TOOLS if stem in ORDER else None
    if stem.startswith("parallel."):
        return CORES
    doc = load(stem).__doc__ or ""
    named = re.search(r"[Cc]hapters? (\d+)", doc.split("\n")[0])
    return CHAPTER.get(stem) or (int(named[1]) if named else None)


def load(stem: str):
    return importlib.import_module(f"npt_lib.{stem}")


@cache
def members(stem: str) -> list[tuple[str, type | object]]:
    """Public classes and functions: those in __all__, else what the module itself defines."""
    module = load(stem)
    if hasattr(module, "__all__"):
        return [(name, getattr(module, name)) for name in module.__all__]
    own = [(name, thing) for name, thing in vars(module).items()
           if not name.startswith("_") and thing.__doc__
           and (inspect.isclass(thing) or inspect.isfunction(thing))
           and thing.__module__ == module.__name__]  # fmt: skip
    return sorted(own, key=lambda pair: inspect.getsourcelines(pair[1])[1])


def public(stem: str) -> list[tuple[str, type | object]]:
    """Those that a user of the library calls, with the classes that they are made from; in a
    folder, where there are none, all of a file.
    """
    import npt_lib

    named = {name for name, _ in members(stem) if name in npt_lib.__all__}
    bases = {base.__name__ for name, thing in members(stem) if name in named
             and inspect.isclass(thing) for base in thing.__mro__
             if base.__module__ == thing.__module__}  # fmt: skip
    shown = [(name, thing) for name, thing in members(stem) if name in named | bases]
    return shown or (members(stem) if "." in stem or stem == "sweeps" else [])


def methods(cls) -> list[str]:
    """Public methods that the class itself defines and explains."""
    kinds = (property, classmethod, staticmethod)
    return [name for name, thing in vars(cls).items()
            if not name.startswith("_") and (inspect.isfunction(thing) or isinstance(thing, kinds))
            and (name in ("forward", "step") or getattr(thing, "__doc__", None))]  # fmt: skip


def section(stem: str, example: str | None) -> str:
    """One file: what it is for, its example, and its names with where they are defined."""
    import npt_lib

    told = (inspect.getdoc(load(stem)) or "").split("\n\n")
    lines = [f"### `{stem.replace('.', '/')}.py`", ""]
    for paragraph in told[:1] + [p for p in told[1:] if p.startswith("Needs ")]:
        lines += [first(paragraph), ""]
    lines += [example, ""] if example else []
    hidden = [name for name, _ in public(stem) if name not in npt_lib.__all__]
    if hidden:
        these = hidden if len(hidden) < len(public(stem)) else []
        told = " and ".join(f"`{name}`" for name in these) or "these"
        lines += [f"Import {told} from `npt_lib.{stem}`:", ""]
    lines += [f"<!-- npt_lib.{stem} -->"]
    for name, thing in public(stem):
        lines += [entry(stem, name, thing, "")]
        if inspect.isclass(thing):
            lines += [entry(stem, f"{name}.{m}", vars(thing)[m], "  ") for m in methods(thing)]
    shown = dict(public(stem))
    if inner := [anchored(stem, name) for name, _ in members(stem) if name not in shown]:
        lines += [f"- Inside: {', '.join(inner)}"]
    return "\n".join([*lines, "", "<!-- end -->", ""])


def entry(stem: str, name: str, thing, indent: str) -> str:
    """A name with an anchor, its arguments, a link to its file and its words.

    Their first sentence is open, the others are folded: all on one line, so that lists stay tight.
    """
    kind = {classmethod: " (of the class)", staticmethod: " (static)"}.get(type(thing), "")
    kind += derived(thing) if inspect.isclass(thing) else ""
    thing = getattr(thing, "__func__", thing)
    shown = name.rsplit(".")[-1] + ("" if isinstance(thing, property) else arguments(thing))
    told, more = in_two(inspect.getdoc(thing) or "")
    told += f" <details><summary>more</summary>{more}</details>" if more else ""
    file = f"../npt_lib/{stem.replace('.', '/')}.py"
    shown = f"`{shown}`" if indent else f"[`{shown}`]({file})"
    return f"{indent}- {anchored(stem, name, shown)}{kind}" + (f": {told}" if told else "")


def derived(cls) -> str:
    """The class of the library that this one is made from, if that is more than a Module."""
    from npt_lib import Module

    base = cls.__base__
    if base is Module or not base.__module__.startswith("npt_lib."):
        return ""
    stem = base.__module__.removeprefix("npt_lib.")
    return f" (from [`{base.__name__}`](#npt_lib.{stem}.{base.__name__}))"


def anchored(stem: str, name: str, shown: str = "") -> str:
    return f'<a id="npt_lib.{stem}.{name}"></a>{shown or f"`{name}`"}'


def arguments(thing) -> str:
    """How it is called: names and defaults, without types and self."""
    signature = inspect.signature(thing)
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()
            if p.name not in ("self", "cls")]  # fmt: skip
    shown = str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    shown = re.sub(r"<built-in function (\w+)>", r"\1", shown)
    shown = re.sub(r"<function .*? at 0x\w+>|<factory>", "…", shown)
    return shown + (f" -> {returned}" if (returned := pair(thing)) else "")


def pair(thing) -> str | None:
    """What a function returns, where that is a result and its way back."""
    from npt_lib.module import Backward

    kinds = get_args(getattr(thing, "__annotations__", {}).get("return"))
    if len(kinds) != 2 or kinds[1] != Backward:
        return None
    return f"({'loss' if kinds[0] is float else 'y'}, backward)"


def first(doc: str | None) -> str:
    """The first paragraph of a docstring, as Markdown."""
    text = re.sub(r":\w+:(?=`)", "", (doc or "").split("\n\n")[0])
    text = re.sub(r'(?<!`)(pip install "[^"]+")', r"`\1`", text)     # as code: quotes stay straight
    return re.sub(r"``([^`]+)``", r"`\1`", text)


def in_two(doc: str) -> tuple[str, str]:
    """The first sentence of a docstring, and all others, each as one line of Markdown."""
    told, *others = (" ".join(first(part).split()) for part in doc.split("\n\n"))
    told, *rest = re.split(r"(?<=[.!?])\s", told, maxsplit=1)
    return told, "<br>".join([*rest, *others])


# writing


def pages() -> dict[Path, str]:
    """Each page as it should be."""
    made = {"references.md": papers(), "contents.md": contents()}
    made |= {name: library(wanted) for name, wanted in LIBRARY.items()}
    pages = {BOOK / name: filled(BOOK / name, text) for name, text in made.items()}
    return pages | {BOOK / "glossary.md": glossary()}


def filled(path: Path, made: str) -> str:
    """The page with what is made between its two comments."""
    return MADE.sub(lambda m: f"{m[1]}\n{made}\n{m[2]}", path.read_text("utf8"))


def main(argv: list[str]) -> int:
    stale = [path for path, text in pages().items() if path.read_text("utf8") != text]
    for path in stale:
        if argv != ["check"]:
            path.write_text(pages()[path], "utf8")
        print(f"{path.relative_to(ROOT)}: {'stale' if argv == ['check'] else 'written'}")
    return int(argv == ["check"] and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
