"""The landing page, the page for teachers, and the site's own extension behind them."""

import json
import re
import types
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("sphinx")                          # the library's own environment has no site
yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / "book"
CELLS = json.loads((BOOK / "index.ipynb").read_text("utf8"))["cells"]
TEXT = "\n\n".join("".join(c["source"]) for c in CELLS if c["cell_type"] == "markdown")
TEACHING = (BOOK / "teaching.md").read_text("utf8")
CHAPTERS = sorted(BOOK.glob("[01][0-9]_*.ipynb"))


@pytest.fixture
def extension(monkeypatch):
    """A module of _ext by its name, as Sphinx imports it."""
    monkeypatch.syspath_prepend(str(ROOT / "_ext"))
    return __import__


def first_cell(path: Path) -> str:
    return "".join(json.loads(path.read_text("utf8"))["cells"][0]["source"])


def title(path: Path) -> str:
    return first_cell(path).split("\n")[0].removeprefix("# ")


def minutes(path: Path) -> int:
    """What the chapter's own first cell says."""
    times = r"\*\*Time\*\* (?:about )?(\d+ minutes|two hours|an hour and a half)"
    said = re.search(times, first_cell(path))[1]
    return {"two hours": 120, "an hour and a half": 90}.get(said) or int(said.split()[0])


# the landing page

def test_the_chapters_with_their_titles_and_pictures():
    link = r"\[([^\]]+)\]\((\S+)\)"
    rows = re.findall(rf"^\| !{link} \| \*\*{link}\*\*<br> (\S.*\.) \|$", TEXT, re.M)
    beyond = sorted((BOOK / "beyond").glob("1*.ipynb"))
    assert [(row[2], row[3]) for row in rows] == [
        *((title(p), p.name) for p in CHAPTERS), *((title(p), f"beyond/{p.name}") for p in beyond)]
    assert len(rows) == 16
    for alt, picture, *_ in rows:
        drawn = (BOOK / picture).read_text("utf8")
        assert f'aria-label="{alt}"' in drawn


def test_the_pictures_are_what_the_library_draws():
    from tools.pictures import FOLDER, HEIGHT, WIDTH, pictures, sentence

    assert (FOLDER / "sentence.svg").read_text("utf8") == sentence() + "\n", "make execute"
    for name, picture in pictures().items():
        assert (picture.width, picture.height) == (WIDTH, HEIGHT)
        assert (FOLDER / name).read_text("utf8") == picture.svg + "\n", "make execute"


def test_every_column_of_a_page_has_a_name():
    """A table's header is read aloud with each cell below it. (contents.md is for JupyterLab.)"""
    for page in sorted({*BOOK.glob("*.md"), ROOT / "README.md"} - {BOOK / "contents.md"}):
        headers = re.findall(r"^\|(.*)\|\n\|[ :|-]+\|$", page.read_text("utf8"), re.M)
        assert [line for line in headers if not all(map(str.strip, line.split("|")))] == [], page


def test_its_numbers_are_so():
    import numpy as np

    from npt_lib.book.journey import HELD_OUT, SENTENCE, learn, red_balls

    task, said = red_balls(np.random.default_rng(25)), TEXT.replace("\n", " ")
    assert f"from {len(task.train):,} English sentences" in said
    assert f"We kept back all {len(task.test):,} sentences that have a *red ball*" in said
    assert not [english for english, _ in task.train if any(pair in english for pair in HELD_OUT)]
    assert SENTENCE == "the cat lost her red ball" and SENTENCE in dict(task.test)
    readme = (ROOT / "README.md").read_text("utf8")
    model = learn(task, np.random.default_rng(25))
    assert f"{model.n_parameters() / 1000:.0f} thousand parameters" in readme
    assert f"on {len(task.train):,} made-up sentences" in readme
    assert f"We kept back all {len(task.test):,} sentences that have a *red ball*, or" in readme
    shown = [f"the {who} lost {whose} {how} {what}" for who in ("cat", "bear", "child")
             for whose in ("her", "his") for how in ("red", "white", "old")
             for what in ("ball", "book", "hat")]
    assert set(shown) <= set(dict(task.test)), "a sentence of the explorer was learned from"


def test_its_hours_are_the_chapters():
    hours = [int(n) for n in re.findall(r"\| (\d+) hours \|", TEXT)]
    back = sum(int(n) for n in re.findall(r"\) \| \d+ \| (\d+) \| \d \| [^|]+ \|$", TEACHING, re.M))
    total = sum(map(minutes, CHAPTERS))
    assert hours[0] == round(total / 60)
    assert hours[0] == hours[1] + hours[2]
    assert abs(hours[2] - back / 60) <= 0.5
    assert "| those of chapters 2 to 10 | 8 hours more |" in TEXT
    kinds = [kind for path in CHAPTERS[1:] for kind in
             re.findall(r"### Exercise [\d.]+ · (\w+)", path.read_text("utf8"))]
    predict = kinds.count("Predict")
    assert len(kinds) == sum(
        int(n) for n in re.findall(r"\) \| \d+ \| \d+ \| (\d) \| [^|]+ \|$", TEACHING, re.M)) - 5
    least, most = (5 * predict + each * (len(kinds) - predict) for each in (10, 15))
    assert least < 8 * 60 < most
    readme = re.sub(r"\s+", " ", (ROOT / "README.md").read_text("utf8"))
    assert f"with their exercises take about {hours[0] + 8} hours" in readme
    assert hours[3] == 10 and "the six that follow about ten without theirs" in readme
    assert hours[3] == sum(map(minutes, sorted((BOOK / "beyond").glob("1*.ipynb")))) / 60


def test_it_is_clean():
    from tools import style

    faults = style.hygiene(BOOK / "index.ipynb")
    assert [f for f in faults if not f.startswith("tags ['remove-input']")] == []
    guard, *code = [c for c in CELLS if c["cell_type"] == "code"]
    assert "".join(guard["source"]) == style.GUARD
    assert [c["metadata"].get("tags") for c in code] == [["remove-input"]] * len(code)


EXPLORERS = [text for c in CELLS for out in c.get("outputs", [])
             if "npt-explorer" in (text := "".join(out.get("data", {}).get("text/html", "")))]


def test_the_journey_goes_from_words_to_words():
    journey, _ = EXPLORERS
    captions = re.findall(r'class="npt-caption">([^<]*)</p>', journey)
    assert 20 <= len(captions) - 1 <= 30                # the first is shown, and stored too
    for word in ("the", "cat", "lost", "her", "red", "ball"):
        assert [c for c in captions if c.startswith(f"“{word}” looks most at")]
    written = re.findall(r"The likeliest, “(.*?)”, is written", journey)
    assert written == ["la", "gata", "perdió", "su", "pelota", "roja", "&lt;eos&gt;"]


def test_its_first_word_looks_at_her():
    journey, change = EXPLORERS
    assert "across at the English, most at “her”" in journey
    assert "“cat” looks most at “her”" in journey
    for english, spanish in [("her red ball", "la gata perdió su pelota roja"),
                             ("his red ball", "el gato perdió su pelota roja"),
                             ("her red book", "la gata perdió su libro rojo")]:
        assert f"the cat lost {english}: {spanish}." in change


def test_with_his_the_first_word_looks_at_the_end_mark():
    import numpy as np

    from npt_lib.book.journey import learn, red_balls, travel

    rng = np.random.default_rng(25)
    task = red_balls(rng)
    model = learn(task, rng)
    for whose, looked_at in (("her", "her"), ("his", "<eos>")):
        trip = travel(model, task, f"the cat lost {whose} red ball")
        assert trip.source[int(np.argmax(trip.across[0]))] == looked_at
        assert np.max(trip.across[0]) > 0.6


@pytest.mark.long
def test_most_starts_translate_as_well():
    import numpy as np

    from npt_lib.book.journey import accuracy, learn, red_balls

    shares = []
    for start in range(30):
        rng = np.random.default_rng(start)
        task = red_balls(rng)
        shares.append(accuracy(learn(task, rng), task))
    assert np.sum(np.array(shares) == 1) >= 24      # 27 on our processor, as two pages say


def test_a_remark_is_made_only_where_it_is_true():
    from npt_lib.book.journey import remark

    assert remark("cat", ["the", "her"], [0.1, 0.9]).startswith(" Of a she-cat Spanish says")
    assert remark("cat", ["the", "her"], [0.9, 0.1]) == ""


def test_titles_are_carried_to_the_pages_that_list_them():
    from tools.titles import named

    old = "see [3 · An old title](03_multi_head.ipynb) and [chapter 3](03_multi_head.ipynb)"
    assert named(old) == (f"see [{title(BOOK / '03_multi_head.ipynb')}](03_multi_head.ipynb) "
                          "and [chapter 3](03_multi_head.ipynb)")


# the page for teachers

def test_the_teachers_table_is_the_chapters():
    rows = re.findall(r"^\| \[([^\]]+)\]\((\S+)\) \| (\d+) \| (\d+) \| (\d) \| ([^|]+) \|$",
                      TEACHING, re.M)
    assert [(a, b, int(c)) for a, b, c, *_ in rows] == [
        (title(p), p.name, minutes(p)) for p in CHAPTERS]
    for (*_, alone, back, count, in_class), path in zip(rows, CHAPTERS, strict=True):
        assert path.read_text("utf8").count("### Exercise ") == int(count)
        if path != CHAPTERS[0]:
            assert abs(1.25 * (int(alone) - int(back)) - int(in_class)) <= 2.5


def test_the_ten_weeks_name_every_exercise():
    weeks = re.findall(r"^\| (\d+) \| \[Chapter \1\]\(.*?\): .*exercises \1\.1 to \1\.(\d)",
                       TEACHING, re.M)
    counts = [str(p.read_text("utf8").count("### Exercise ")) for p in CHAPTERS]
    assert [n for _, n in weeks] == counts


# the extension

def config(url: str):
    options = {"repository_url": url, "repository_branch": "main"}
    return types.SimpleNamespace(html_theme_options=options)


class App:
    """What the extension asks of Sphinx."""

    def __init__(self):
        self.loaded = []

    def setup_extension(self, name):
        self.loaded.append(name)


SOURCE = "npt-lib[book] @ git+https://github.com/someone/book@main"


def test_without_an_address_nothing_names_one(extension):
    site, front = extension("book_site"), extension("book_front")
    given = config("")
    site.repository(App(), given)
    assert given.html_theme_options == {}
    assert front.install_source(given) == ""


def test_with_an_address_buttons_and_sources_follow(extension):
    site, front = extension("book_site"), extension("book_front")
    given, app = config("https://github.com/someone/book/"), App()
    site.repository(app, given)
    buttons = given.html_theme_options["launch_buttons"]
    assert buttons["colab_url"] and buttons["binderhub_url"]
    assert front.install_source(given) == SOURCE
    where = given.linkcode_resolve("py", {"module": "npt_lib.layers", "fullname": "softmax"})
    assert where.startswith("https://github.com/someone/book/blob/main/npt_lib/layers.py#L")
    shown = " ".join(node.astext() for node in front.colab(front.install_source(given)))
    assert f'pip install "{SOURCE}"' in shown


def test_the_archive_is_whole_and_the_same_each_time(extension, tmp_path):
    front = extension("book_front")
    front.write_archive(tmp_path / "a.zip")
    front.write_archive(tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    packed = zipfile.ZipFile(tmp_path / "a.zip").namelist()
    names = {name.removeprefix(f"{front.FOLDER}/") for name in packed}
    notebooks = {p.relative_to(ROOT).as_posix() for p in BOOK.rglob("*.ipynb")
                 if ".ipynb_checkpoints" not in p.parts}
    library = {p.relative_to(ROOT).as_posix() for p in (ROOT / "npt_lib").rglob("*.py")}
    read = {*(p.relative_to(ROOT).as_posix() for p in (ROOT / "examples").glob("*.py")),
            *(f"book/beyond/{name}.json" for name in (
                "modern_parts", "scaling_law", "efficiency", "language_model")),
            *(f"book/beyond/from_torch/{name}" for name in (
                "config.json", "model.safetensors", "vocab.json", "merges.txt", "told.json",
                "told.safetensors")),
            "book/beyond/fewer_bits.json", "book/beyond/fewer_bits.npz"}       # by chapter 14
    assert notebooks | library | read | {"requirements.txt", "pyproject.toml",
                                         "README.md"} <= names
    for page in notebooks:                             # no link of a notebook leads out of it
        links = re.findall(r"\]\(([^)#\s:]+\.(?:ipynb|md|svg))", (ROOT / page).read_text("utf8"))
        inside = {(ROOT / page).parent.joinpath(t).resolve().relative_to(ROOT).as_posix()
                  for t in links}
        assert inside <= names


def test_binder_installs_what_the_archive_installs(extension):
    pins = (ROOT / ".binder" / "requirements.txt").read_text("utf8")
    assert pins == extension("book_front").requirements()
    assert (ROOT / ".binder" / "runtime.txt").read_text("utf8").strip() == "python-3.11"
    wanted = (*extension("book_front").TO_RUN, "-e .")
    assert [line.split("==")[0] for line in pins.splitlines()] == list(wanted)
