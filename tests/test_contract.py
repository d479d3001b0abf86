"""What DESIGN promises of every forward and backward, over the whole list of cases."""

import ast
import gc
import inspect
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from cases import CASES

import npt_lib

by_name = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def freeze(*arrays):
    for array in arrays:
        if isinstance(array, np.ndarray):
            array.flags.writeable = False


def as_tuple(x):
    return x if isinstance(x, tuple) else () if x is None else (x,)


def like(y, rng):
    """A dy for y: random for arrays, 1 for a loss."""
    return rng.standard_normal(y.shape).astype(y.dtype) if np.ndim(y) else 1.0


def gradients(module):
    return {name: p.grad.copy() for name, p in module.parameters().items()} if module else {}


def run_back(case, module, inputs, dy_seed=1, rng_seed=7):
    """Output, input gradients and fresh parameter gradients of one run."""
    if module:
        module.zero_grad()
    y, backward = case.run(module, inputs, np.random.default_rng(rng_seed))
    dxs = as_tuple(backward(like(y, np.random.default_rng(dy_seed))))
    return np.array(y), [dx.copy() for dx in dxs], gradients(module)


def assert_same(one, other):
    (y1, dxs1, grads1), (y2, dxs2, grads2) = one, other
    np.testing.assert_array_equal(y1, y2)
    assert len(dxs1) == len(dxs2) and grads1.keys() == grads2.keys()
    for a, b in zip(dxs1, dxs2, strict=True):
        np.testing.assert_array_equal(a, b)
    for name in grads1:
        np.testing.assert_array_equal(grads1[name], grads2[name], err_msg=name)


@by_name
def test_nothing_given_or_returned_is_changed(case):
    """Inputs, parameters, dy and y are read-only: anything written in place fails."""
    module, inputs = case.make()
    freeze(*inputs, *(p.value for p in (module.parameters().values() if module else ())))
    expected = run_back(case, module, inputs)
    if module:
        module.zero_grad()
    y, backward = case.run(module, inputs, np.random.default_rng(7))
    dy = like(y, np.random.default_rng(1))
    freeze(y, dy)
    dxs = as_tuple(backward(dy))
    freeze(*dxs, *(p.grad for p in (module.parameters().values() if module else ())))
    once = gradients(module)
    backward(dy)                                       # a second time adds to the parameters
    for name, grad in gradients(module).items():
        np.testing.assert_allclose(grad, 2 * once[name], rtol=1e-12, err_msg=name)
    assert_same((np.array(y), list(dxs), once), expected)


@by_name
def test_one_gradient_for_each_float_input_of_its_shape(case):
    module, inputs = case.make()
    _, dxs, grads = run_back(case, module, inputs)
    wanted = [x.shape for x in inputs if x.dtype.kind == "f"]
    assert [dx.shape for dx in dxs] == wanted
    for name, p in (module.parameters() if module else {}).items():
        assert grads[name].shape == p.shape


@by_name
def test_two_forwards_before_the_first_backward(case):
    """A layer may be used twice, and two runs may be alive at once."""
    module, first = case.make()
    _, second = case.make(seed=1)
    alone = [run_back(case, module, first), run_back(case, module, second)]
    if module:
        module.zero_grad()
    y1, backward1 = case.run(module, first, np.random.default_rng(7))
    y2, backward2 = case.run(module, second, np.random.default_rng(7))
    dx2 = as_tuple(backward2(like(y2, np.random.default_rng(1))))
    grads2 = gradients(module)
    if module:
        module.zero_grad()
    dx1 = as_tuple(backward1(like(y1, np.random.default_rng(1))))
    assert_same((np.array(y1), list(dx1), gradients(module)), alone[0])
    assert_same((np.array(y2), list(dx2), grads2), alone[1])


@by_name
def test_float32_stays_float32(case):
    module, inputs = case.make()
    inputs = [x.astype(np.float32) if x.dtype.kind == "f" else x for x in inputs]
    module = module.astype(np.float32) if module else None
    y, dxs, grads = run_back(case, module, inputs)
    if np.ndim(y):
        assert y.dtype == np.float32
    assert [dx.dtype for dx in dxs] == [np.float32] * len(dxs)
    assert {name: g.dtype for name, g in grads.items()} == dict.fromkeys(grads, np.dtype("f4"))


@by_name
def test_batch_rows_do_not_see_each_other(case):
    """The first row alone gives what it gives in a batch (losses are means, so not they)."""
    module, inputs = case.make()
    y, _ = case.run(module, inputs, None)
    if np.ndim(y) == 0:
        pytest.skip("a mean over the batch")
    alone, _ = case.run(module, [x[:1] for x in inputs], None)
    np.testing.assert_allclose(alone, y[:1], rtol=1e-10, atol=1e-12)


@by_name
def test_no_global_random_state(case):
    before = np.random.get_state()[1].copy()
    module, inputs = case.make()
    run_back(case, module, inputs)
    np.testing.assert_array_equal(np.random.get_state()[1], before)


@pytest.fixture(scope="module")
def all_else_left_alone():
    """What was there before is not gone through by each collection: that would take a while."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@by_name
def test_inference_keeps_nothing(case, all_else_left_alone):
    """Calling a module (not forward) leaves no more memory behind than its output."""
    module, inputs = case.make()
    if module is None:
        pytest.skip("a function")
    floats = [x for x in inputs if x.dtype.kind != "b"]
    tracemalloc.start()
    module(*floats)                                    # fills NumPy's own small caches, and ours
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    y = module(*floats)
    gc.collect()
    kept = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert kept < y.nbytes + 2_000


# The lint: names that a backward reads are bound once.

PACKAGE = Path(npt_lib.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))


def stored(tree):
    return [n.id for n in ast.walk(tree)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]


def rebound_names(source):
    """(function, name) for each name that a nested backward reads and its forward binds twice."""
    for outer in ast.walk(ast.parse(source)):
        if not isinstance(outer, ast.FunctionDef):
            continue
        inner = [n for n in outer.body if isinstance(n, ast.FunctionDef)]
        bound = [a.arg for a in (*outer.args.args, *outer.args.kwonlyargs)]
        for statement in outer.body:
            if statement not in inner:
                bound += stored(statement)
        for f in inner:
            own = {a.arg for a in f.args.args} | set(stored(f))
            read = {n.id for n in ast.walk(f) if isinstance(n, ast.Name)} - own
            yield from ((outer.name, name) for name in sorted(read) if bound.count(name) > 1)


def backwards_in_loops(source):
    for loop in ast.walk(ast.parse(source)):
        if isinstance(loop, ast.For | ast.While | ast.ListComp | ast.GeneratorExp):
            yield from (f.lineno for f in ast.walk(loop) if isinstance(f, ast.FunctionDef))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_a_backward_reads_is_bound_once(path):
    source = path.read_text("utf8")
    assert list(rebound_names(source)) == []
    assert list(backwards_in_loops(source)) == []


def test_the_lint_finds_a_rebound_name():
    bad = """
def forward(x):
    x = x + 1
    y = x * x
    def backward(dy):
        return dy * 2 * x
    return y, backward
"""
    assert list(rebound_names(bad)) == [("forward", "x")]
    assert list(rebound_names(bad.replace("x = x + 1\n    y = x * x", "y = x * x"))) == []


# Readability, as numbers.

def functions():
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text("utf8"))):
            if isinstance(node, ast.FunctionDef):
                yield node


def test_functions_are_short():
    assert np.median([f.end_lineno - f.lineno + 1 for f in functions()]) <= 12


def test_docstrings_are_short():
    long = {f.name for f in functions() if len((ast.get_docstring(f) or "").splitlines()) > 12}
    assert long == set()


ORDER = [
    "require", "parallel.threads", "parallel.memory", "module", "gradcheck", "layers", "norm",
    "long_attention", "dot_product_attention", "multi_head_attention", "pattern_attention",
    "feed_forward", "tokenizer", "embedding",
    "config", "encoder", "decoder", "loss", "generate",
    "transformer",
    "parallel.data_parallel", "parallel.processes", "optim", "checkpoint", "training", "gpt",
    "sweeps",
    "modern", "byte_pairs", "gpt2",
]


def imports(name):
    tree = ast.parse((PACKAGE / f"{name.replace('.', '/')}.py").read_text("utf8"))
    found = [n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module]
    return {m.removeprefix("npt_lib.") for m in found if m.startswith("npt_lib.")}


@pytest.mark.parametrize("name", ORDER)
def test_a_file_imports_only_from_files_above_it(name):
    assert imports(name) <= set(ORDER[:ORDER.index(name)])


def test_importing_the_library_needs_numpy_alone():
    import subprocess
    import sys
    code = ("import sys, npt_lib; "
            "print(sorted({'matplotlib', 'IPython', 'ipywidgets', 'tqdm', 'mpi4py', 'safetensors', "
            "'dask', 'distributed'} "
            "& set(sys.modules)))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_names_have_docstrings():
    missing = [n for n in npt_lib.__all__ if not inspect.getdoc(getattr(npt_lib, n))]
    assert missing == []
    assert set(npt_lib.__all__) <= set(dir(npt_lib))
