"""The front door: small pictures in the page's colours, the archive of notebooks, Colab, Binder.

The landing page holds two comments, ``<!-- archive -->`` and ``<!-- colab -->``. Here the first
becomes a link to the archive; the second becomes what to run in Colab, and only once
``repository_url`` in _config.yml is set: until then nothing can say where to install from.
"""

import re
import zipfile
from pathlib import Path

from docutils import nodes
from sphinx.transforms import SphinxTransform

from npt_lib.figures.svg import themed

ROOT = Path(__file__).resolve().parent.parent
ARCHIVE, FOLDER = "notebooks.zip", "transformer-from-scratch"
TO_RUN = ("numpy", "matplotlib", "ipywidgets", "tqdm", "jupyterlab")
WITHIN = ("book/**/*.ipynb", "book/*.md", "book/figures/*", "npt_lib/**/*.py", "npt_lib/py.typed",
          "pyproject.toml", "LICENSE", "LICENSE-TEXT")  # fmt: skip
README = """# A Transformer from scratch, in NumPy: the notebooks

In this folder, with Python 3.11 or newer:

    python -m venv .venv
    .venv/bin/pip install -r requirements.txt
    .venv/bin/jupyter trust book/*.ipynb book/solutions/*.ipynb
    .venv/bin/jupyter lab book/index.ipynb

On Windows, `.venv\\Scripts` in place of `.venv/bin`.
"""


class Pictures(SphinxTransform):
    """An image that is one of the book's own drawings stands in the page, in its colours."""

    default_priority = 800

    def apply(self, **kwargs):
        here = Path(self.env.doc2path(self.env.docname)).parent
        for image in list(self.document.findall(nodes.image)):
            path = here / image["uri"]
            if path.suffix == ".svg" and path.is_file():
                drawn = path.read_text("utf8").strip()
                if 'class="npt-fig"' in drawn:
                    self.env.note_dependency(str(path))
                    image.replace_self(nodes.raw("", themed(drawn), format="html"))


class Front(SphinxTransform):
    """The comments of the landing page; on other notebooks, a line for those who come by Colab."""

    default_priority = 801

    def apply(self, **kwargs):
        source = install_source(self.app.config)
        for raw in list(self.document.findall(nodes.raw)):
            if raw.astext().strip() == "<!-- archive -->":
                raw.replace_self(archive_link(self.app, self.env.docname))
            elif raw.astext().strip() == "<!-- colab -->":
                raw.replace_self(colab(source) if source else [])
        numbered = re.search(r"/\d\d_\w+$", self.env.docname)
        first = next(iter(self.document.findall(nodes.bullet_list)), None) if numbered else None
        if source and numbered:
            line = nodes.paragraph("", "", nodes.Text("Opened in Colab, run this first: "),
                                   nodes.literal("", f"%pip install -q {source}"),
                                   classes=["npt-launch"])  # fmt: skip
            title = next(iter(self.document.findall(nodes.title)))
            after = first if first is not None and first.parent is title.parent else title
            after.parent.insert(after.parent.index(after) + 1, line)


def install_source(config) -> str:
    """What pip installs the library from; empty while no address is set."""
    options = config.html_theme_options
    url = (options.get("repository_url") or "").rstrip("/")
    return f"git+{url}@{options.get('repository_branch', 'main')}" if url else ""


def archive_link(app, docname: str) -> nodes.Node:
    up = "../" * app.builder.get_target_uri(docname).count("/")
    link = nodes.reference("", "All notebooks as one archive", refuri=up + ARCHIVE, internal=True)
    return nodes.paragraph("", "", link, nodes.Text(
        ": chapters, solutions, the library, and what to install."))


def colab(source: str) -> list[nodes.Node]:
    """What a notebook needs in Colab, which has NumPy but not the library."""
    text = ("The buttons at the top of each page open it in Binder, where all is installed, or in "
            "Colab. There, put this into a cell above the first, and run it:")
    return [nodes.paragraph("", text),
            nodes.literal_block("", f"%pip install -q {source}", language="text")]


def archive(app, error):
    """Notebooks, library and requirements; the same bytes for the same files."""
    if error is None and app.builder.format == "html":
        write_archive(Path(app.outdir) / ARCHIVE)


def write_archive(path: Path) -> None:
    files = {p.relative_to(ROOT).as_posix(): p.read_bytes()
             for pattern in WITHIN for p in ROOT.glob(pattern)
             if p.is_file() and ".ipynb_checkpoints" not in p.parts}  # fmt: skip
    files |= {"README.md": README.encode(), "requirements.txt": requirements().encode()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in sorted(files):
            entry = zipfile.ZipInfo(f"{FOLDER}/{name}", (1980, 1, 1, 0, 0, 0))
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            packed.writestr(entry, files[name])


def requirements() -> str:
    """The pins of requirements.txt that running the notebooks needs, and the library."""
    pins = (ROOT / "requirements.txt").read_text("utf8").splitlines()
    kept = [pin for name in TO_RUN for pin in pins if pin.startswith(f"{name}==")]
    return "\n".join([*kept, "-e .", ""])


def setup(app):
    app.add_transform(Pictures)
    app.add_transform(Front)
    app.connect("build-finished", archive)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
