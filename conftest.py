"""What every test, and every kernel that a test starts, runs under."""

import importlib.util
import os

from tools.kernel_env import ENV, list_fonts, start_again

os.environ.update(ENV)  # before NumPy is imported: one BLAS thread, no progress bars
pytest_plugins = ["tests.same_bytes"] if importlib.util.find_spec("nbformat") else []

# What the library's own tests do without (requirements-library.txt): PyTorch has an environment of
# its own (make test-parity), and what builds the pages and runs notebooks is for the book.
NEEDS = {"tests/parity": "torch", "tests/pages": "sphinx", "tests/test_links.py": "sphinx",
         "tests/test_nb.py": "nbformat", "tests/test_book_style.py": "nbformat"}
collect_ignore = [path for path, need in NEEDS.items() if not importlib.util.find_spec(need)]

if importlib.util.find_spec("nbval"):
    from nbval import kernel

    list_fonts()
    kernel.start_new_kernel = start_again(kernel.start_new_kernel)

if importlib.util.find_spec("hypothesis"):
    from hypothesis import settings

    settings.register_profile("book", deadline=None, derandomize=True, database=None)
    settings.load_profile("book")
