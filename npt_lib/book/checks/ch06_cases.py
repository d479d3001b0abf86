"""What the exercises of chapter 6 compare with: right answers, and known mistakes."""

import numpy as np

EPS = 1e-5


def mean(x, axis=-1):
    return x.mean(axis=axis, keepdims=True)


def normalised(x, axis=-1, eps=EPS, divisor=np.sqrt):
    c = x - mean(x, axis)
    return c / divisor(mean(c * c, axis) + eps)


def layer_norm(x, gain, bias):
    return normalised(x) * gain + bias


def with_norm(norm):
    """layer_norm with another way to normalise."""
    return lambda x, gain, bias: norm(x) * gain + bias


def eps_outside(x):
    c = x - mean(x)
    return c / (np.sqrt(mean(c * c)) + EPS)


def one_less(x):
    c = x - mean(x)
    return c / np.sqrt((c * c).sum(axis=-1, keepdims=True) / (x.shape[-1] - 1) + EPS)


def no_eps(x):
    with np.errstate(invalid="ignore", divide="ignore"):
        return normalised(x, eps=0.0)


def norm_with(dx):
    """layer_norm with a backward that returns dx(dy, n, std, gain)."""
    def layer_norm_and_backward(x, gain, bias):
        c = x - mean(x)
        std = np.sqrt(mean(c * c) + EPS)
        n = c / std
        return n * gain + bias, lambda dy: dx(dy, n, std, gain)

    return layer_norm_and_backward


def right_dx(dy, n, std, gain):
    dn = dy * gain
    return (dn - mean(dn) - n * mean(dn * n)) / std


def outside_dx(dy, n, std, gain):
    return gain * right_dx(dy, n, std, 1.0)


def two_branches(x, norm, f, g):
    n, norm_backward = norm.forward(x)
    h, f_backward = f.forward(n)
    k, g_backward = g.forward(n)
    return x + h + k, lambda dy: dy + norm_backward(f_backward(dy) + g_backward(dy))


def without_norm(x, norm, f, g):
    h, f_backward = f.forward(x)
    k, g_backward = g.forward(x)
    return x + h + k, lambda dy: dy + f_backward(dy) + g_backward(dy)


def one_after_the_other(x, norm, f, g):
    n, norm_backward = norm.forward(x)
    h, f_backward = f.forward(n)
    k, g_backward = g.forward(h)
    return x + k, lambda dy: dy + norm_backward(f_backward(g_backward(dy)))


def normed_trunk(x, norm, f, g):
    n, norm_backward = norm.forward(x)
    h, f_backward = f.forward(n)
    k, g_backward = g.forward(n)
    return n + h + k, lambda dy: norm_backward(dy + f_backward(dy) + g_backward(dy))


def with_backward(mistaken):
    """two_branches with another backward: mistaken(dy, norm_backward, f_backward, g_backward)."""
    def branches(x, norm, f, g):
        n, norm_backward = norm.forward(x)
        h, f_backward = f.forward(n)
        k, g_backward = g.forward(n)
        return x + h + k, lambda dy: mistaken(dy, norm_backward, f_backward, g_backward)

    return branches


def adds_to_dy(x, norm, f, g):
    """Right values, but the caller's dy is no longer what it was."""
    y, right = two_branches(x, norm, f, g)

    def backward(dy):
        dy[...] = right(dy)
        return dy

    return y, backward


def no_residual(x, norm, f, g):
    n, norm_backward = norm.forward(x)
    h, f_backward = f.forward(n)
    k, g_backward = g.forward(n)
    return h + k, lambda dy: norm_backward(f_backward(dy) + g_backward(dy))


def rms(x):
    return np.sqrt(mean(x * x) + EPS)


def rms_norm(x):
    return x / rms(x)
