"""JAX: one compiled function for a training step, one for a whole decoding."""

from itertools import cycle

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.contestants import Job, Kinds
from benchmarks.contestants import jax_model as model
from benchmarks.contestants.jax_model import Weights
from benchmarks.sizes import (
    BETAS,
    EPS,
    LR,
    MAX_NORM,
    N_TOKENS,
    PAD,
    SMOOTHING,
    Size,
    attention_inputs,
    batches,
)

jnp.ones(1).block_until_ready()     # what starts at the first operation belongs to the import
State = tuple[Weights, Weights, Weights, jax.Array]     # weights, Adam's mean and square, steps


def about() -> dict[str, str]:
    return {"JAX": f"{jax.__version__} on {jax.default_backend()}"}


def weights_of(path: str) -> Weights:
    with np.load(path) as arrays:
        return {name: jnp.asarray(array) for name, array in arrays.items()}


def loss_of(p: Weights, src: jax.Array, tgt: jax.Array, size: Size) -> jax.Array:
    """Label-smoothed cross-entropy, padding left out."""
    log_p = jax.nn.log_softmax(model.logits(p, src, tgt[:, :-1], size))
    wanted = tgt[:, 1:]
    right = jnp.take_along_axis(log_p, wanted[..., None], axis=-1)[..., 0]
    surprise = -(1 - SMOOTHING) * right - SMOOTHING * log_p.mean(axis=-1)
    real = wanted != PAD
    return jnp.where(real, surprise, 0).sum() / real.sum()


def adam(state: State, grads: Weights) -> State:
    """One clipped step of Adam."""
    weights, mean, square, steps = state
    norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in grads.values()))
    shrink = jnp.minimum(1.0, MAX_NORM / norm)
    grads = {k: g * shrink for k, g in grads.items()}
    (b1, b2), steps = BETAS, steps + 1
    mean = {k: b1 * mean[k] + (1 - b1) * g for k, g in grads.items()}
    square = {k: b2 * square[k] + (1 - b2) * g * g for k, g in grads.items()}
    rate, spread = LR / (1 - b1**steps), 1 / (1 - b2**steps)
    weights = {k: p - rate * mean[k] / (jnp.sqrt(square[k] * spread) + EPS)
               for k, p in weights.items()}
    return weights, mean, square, steps


def training(size: Size, weights: str) -> Job:
    """n steps of training; the losses."""
    p = weights_of(weights)
    zeros = {k: jnp.zeros_like(x) for k, x in p.items()}
    state: State = (p, zeros, {k: x.copy() for k, x in zeros.items()}, jnp.zeros(()))
    data = cycle(batches(size))

    def step(state: State, src: jax.Array, tgt: jax.Array) -> tuple[State, jax.Array]:
        loss, grads = jax.value_and_grad(loss_of)(state[0], src, tgt, size)
        return adam(state, grads), loss

    compiled = jax.jit(step, donate_argnums=0)

    def job(n: int) -> list[float]:
        nonlocal state
        losses = []
        for _ in range(n):
            state, loss = compiled(state, *next(data))
            losses.append(float(loss))
        return losses

    return job


def decoding(size: Size, weights: str, n_rows: int) -> Job:
    """N_TOKENS a row, each the likeliest, n times over, in one compiled loop; the tokens."""
    p = weights_of(weights)
    src = batches(size)[0][0][:n_rows]
    write = jax.jit(lambda p, src: model.greedy(p, src, size, N_TOKENS))
    return lambda n: [np.asarray(write(p, src)).tolist() for _ in range(n)][-1]


def attending(n: int) -> Job:
    """Attention over n positions, forwards and backwards; the squares of all, summed."""
    inputs = [jnp.asarray(x) for x in attention_inputs(n)]

    @jax.jit
    def both(q, k, v, dy):
        y, backward = jax.vjp(lambda q, k, v: model.attention(q, k, v, None), q, k, v)
        return [jnp.vdot(x, x) for x in (y, *backward(dy))]

    return lambda times: [[float(d) for d in both(*inputs)] for _ in range(times)][-1]


KINDS: Kinds = {"train": training, "decode": decoding, "attend": attending}
