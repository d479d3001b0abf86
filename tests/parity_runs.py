"""What the parity tests run on our side, and how results are stored and compared. NumPy alone.

A run has two dictionaries of arrays: ``given`` (inputs x0, x1, ..., dy and the parameters by
name) and ``result`` (y, the gradients dx0, dx1, ... and the parameters' gradients by name).
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from cases import CONFIG, Case, source_and_target

import npt_lib as npt

FIXTURES = Path(__file__).parent / "fixtures"
N_STEPS, SMOOTHING, MAX_NORM = 10, 0.1, 2.5


def is_float(x):
    return np.asarray(x).dtype.kind == "f"


def cast(x, dtype):
    return x.astype(dtype) if is_float(x) else x


def inputs_of(given):
    return [given[f"x{i}"] for i in range(len(given)) if f"x{i}" in given]


def module_of(case, given, dtype=np.float64):
    """The case's module with the parameters that are given."""
    module = case.build(np.random.default_rng(0))
    if module is None:
        return None
    module = module.astype(dtype)
    module.load_state_dict({name: given[name] for name in module.parameters()})
    return module


def draw(case, seed=0):
    """Random parameters, inputs and dy for a case."""
    module, inputs = case.make(seed)
    y, _ = case.run(module, inputs, None)
    return {
        **{f"x{i}": x for i, x in enumerate(inputs)},
        "dy": np.random.default_rng(seed + 1).standard_normal(np.shape(y)),
        **(module.state_dict() if module else {}),
    }


def ours(case, given, dtype=np.float64):
    """Forward and backward without dropout: the output and every gradient."""
    module = module_of(case, given, dtype)
    y, backward = case.run(module, [cast(x, dtype) for x in inputs_of(given)], None)
    dxs = backward(cast(given["dy"], dtype))
    dxs = dxs if isinstance(dxs, tuple) else () if dxs is None else (dxs,)
    parameters = module.parameters() if module else {}
    return {
        "y": y,
        **{f"dx{i}": dx for i, dx in enumerate(dxs)},
        **{name: p.grad for name, p in parameters.items()},
    }


@dataclass(frozen=True)
class Training:
    """Ten clipped steps of a whole model on ten batches, at a rising learning rate."""

    name: str
    config: npt.Config
    optimizer: str
    lr: float

    def build(self, rng):
        return npt.Transformer(self.config, rng)

    def draw(self):
        model, _ = Case(self.name, "Transformer", source_and_target, self.build).make()
        rng = np.random.default_rng(1)
        batches = [source_and_target(rng) for _ in range(N_STEPS)]
        rates = self.lr * np.arange(1, N_STEPS + 1) / N_STEPS
        return {"src": np.stack([src for src, _ in batches]),
                "tgt": np.stack([tgt for _, tgt in batches]), "rates": rates,
                **model.state_dict()}


OPTIMIZERS = {
    "adam": lambda parameters: npt.Adam(parameters, betas=(0.9, 0.98), eps=1e-9),
    "adamw": lambda parameters: npt.Adam(parameters, betas=(0.9, 0.98), weight_decay=0.3),
    "sgd": lambda parameters: npt.SGD(parameters, lr=1.0, momentum=0.9),
}
TRAININGS = [
    Training(f"training, {norm}, {optimizer}", replace(CONFIG, pre_norm=norm == "pre-norm"),
             optimizer, 0.5 if optimizer == "sgd" else 0.01)
    for norm in ("post-norm", "pre-norm") for optimizer in OPTIMIZERS
]


def train_ours(training, given, dtype=np.float64):
    """The losses of all steps, and the parameters after the last."""
    model = module_of(training, given, dtype)
    optimizer = OPTIMIZERS[training.optimizer](model.parameters())
    losses = [
        npt.train_step(model, optimizer, batch, None, lr, MAX_NORM,
                       label_smoothing=SMOOTHING)
        for *batch, lr in zip(given["src"], given["tgt"], given["rates"].tolist(), strict=True)
    ]
    return {"losses": np.array(losses), **model.state_dict()}


def fixture_path(name):
    return FIXTURES / (name.replace(",", "").replace(" ", "_") + ".npz")


def read_fixture(name):
    """The two dictionaries that make_fixtures.py stored."""
    with np.load(fixture_path(name), allow_pickle=False) as file:
        return tuple(
            {key.removeprefix(group): file[key] for key in file if key.startswith(group)}
            for group in ("given/", "result/")
        )


def errors(result, expected, floor=0.0):
    """For each array the largest difference, as a share of the largest number expected.

    An array with no number above floor, as a share of the largest of all, is measured by that.
    """
    assert result.keys() == expected.keys()
    least = floor * max(np.abs(x).max() for x in expected.values())
    return {name: relative(result[name], expected[name], least) for name in expected}


def beyond(limit, *args):
    """The errors that are not within the limit; NaN is not."""
    return {name: error for name, error in errors(*args).items() if not error < limit}


def relative(x, expected, least=0.0):
    assert np.shape(x) == np.shape(expected)
    return np.abs(x - expected).max() / max(np.abs(expected).max(), least, 1e-300)


def key_bias(name, bias):
    """The keys' part of a fused bias (or gradient of one); nothing of any other array.

    It adds one number to all scores of a query, which softmax takes out again: its gradient is
    0, and what arithmetic finds there is rounding, of about 1e-17 (float64) or 1e-9 (float32).
    """
    if name.endswith("qkv.b"):
        return np.split(bias, 3)[1]
    return np.split(bias, 2)[0] if name.endswith("kv.b") else bias[:0]


def without_key_biases(arrays):
    """Copies of the arrays, with 0 for the key biases."""
    arrays = {name: x.copy() for name, x in arrays.items()}
    for name, x in arrays.items():
        key_bias(name, x)[:] = 0
    return arrays
