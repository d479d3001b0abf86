"""What every test, and every kernel that a test starts, runs under."""

import importlib.util
import os

from tools.kernel_env import ENV

os.environ.update(ENV)  # before NumPy is imported: one BLAS thread, no progress bars

# The comparison with PyTorch has an environment of its own: make test-parity
collect_ignore = [] if importlib.util.find_spec("torch") else ["tests/parity"]

if importlib.util.find_spec("hypothesis"):
    from hypothesis import settings

    settings.register_profile("book", deadline=None, derandomize=True, database=None)
    settings.load_profile("book")
