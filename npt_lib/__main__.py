"""``python -m npt_lib``: what is installed, and whether it works here. For bug reports."""

import os
import platform
import sys

import numpy as np

import npt_lib as npt
from npt_lib.tasks import phrases


def main() -> int:
    """Print the versions, check every gradient of a small model, train one; 0 if all is well."""
    for name, value in versions().items():
        print(f"{name:12} {value}")
    checks = [gradients(), learning()]
    for passed, text in checks:
        print("ok    " if passed else "WRONG ", text)
    well = all(passed for passed, _ in checks)
    print("All is well." if well else "Something is wrong: please send all of the above.")
    return 0 if well else 1


def versions() -> dict[str, str]:
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    kernel = os.environ.get("OPENBLAS_CORETYPE", "the machine's own")
    return {
        "npt_lib": npt.__version__,
        "Python": f"{platform.python_version()} on {platform.platform()}",
        "NumPy": np.__version__,
        "BLAS": f"{blas.get('name')} {blas.get('version')}, kernel: {kernel}",
        "cores": str(os.cpu_count()),
    }


def gradients() -> tuple[bool, str]:
    """Every gradient of a small Transformer against central differences, dropout on."""
    config = npt.Config(7, 9, d_model=4, n_heads=2, d_ff=5, n_layers=1, dropout=0.2, max_len=6)
    rng = np.random.default_rng(0)
    model = npt.Transformer(config, rng).astype(np.float64)
    src, tgt = rng.integers(3, 7, (2, 5)), rng.integers(3, 9, (2, 3))

    def forward():
        return model.forward(src, tgt, np.random.default_rng(1))

    worst = npt.check_gradients(forward, [], model.parameters())
    n = model.n_parameters()
    return worst < 1e-6, f"gradients of {n:,} numbers against central differences: {worst:.1e}"


def learning() -> tuple[bool, str]:
    """Learn three phrases by heart, and write them."""
    task, rng = phrases(), np.random.default_rng(0)
    model = npt.Transformer(task.config(d_model=32, d_ff=64, dropout=0.0), rng)
    npt.train(model, npt.Adam(model.parameters(), lr=3e-3), task.batches(3, rng), rng, 100)
    written = task.tgt_tokenizer.decode_batch(npt.greedy(model, task.arrays()[0], 8))
    right = sum(text == target for text, (_, target) in zip(written, task.train, strict=True))
    return right == 3, f"phrases learned by heart in 100 steps: {right} of 3"


if __name__ == "__main__":
    sys.exit(main())
