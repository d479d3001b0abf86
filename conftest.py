"""What every test, and every kernel that a test starts, runs under."""

import importlib.util
import os

from tools.kernel_env import ENV

os.environ.update(ENV)  # before NumPy is imported: one BLAS thread, no progress bars

# What the library's own tests do without (requirements-library.txt): PyTorch has an environment of
# its own (make test-parity), and what builds the pages and runs notebooks is for the book.
NEEDS = {"tests/parity": "torch", "tests/pages": "sphinx", "tests/test_links.py": "sphinx",
         "tests/test_nb.py": "nbformat", "tests/test_book_style.py": "nbformat"}
collect_ignore = [path for path, need in NEEDS.items() if not importlib.util.find_spec(need)]

# They run for a minute or more: first, so that none is left to run alone at the end.
LONGEST = ("11_language_model.ipynb", "12_modern_parts.ipynb", "10_training.ipynb",
           "06_encoder_block.ipynb")


def pytest_collection_modifyitems(items):
    """The longest notebooks of the book first; the rest as it was found."""
    def place(item):
        chapter = item.path.name in LONGEST and item.path.parent.name != "solutions"
        return LONGEST.index(item.path.name) if chapter else len(LONGEST)

    items.sort(key=place)


if importlib.util.find_spec("hypothesis"):
    from hypothesis import settings

    settings.register_profile("book", deadline=None, derandomize=True, database=None)
    settings.load_profile("book")
