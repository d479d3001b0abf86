"""The front door: small pictures in the page's colours, the archive of notebooks, Colab, Binder.

The landing page holds two comments, ``<!-- archive -->`` and ``<!-- colab -->``. Here the first
becomes a link to the archive, with a place below it where tools/pdf.py, which makes the PDF, puts
the link to it; the second becomes what to run in Colab, and only once
``repository_url`` in _config.yml is set: until then nothing can say where to install from.
"""

import sys
import zipfile
from pathlib import Path

from docutils import nodes
from inline_svg import drawing
from sphinx.transforms import SphinxTransform

from npt_lib.book.figures.svg import themed

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.style import source_at  # noqa: E402

ARCHIVE, FOLDER = "notebooks.zip", "transformer-from-scratch"
TO_RUN = ("numpy", "matplotlib", "ipywidgets", "anywidget", "tqdm", "threadpoolctl", "jupyterlab")
WITHIN = ("book/**/*.ipynb", "book/beyond/*.json", "book/beyond/*.npz",
          "book/beyond/from_torch/*",
          "examples/*.py", "book/*.md", "book/figures/*", "tools/lab.py",
          "tools/labconfig/*", "npt_lib/**/*.py", "npt_lib/py.typed",
          "npt_lib/book/*.js", "npt_lib/book/*.css",
          "pyproject.toml", "requirements-beyond.txt", "LICENSE", "LICENSE-TEXT")  # fmt: skip
README = """# A Transformer from scratch, in NumPy: the notebooks

In this folder, with Python 3.11 or newer:

    python3 -m venv .venv
    .venv/bin/pip install -r requirements.txt
    .venv/bin/python tools/lab.py

On Windows, `python` in place of `python3`, and `.venv\\Scripts` in place of `.venv/bin`.
Chapters 14 to 16 need more:

    .venv/bin/pip install -r requirements-beyond.txt
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
                    image.replace_self(drawing(html=themed(drawn)))


class Front(SphinxTransform):
    """The comments of the landing page."""

    default_priority = 801

    def apply(self, **kwargs):
        source = install_source(self.app.config)
        for raw in list(self.document.findall(nodes.raw)):
            if raw.astext().strip() == "<!-- archive -->":
                raw.replace_self([archive_link(self.app, self.env.docname),
                                  nodes.raw("", "<!-- pdf -->", format="html")])
            elif raw.astext().strip() == "<!-- colab -->":
                raw.replace_self(colab(source) if source else [])


def install_source(config) -> str:
    """What pip installs the library from; empty while no address is set."""
    options = config.html_theme_options
    return source_at(options.get("repository_url"), options.get("repository_branch", "main"))


def archive_link(app, docname: str) -> nodes.Node:
    up = "../" * app.builder.get_target_uri(docname).count("/")
    link = nodes.reference("", "All notebooks as one archive", refuri=up + ARCHIVE, internal=True)
    return nodes.paragraph("", "", link, nodes.Text(
        ": chapters, solutions, the library, and what to install."))


def colab(source: str) -> list[nodes.Node]:
    """What the buttons do, and how the library is installed elsewhere."""
    text = ("The buttons at the top of each page open it in Binder, where all is installed, or in "
            "Colab, where its first cell installs the library. Elsewhere:")
    return [nodes.paragraph("", text),
            nodes.literal_block("", f'pip install "{source}"', language="text")]


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
