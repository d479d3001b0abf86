"""The site's own extension, without a browser."""

import importlib
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[1]
for needed in ("quickjs", "sphinx", "myst_nb"):
    pytest.importorskip(needed)


@pytest.fixture
def extension(monkeypatch):
    """A module of _ext by its name, as Sphinx imports it."""
    monkeypatch.syspath_prepend(str(ROOT / "_ext"))
    return importlib.import_module


def test_a_formula_is_a_drawing_with_mathml_and_its_number(extension):
    html = extension("book_maths").typeset(r"\frac{QK^\top}{\sqrt{d_k}} \tag{2.1}", True)
    assert "<svg" in html and 'aria-hidden="true"' in html
    assert "<mfrac>" in html and "(2.1)" in html.replace("<mtext>", "")
    assert "tabindex" not in html and "href" not in html


@pytest.mark.parametrize("formula", [
    r"\begin{aligned} a &= b \\ &= \underbrace{c}_{d} \end{aligned}",
    r"\begin{cases} 1 & x > 0 \\ 0 & \text{else} \end{cases}",
    r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", r"\operatorname{arg\,max}_i \, \boldsymbol{x}",
])  # fmt: skip
def test_what_chapters_write_is_understood(extension, formula):
    assert "<svg" in extension("book_maths").typeset(formula, True)


@pytest.mark.parametrize(("formula", "said"), [(r"\nosuch", "Undefined"), (r"\frac{1", "Missing")])
def test_a_formula_that_is_not_understood_is_an_error(extension, formula, said):
    with pytest.raises(ValueError, match=said):
        extension("book_maths").typeset(formula, False)


@pytest.mark.parametrize(("line", "together"), [
    ("the slope of $x$: one", ["x:"]), ("inputs ($i$), each", ["(i),"]), ("a $b$ c", []),
    ("$a$, $b$ and ($c$)", ["a,", "(c)"]), ("of $x$'s mean", ["x’s"]), ("`f`, $y$.", ["y."]),
])  # fmt: skip
def test_a_formula_keeps_its_punctuation(extension, line, together):
    from docutils import nodes
    from docutils.utils import new_document

    maths, document = extension("book_maths"), new_document("page")
    paragraph = nodes.paragraph()
    for n, part in enumerate(line.replace("'", "’").split("$")):
        paragraph += nodes.math("", part) if n % 2 else nodes.Text(part)
    document += paragraph
    maths.Together(document).run()
    assert [whole.astext() for whole in document.findall(nodes.inline)] == together
    assert document.astext() == line.replace("'", "’").replace("$", "")


@pytest.mark.parametrize(("repository", "baseurl", "expected"), [
    ("", "", ""),
    ("https://github.com/Someone/book", "", "https://someone.github.io/book/"),
    ("https://example.org/book", "", ""),
    ("https://github.com/someone/book", "https://book.example.org", "https://book.example.org/"),
])  # fmt: skip
def test_the_sites_address(extension, repository, baseurl, expected):
    options = {"repository_url": repository}
    config = SimpleNamespace(html_theme_options=options, html_baseurl=baseurl)
    assert extension("book_meta").address(config) == expected


def test_columns_of_numbers_stand_at_the_right(extension):
    html = ('<table class="npt-table"><thead><tr><th scope="col">name</th><th scope="col">n</th>'
            '</tr></thead><tbody><tr><th scope="row">a</th><td>&lt; 1e-08</td></tr>'
            '<tr><th scope="row">b</th><td>−2.50</td></tr></tbody></table>')  # fmt: skip
    out = extension("inline_svg").aligned(html)
    assert out.count('class="npt-num"') == 3
    assert '<th class="npt-num" scope="col">n' in out and "<td class" in out
    assert out.replace(' class="npt-num"', "") == html


def test_a_title_is_short_in_lists(extension):
    from docutils import nodes

    whole = {"a": "2 · Attention: let every word look", "b": "A: b"}
    titles = {name: nodes.title("", text) for name, text in whole.items()}
    tocs = {name: nodes.bullet_list("", nodes.reference("", text)) for name, text in whole.items()}
    extension("book_links").shorten(None, SimpleNamespace(titles=titles, tocs=tocs))
    for lists in (titles, tocs):
        assert [lists[name].astext() for name in "ab"] == ["2 · Attention", "A: b"]
