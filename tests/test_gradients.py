"""Every gradient against central differences, in float64, with dropout and masks on."""

import inspect

import numpy as np
import pytest
from cases import CASES
from small import directed_errors

import npt_lib
from npt_lib import Module, gradient_errors

LARGE = 1500                        # from this many parameters on, directions in place of entries

by_name = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@by_name
def test_gradients_agree_with_central_differences(case):
    module, inputs = case.make()
    parameters = module.parameters() if module else {}
    assert sum(p.value.size for p in parameters.values()) == case.n_parameters

    def forward(*xs):
        return case.run(module, xs, np.random.default_rng(7))

    errors_of = gradient_errors if case.n_parameters < LARGE else directed_errors
    errors = errors_of(forward, inputs, parameters)
    n_floats = sum(x.dtype.kind == "f" for x in inputs)
    assert len(errors) == len(parameters) + n_floats > 0
    assert max(errors.values()) < 1e-6, errors
    assert np.median(list(errors.values())) < 1e-8


def differentiable():
    """The public names that return a backward: every Module, and functions that say so."""
    for name in npt_lib.__all__:
        thing = getattr(npt_lib, name)
        if inspect.isclass(thing):
            if issubclass(thing, Module) and thing is not Module:
                yield name
        elif "Backward" in str(inspect.signature(thing).return_annotation):
            yield name
        elif "Callable" in str(inspect.signature(thing).return_annotation):
            yield name


def test_everything_public_has_a_case():
    found = set(differentiable())
    assert found == {case.covers for case in CASES}
    assert len(found) >= 20


def test_cases_have_different_names():
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)


def broken(square_gradient):
    def forward(x):
        return x * x, lambda dy: square_gradient(x, dy)
    return forward


@pytest.mark.parametrize("gradient, error", [
    (lambda x, dy: 2 * x * dy, 0.0),
    (lambda x, dy: x * dy, 0.5),
    (lambda x, dy: -2 * x * dy, 2.0),
    (lambda x, dy: 0 * dy, 1.0),
])
def test_the_check_finds_wrong_gradients(gradient, error):
    x = np.array([[0.5, -1.0, 2.0], [3.0, 0.1, -0.7]])
    found = npt_lib.check_gradients(broken(gradient), [x])
    assert abs(found - error) < 1e-8


@pytest.mark.parametrize("wrong", [(0, 0), (6, 4)])
def test_one_wrong_entry_shows_along_random_directions(wrong):
    layer = npt_lib.Linear(7, 5, np.random.default_rng(0)).astype(np.float64)
    x, parameters = np.random.default_rng(1).standard_normal((3, 7)), layer.parameters()

    def forward(x):
        y, backward = layer.forward(x)

        def slipped(dy):
            dx = backward(dy)
            layer.W.grad[wrong] += 1e-3
            return dx

        return y, slipped

    right = directed_errors(layer.forward, [x], parameters)
    found = directed_errors(forward, [x], parameters)
    assert list(right) == ["input 0", "W", "b"] and max(right.values()) < 1e-8
    assert found["W"] > 1e-5 and max(found["input 0"], found["b"]) < 1e-8


def test_the_check_wants_float64_and_every_gradient():
    x = np.ones((2, 3), np.float32)
    with pytest.raises(ValueError, match="needs float64, but input 0 is float32"):
        npt_lib.check_gradients(broken(lambda x, dy: dy), [x])
    layer = npt_lib.Linear(3, 2, np.random.default_rng(0)).astype(np.float64)
    with pytest.raises(ValueError, match=r"no gradient on \['W', 'b'\]"):
        npt_lib.check_gradients(lambda x: (x @ layer.W.value, lambda dy: dy @ layer.W.value.T),
                                [x.astype(np.float64)], layer.parameters())


def test_numeric_gradient_restores_its_input():
    x = np.array([1.0, 2.0, 3.0])
    grad = npt_lib.numeric_gradient(lambda: float(np.sum(x**3)), x)
    np.testing.assert_array_equal(x, [1.0, 2.0, 3.0])
    np.testing.assert_allclose(grad, 3 * x**2, rtol=1e-9)
