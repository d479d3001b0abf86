"""Open the notebooks in JupyterLab, trusted, with the contents page in front.

    python tools/lab.py [options of jupyter lab]

JupyterLab shows the figures of a notebook that comes from elsewhere only once it is trusted.
The settings in tools/labconfig are defaults that a reader's own settings override: pages of
Markdown open as pages, links to a section end exactly there, and nothing is fetched from elsewhere.
"""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
from nbformat.sign import NotebookNotary

ROOT = Path(__file__).resolve().parent.parent
FIRST = "/lab/tree/book/contents.md"


def trust() -> None:
    notary = NotebookNotary()
    for path in ROOT.glob("book/**/*.ipynb"):
        if ".ipynb_checkpoints" not in path.parts:
            notary.sign(nbformat.read(path, as_version=4))


def environment() -> dict[str, str]:
    there = os.environ.get("JUPYTER_CONFIG_PATH")
    return os.environ | {"JUPYTER_CONFIG_PATH": os.pathsep.join(
        filter(None, [there, str(ROOT / "tools")]))}  # fmt: skip


def command(options: list[str]) -> list[str]:
    """From the repository's root, so that links to the library's source lead somewhere."""
    return [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={ROOT}",
            f"--LabApp.default_url={FIRST}", *options]  # fmt: skip


if __name__ == "__main__":
    trust()
    try:
        sys.exit(subprocess.run(command(sys.argv[1:]), cwd=ROOT, env=environment()).returncode)
    except KeyboardInterrupt:
        pass
