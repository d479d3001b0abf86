"""How many floating-point operations a training step needs, by arithmetic.

Only matrix products count, two for each multiply-and-add, at the padded sizes. A product's
backward is two products of the same size, so a step is three times its forward pass. Who skips
padding does less, and gets the same count: it is the work that was asked for.
"""

from benchmarks.sizes import Size


def forward_flops(size: Size) -> int:
    """All matrix products of one forward pass of a batch."""
    S, T = size.batch * size.n_src, size.batch * size.n_tgt         # tokens of each side
    encoder = attention_block(size, S, size.n_src) + feed_forward(size, S)
    decoder = (attention_block(size, T, size.n_tgt) + feed_forward(size, T)
               + cross_attention(size, T, S))
    return size.n_layers * (encoder + decoder) + product(T, size.d_model, size.n_vocab)


def training_flops(size: Size) -> int:
    return 3 * forward_flops(size)


def product(n: int, k: int, m: int) -> int:
    """(n, k) @ (k, m)."""
    return 2 * n * k * m


def attention_block(size: Size, tokens: int, n_keys: int) -> int:
    """Queries, keys and values from one product, scores, mixture, and the way out."""
    D = size.d_model
    return (product(tokens, D, 3 * D) + 2 * product(tokens, D, n_keys) + product(tokens, D, D))


def cross_attention(size: Size, tokens: int, memory_tokens: int) -> int:
    D = size.d_model
    return (product(tokens, D, D) + product(memory_tokens, D, 2 * D)
            + 2 * product(tokens, D, size.n_src) + product(tokens, D, D))


def feed_forward(size: Size, tokens: int) -> int:
    return 2 * product(tokens, size.d_model, size.d_ff)
