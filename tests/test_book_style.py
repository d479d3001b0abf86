"""The chapters keep to the sizes, the skeleton and the form that CONTRIBUTING.md describes.

`python tools/style.py` prints the same as a table; so does this with `-s`.
"""

import subprocess
import sys

import pytest
import yaml

from tools import nb, style


def name(path):
    return f"{path.parent.name}/{path.stem}"


def test_print_the_table():
    """Every chapter is measured by every measure that has bounds."""
    if style.chapters():
        print("\n" + style.table(style.chapters()))
    for path in style.chapters():
        assert set(style.measure(path)) == set(style.SIZES)


@pytest.mark.parametrize("path", style.chapters(), ids=name)
def test_chapter(path):
    faults = style.judge(path)
    assert not faults, "\n" + "\n".join(faults)


@pytest.mark.parametrize("path", [*style.chapters(), *style.solutions()], ids=name)
def test_notebook(path):
    faults = style.hygiene(path)
    assert not faults, "\n" + "\n".join(faults)


def test_exercises_are_numbered_once():
    assert not style.duplicates(style.chapters())


def test_every_chapter_has_its_solutions():
    chapters = [p.name for p in style.chapters()]
    assert [p.name for p in style.solutions()] == chapters


def test_every_notebook_is_in_the_book():
    """_toc.yml takes notebooks by pattern: none in book/ may fall outside its patterns."""
    toc = yaml.safe_load((style.ROOT / "_toc.yml").read_text("utf8"))
    entries = [e for part in toc["parts"] for e in part["chapters"]]
    reached = {style.ROOT / f"{e['file']}.ipynb" for e in entries if "file" in e}
    reached.add(style.ROOT / f"{toc['root']}.ipynb")
    for entry in entries:
        reached |= set(style.ROOT.glob(entry.get("glob", "none") + ".ipynb"))
    assert set((style.ROOT / "book").rglob("*.ipynb")) <= reached
    assert set(nb.notebooks()) <= reached


# the measures themselves, on a chapter made for them

CHAPTER = [
    ("markdown", "# 2 · Look\n\nOne [two](x.ipynb) `three` $a + b$.\n\n| no | no |\n\n$$\nx\n$$\n"),
    ("code", "a = 1\n\nb = 2"),
    ("code", "c = 3"),
    ("markdown", "> **Predict.** Five?\n\n```python\nnot counted\n```"),
]


def make(folder, cells, filename="02_attention.ipynb", **metadata):
    import nbformat

    new = {"markdown": nbformat.v4.new_markdown_cell, "code": nbformat.v4.new_code_cell}
    made = [new[kind](text, metadata=metadata if kind == "code" else {}) for kind, text in cells]
    path = folder / filename
    nbformat.write(nbformat.v4.new_notebook(cells=made), path)
    return path


def test_measures(tmp_path):
    got = style.measure(make(tmp_path, CHAPTER))
    assert got["words"] == 8  # 2 Look One two three x Predict Five
    assert (got["code cells"], got["code after code, %"]) == (2, 50)
    assert (got["longest cell"], got["equations"], got["predictions"]) == (2, 1, 1)


@pytest.mark.parametrize(
    ("kind", "text", "fault"),
    [
        ("markdown", "![](a.svg)", "image without alt"),
        ("markdown", "![a cat](https://x.org/a.png)", "remote image"),
        ("markdown", "see {eq}`attention`", "directive or role"),
        ("markdown", "<details>\n\n188. Most are", "takes for a list: \n\n188. Most are"),
        ("markdown", "[A (1999)](references.md#nobody1999)", "references.bib does not know"),
        ("markdown", "[chapter 99](99_nothing.ipynb)", "not there"),
        ("markdown", "[equation (2.1)](#eq-2.2)", "leads to eq-2.2"),
        ("code", "x = 1;", "trailing ;"),
        ("code", "x = " + "1 + " * 30 + "1", "columns"),
        ("code", "\n".join(["x = 1"] * 31), "30 lines"),
    ],
)
def test_faults_are_found(tmp_path, kind, text, fault):
    found = style.hygiene(make(tmp_path, [(kind, text)]))
    assert any(fault in line for line in found), found


def test_a_notebook_without_the_guard_is_found(tmp_path):
    bare = style.hygiene(make(tmp_path, [("markdown", "# 2"), ("code", "x = 1")]))
    assert any("must be the guard" in fault for fault in bare)
    kept = style.hygiene(make(tmp_path, [("markdown", "# 2"), ("code", style.GUARD)]))
    assert not any("must be the guard" in fault for fault in kept)


def test_the_guard_speaks_where_the_library_is_missing(tmp_path):
    def run(*options):
        return subprocess.run([sys.executable, *options, "-c", style.GUARD],
                              capture_output=True, text=True, cwd=tmp_path)

    assert run().returncode == 0
    without = run("-I", "-S")                      # no site-packages: nothing is installed
    assert without.returncode == 1
    assert without.stderr.strip() == ("npt_lib is missing here. In the folder of the repository, "
                                      "run: pip install -e .")


def test_the_guard_installs_once_there_is_an_address(tmp_path):
    source = style.source_at("https://github.com/someone/book/", "main")
    assert style.guard(source) == style.GUARD_START + (
        '    %pip install -q "npt-lib[book] @ git+https://github.com/someone/book@main"')
    assert style.GUARD == style.guard(style.public_source())
    assert style.source_at("", "main") == "" and "http" not in style.guard("")


def test_foreign_tags_are_found(tmp_path):
    path = make(tmp_path, [("code", "x = 1")], tags=["nbval-skip"])
    assert any("nbval-skip" in line for line in style.hygiene(path))


def test_a_chapter_out_of_shape_is_found(tmp_path):
    faults = "\n".join(style.judge(make(tmp_path, CHAPTER)))
    for expected in ("words: 8", "no section '## The way back'", "lacks **You need**"):
        assert expected in faults


# what is asked of the second edition

BET = "> **Predict.** Which word?"
FOLD = "<details>\n<summary>Look</summary>\n\n`cat`: its key answers.\n\n</details>"
TOLD, DRAWN = 'heatmap(w, alt="her looks at cat")', 'heatmap(w, alt=f"her looks at {word}")'


@pytest.mark.parametrize(
    ("cells", "fault"),
    [
        ([(BET, None)], "has no fold"),
        ([(f"{BET}\n\n{FOLD}", None)], None),
        ([(f"{BET}\n\n{BET}\n\n{FOLD}", None)], "has no fold"),
        ([(BET, None), (TOLD, ["hide-input"]), (FOLD, None)], None),
        ([(BET, None), (DRAWN, []), (FOLD, None)], None),
        ([(BET, None), (TOLD, []), (FOLD, None)], "answered by alt='her looks at cat'"),
        ([(BET, None), (DRAWN, ["hide-input"]), ("`cat`, of course.", None)], "has no fold"),
        ([(BET, None), ("print(w)", ["hide-output"])], None),
        ([(BET, None), ("print(w)", [])], "has no fold"),
    ],
)
def test_a_prediction_is_a_bet(tmp_path, cells, fault):
    found = style.predictions(tagged(tmp_path, cells))
    assert any(fault in line for line in found) if fault else not found, found


@pytest.mark.parametrize(
    ("code", "tags", "fault"),
    [
        ("picture = heatmap(w)\npicture", [], True),
        ("picture = heatmap(w)\npicture", ["hide-input"], False),
        ("w = softmax(s)\nheatmap(w)", [], False),           # the next cell uses w
        ("print(s)\nheatmap(s)", [], False),
    ],
)
def test_code_that_only_draws_is_folded(tmp_path, code, tags, fault):
    path = tagged(tmp_path, [(code, tags), ("w.sum()", [])], figure=True)
    assert any("only draws" in line for line in style.drawings(path)) == fault


def tagged(folder, cells, figure=False):
    """A chapter of Markdown (tags None) and code cells, the first of which may show a figure."""
    import nbformat

    new = nbformat.v4
    made = [new.new_markdown_cell(text) if tags is None
            else new.new_code_cell(text, metadata={"tags": tags}) for text, tags in cells]
    if figure:
        made[0].outputs = [new.new_output("display_data", {"image/svg+xml": "<svg/>"})]
    nbformat.write(new.new_notebook(cells=made), folder / "02_attention.ipynb")
    return folder / "02_attention.ipynb"


def test_a_title_says_what_the_chapter_does_and_a_bet_has_a_fold(tmp_path):
    bet = "> **Predict.** Five?"
    bare = make(tmp_path, [("markdown", f"# 2 · Look\n\n## The question\n\n{bet}"),
                           ("code", "x = 1")])
    assert style.bounds(bare, "words")[1] == 2800
    assert any("title" in line for line in style.judge(bare))
    assert any("has no fold" in line for line in style.judge(bare))


def test_a_chapter_begins_with_its_question(tmp_path):
    question, map_, *others = style.SECTIONS

    def out_of_order(heads):
        text = "\n\n".join(f"## {head}" for head in heads)
        path = make(tmp_path, [("markdown", f"# 2 · Look: see\n\n{text}"), ("code", "x = 1")])
        return any("the first two" in line for line in style.judge(path))

    assert not out_of_order([question, map_, *others])
    assert out_of_order([map_, question, *others])
