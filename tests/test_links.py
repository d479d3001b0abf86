"""Links of notebooks in their two forms: as written, and as any viewer can follow them."""

import contextlib
import io
import json
import re
import sys
import types

import numpy as np
import pytest

import npt_lib as npt
from tools import links, reference, style

TEXTS = [
    "# 2 · Look\n\n[below](#The-way-back) and [there](#With-code)",
    "See [equation (2.1)](#eq-2.1), [figure 2.1](#fig-2.1).\n\n$$\nx \\tag{2.1}\n$$\n\nso",
    "**Figure 2.1.** Seen.\n\n[A (2017)](references.md#vaswani2017)",
    "## The way back\n\n```\n[A](references.md#vaswani2017) in code\n```\n\n### With `code`",
]
PLACES = [0, 1, 3, 4]


@pytest.fixture
def path(tmp_path):
    for name in ("01_first.ipynb", "02_second.ipynb"):
        (tmp_path / name).touch()
    return tmp_path / "02_second.ipynb"


def test_the_stored_form(path):
    title, prose, caption, code = links.linked(TEXTS, path, PLACES)
    assert "[below](#02-The-way-back) and [there](#02-With-code)" in title
    assert '<a id="eq-2.1"></a>\n\n$$\nx \\tag{2.1}\n$$\n\nso' in prose
    assert prose.endswith('\n\n<a id="fig-2.1"></a>')          # before the cell that draws it
    assert "[A (2017)](https://arxiv.org/abs/1706.03762)" in caption
    assert code.startswith('<a id="02-The-way-back"></a>\n\n## The way back\n')
    assert '<a id="02-With-code"></a>\n\n### With `code`' in code
    assert "[A](references.md#vaswani2017) in code" in code    # code stays


def test_there_and_back(path):
    stored = links.linked(TEXTS, path, PLACES)
    assert links.written(stored, path) == TEXTS
    assert links.linked(stored, path, PLACES) == stored


def test_a_caption_without_a_cell_before_it_has_its_anchor(path):
    stored = links.linked(["Two\n\n**Figure 2.7.** Both."], path, [3])
    assert stored == ['Two\n\n<a id="fig-2.7"></a>\n**Figure 2.7.** Both.']


def test_the_map_leads_to_the_other_chapters(path):
    (stored,) = links.linked(["## The map\n\nIt."], path, [0])
    assert "[1](01_first.ipynb) · 2 · [contents](contents.md)\n\nIt." in stored
    assert links.written([stored], path) == ["## The map\n\nIt."]


def test_solutions_cite_from_their_folder(path):
    there = path.parent / "solutions" / path.name
    (stored,) = links.linked(["[A](../references.md#vaswani2017)"], there, [0])
    assert stored == "[A](https://arxiv.org/abs/1706.03762)"
    assert links.written([stored], there) == ["[A](../references.md#vaswani2017)"]
    assert links.unique("Answer", there) != links.unique("Answer", path)


def test_every_paper_has_an_address_of_its_own():
    addresses = list(links.papers().values())
    assert len(addresses) > 50 and all(a.startswith("https://") for a in addresses)
    assert len(set(addresses)) == len(addresses)
    assert not [a for a in addresses if re.search(r"[()\s]", a)]


@pytest.mark.parametrize("path", [*style.chapters(), *style.solutions()], ids=lambda p: p.stem)
def test_the_book_goes_there_and_back(path):
    cells = json.loads(path.read_text("utf8"))["cells"]
    links.to_stored(cells, path)
    once = json.dumps(cells)
    cells = json.loads(links.to_written(json.dumps({"cells": cells}), path))["cells"]
    assert "<a id=" not in json.dumps(cells) and "arxiv.org" not in json.dumps(cells)
    links.to_stored(cells, path)
    assert json.dumps(cells) == once


# the pages for looking things up


MADE = reference.pages()


@pytest.mark.parametrize("path", MADE, ids=lambda p: p.name)
def test_what_is_made_is_fresh(path):
    assert path.read_text("utf8") == MADE[path], "python tools/reference.py"


def test_the_list_of_papers_is_the_bibliography():
    page = (style.ROOT / "book" / "references.md").read_text("utf8")
    assert set(re.findall(r'<a id="(\w+)"></a>\n\S', page)) == set(links.papers())
    assert all(f"]({where})" in page for where in links.papers().values())
    assert not re.search(r"[{}\\]", page)                     # nothing of TeX is left


def test_every_paper_is_pointed_to():
    """As the page says: from a notebook by its address, from a page or a docstring by its key."""
    folder = style.ROOT / "book"
    told = [p.read_text("utf8") for p in (
        *folder.rglob("*.ipynb"), *(style.ROOT / "npt_lib").rglob("*.py"),
        *(p for p in folder.glob("*.md") if p.name != "references.md"))]
    assert not [key for key, where in links.papers().items()
                if not any(f"references.md#{key}" in text or where in text for text in told)]


def test_every_term_that_is_linked_to_is_in_the_glossary():
    page = (style.ROOT / "book" / "glossary.md").read_text("utf8")
    terms = re.findall(r'^<a id="term-(.+)"></a>\n\*\*(.+)\*\*:\n\S', page, re.M)
    assert len(terms) == page.count("<a id=") == page.count("\n**") > 80
    assert all(anchor == name.replace(" ", "-") for anchor, name in terms)
    assert [name for _, name in terms] == sorted((n for _, n in terms), key=str.casefold)


# the page of the library

API = (style.ROOT / "book" / "api.md").read_text("utf8")
TOOLS = (style.ROOT / "book" / "notebook_tools.md").read_text("utf8")
SETTING, *_ = reference.EXAMPLE.findall(API)
WITHOUT: set[str] = set()                             # files whose example is still to be written


def test_every_file_on_the_pages_has_an_example():
    listed = set(re.findall(r"^<!-- npt_lib\.([\w.]+) -->$", API + TOOLS, re.M))
    assert "npt_lib.book" not in API and SETTING in TOOLS
    assert len(listed) > 25 and listed - set(reference.examples()) == WITHOUT


@pytest.mark.parametrize("stem", reference.examples())
def test_an_example_prints_what_it_says(stem, tmp_path, monkeypatch):
    from npt_lib.tokenizer import Tokenizer

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Tokenizer, "kinds", dict(Tokenizer.kinds))    # an example adds one
    block = reference.examples()[stem]
    lines = re.findall(r"^ *print\(.*?(?:\)  +# (.*))?$", block, re.M)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec("".join(re.sub(r"^```.*\n?", "", b, flags=re.M) for b in (SETTING, block)), {})
    assert printed.getvalue().splitlines() == lines
    assert max(map(len, block.splitlines())) <= 100


def test_a_model_of_your_own_trains_is_saved_and_writes(tmp_path, monkeypatch):
    """The whole example, in a module of its own: load finds the class by that name."""
    monkeypatch.chdir(tmp_path)
    block = re.search(r"## A model that writes\n.*?```python\n(.*?)```", API, re.S)[1]
    module = types.ModuleType("readers_own")
    monkeypatch.setitem(sys.modules, "readers_own", module)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(re.sub(r"^```.*\n?", "", SETTING, flags=re.M) + block, vars(module))
    assert printed.getvalue().splitlines() == re.findall(r"^print\(.*\)  +# (.*)$", block, re.M)
    assert len(printed.getvalue().splitlines()) == 2
    beams = [npt.beam_search(module.model, module.prompt, 6, **ends)[0].tolist()
             for ends in ({}, {"end_ids": ()})]
    assert [f"[{', '.join(map(str, ids))}]" for ids in beams] == re.findall(
        r"writes (?:one at once: )?`(\[.*?\])`", API.split("### Good to know")[1])
    prompts = np.indices((8, 8, 8)).reshape(3, -1).T      # all of three numbers
    assert f"each of the {len(prompts)} prompts of three numbers" in API
    went_on = 3 + (prompts[:, -1:] + np.arange(1, 7)) % 8
    np.testing.assert_array_equal(npt.greedy(module.model, 3 + prompts, 6), went_on)
    prompt = np.array([[3, 6, 9]])
    old = npt.greedy(module.model, prompt, 6)
    threes = re.search(r"^ids = .*?^npt\.train\(.*?$", block, re.M | re.S)[0]
    exec("model = LanguageModel(config, rng)\n" + threes.replace("np.arange", "3 * np.arange"),
         vars(module))
    new = npt.greedy(module.model, prompt, 6)
    assert [str(row.tolist()) for row in (*new, *old)] == re.findall(
        r"one writes `(\[.*?\])`", API)


def run_guide(title: str, tmp_path, monkeypatch) -> dict:
    """Run the code of one section of the guide; each line that it prints stands beside it."""
    monkeypatch.chdir(tmp_path)
    told = API.split(f"## {title}\n")[1].split("\n## ")[0]
    blocks = "\n".join(re.findall(r"^```python\n(.*?)^```", told, re.M | re.S))
    printed, names = io.StringIO(), {}
    with contextlib.redirect_stdout(printed):
        exec(re.sub(r"^```.*\n?", "", SETTING, flags=re.M) + blocks, names)
    wanted = re.findall(r"^print\(.*\)  +# (.*)$", blocks, re.M)
    assert wanted and printed.getvalue().splitlines() == wanted
    return names


def test_the_ready_made_model_learns_what_the_page_says(tmp_path, monkeypatch):
    task = run_guide("The ready-made model", tmp_path, monkeypatch)["task"]
    kept = [{"red", "house", "houses"} & set(english.split()) for english, _ in task.train]
    assert all(len(words) < 2 for words in kept)          # "never met a red house"
    assert "the red houses" in [english for english, _ in task.test]


def test_a_longer_training_goes_on_and_keeps_the_best(tmp_path, monkeypatch):
    """What stands below the example: files, what is held out, no change when it runs again."""
    names = run_guide("A longer training", tmp_path, monkeypatch)
    shown = [[row.tolist() for row in names[part][0]] for part in ("held_out", "learned")]
    assert len(shown[0]) == 200 and sum(map(len, shown)) == len(names["task"].train)
    history = names["history"]
    assert max(history.lr) == 3e-3 == history.lr[49] and history.lr[-1] == 0
    best = min(history.evaluations, key=lambda e: e.loss).loss
    assert npt.evaluate(names["best"], names["held_out"]).loss == best
    again = run_guide("A longer training", tmp_path, monkeypatch)["history"]
    assert again.loss == history.loss and len(npt.load_tokenizers("run.npz")) == 2


def test_every_section_of_the_guide_is_on_its_map():
    guide = API.split("## The reference")[0]
    mapped = set(re.findall(r"\]\(#([\w-]+)\)", guide.split("\n## ")[0]))
    titles = re.findall(r"^##+ (.*)$", guide, re.M)
    slugs = {title.lower().replace(" ", "-") for title in titles}
    assert slugs - {"good-to-know"} == mapped - {"names-in-pytorch", "the-reference"}


def test_own_texts_become_batches(tmp_path, monkeypatch):
    names = run_guide("Your own texts", tmp_path, monkeypatch)
    assert repr(npt.load_tokenizers("lines.npz")[0]) == repr(names["tokenizer"])
    model, longest = names["model"], names["config"].max_len + 1
    model.loss((np.full((2, longest), 3),))
    with pytest.raises(ValueError, match="max_len"):
        model.loss((np.full((2, longest + 1), 3),))


def test_a_small_model_of_your_own_has_right_gradients_and_learns(tmp_path, monkeypatch):
    """Better than chance, and no order of the points matters."""
    names = run_guide("A model that judges", tmp_path, monkeypatch)
    points, two = names["crowds"](50)
    sizes = dict(n_src_vocab=3, n_tgt_vocab=3, d_model=4, n_heads=2, d_ff=6, dropout=0.0)
    exact = names["Crowds"](npt.Config(**sizes), np.random.default_rng(1)).astype(np.float64)
    batch = points[:3].astype(np.float64), two[:3]
    np.testing.assert_allclose(exact(batch[0]), exact(batch[0][:, ::-1]), atol=1e-12)
    errors = [npt.check_gradients(lambda: exact.loss(batch), (), exact.parameters()),
              npt.check_gradients(exact.forward, batch[:1], exact.parameters())]
    assert max(errors) < 1e-7
    plurals = names["Plurals"](npt.Config(**sizes | {"n_src_vocab": 5}), np.random.default_rng(1))
    plurals, ids = plurals.astype(np.float64), np.array([[3, 4, 2, 0, 0], [4, 4, 3, 4, 2]])
    error = npt.check_gradients(lambda: plurals.loss((ids, two[:2])), (), plurals.parameters())
    assert error < 1e-7                                       # padding is not looked at
    np.testing.assert_allclose(plurals(ids[:1]), plurals(ids[:1, :3]), atol=1e-12)


@pytest.mark.parametrize("title", ["One part exchanged", "A layer of your own",
                                   "An attention of your own"])
def test_an_exchanged_part_comes_into_every_block(title, tmp_path, monkeypatch):
    run_guide(title, tmp_path, monkeypatch)
    makers = {name for name in vars(npt.Config) if name.startswith("make_")}
    told = set(re.findall(r"\b(make_\w+)", API.split("## A model that judges")[0]))
    assert told == makers


def test_a_class_of_a_script_is_stored_and_loaded_as_the_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", script)
    block = re.search(r"class MyGPTConfig.*?(?=\nblock = )", API, re.S)[0]
    exec(re.sub(r"^```.*\n?", "", SETTING, flags=re.M) + block, vars(script))
    npt.save("mine.npz", script.model)
    assert "__main__:MyGPTConfig" in str(np.load("mine.npz")["about"])
    assert type(npt.load("mine.npz").config) is script.MyGPTConfig           # the same session
    call = re.search(r"`(npt\.load\(\"mine\.npz\", build=.*?)`", API)[1]
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))   # another one
    with pytest.raises(ValueError, match="pass load a build"):
        npt.load("mine.npz")
    again = eval(call, vars(script))
    prompt = np.array([[3, 4, 5]])
    np.testing.assert_array_equal(again(prompt), script.model(prompt))


def test_a_long_text_is_cut_as_the_page_says():
    from npt_lib.tasks import documentation

    text = " ".join("abc"[i % 3] for i in range(200))
    tokenizer = npt.WordTokenizer.from_texts([text])
    rows = eval(re.search(r'`(Texts\("book".*?)`', API)[1], vars(documentation) | locals())
    assert isinstance(rows, tuple) and [x.shape for x in rows] == [(3, 65)]
    assert next(npt.Batches(rows, 2, np.random.default_rng(0)))[0].shape == (2, 65)


def test_every_public_name_is_on_the_page():
    import npt_lib

    anchors = set(re.findall(r'<a id="npt_lib\.[\w.]*?(\w+)"></a>', API))
    assert set(npt_lib.__all__) <= anchors


@pytest.mark.parametrize("path", [*style.chapters(), *style.solutions()], ids=lambda p: p.stem)
def test_links_to_a_place_on_a_page_find_it(path):
    """GitHub and JupyterLab name headings differently: one that is linked to has an anchor."""
    for page, place in re.findall(r"([\w/.]+\.md)#([^)\s]+)", style.prose(style.load(path))):
        there = (path.parent / page).read_text("utf8")
        assert f'<a id="{place}"></a>' in there, f"{page}#{place}"
