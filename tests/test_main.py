"""``python -m npt_lib``: what a reader runs when something seems off."""

import subprocess
import sys

import numpy as np

import npt_lib
from npt_lib import __main__ as self_check


def test_it_prints_versions_and_a_verdict():
    done = subprocess.run([sys.executable, "-m", "npt_lib"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["npt_lib", npt_lib.__version__]
    assert f"NumPy        {np.__version__}" in lines
    assert lines[-3].startswith("ok     gradients of 478 numbers")
    assert lines[-2:] == ["ok     phrases learned by heart in 100 steps: 3 of 3", "All is well."]


def test_a_wrong_gradient_is_reported(monkeypatch, capsys):
    def wrong(y, dy):
        return 2 * y * dy

    module = sys.modules["npt_lib.dot_product_attention"]
    monkeypatch.setattr(module, "softmax_gradient", wrong)
    monkeypatch.setattr(self_check, "learning", lambda: (True, "learning"))
    assert self_check.main() == 1
    printed = capsys.readouterr().out
    assert "WRONG  gradients of 478 numbers" in printed
    assert printed.endswith("please send all of the above.\n")
