"""How many floating-point operations a training step needs, by arithmetic.

Only matrix products count, two for each multiply-and-add, at the padded sizes. A product's
backward is two products of the same size, so a step is three times its forward pass. Who skips
padding does less, and gets the same count: it is the work that was asked for.
"""

from benchmarks.work import Size

Product = tuple[int, int, int, int]     # stack, n, k, m: so many times (n, k) @ (k, m)


def forward_products(size: Size) -> list[Product]:
    """All matrix products of one forward pass of a batch."""
    S, T, D = size.batch * size.n_src, size.batch * size.n_tgt, size.d_model   # tokens of each side
    encoder = [*self_attention(size, S, size.n_src), *feed_forward(size, S)]
    decoder = [*self_attention(size, T, size.n_tgt), *cross_attention(size, T, S),
               *feed_forward(size, T)]
    return size.n_layers * (encoder + decoder) + [(1, T, D, size.n_vocab)]


def training_products(size: Size) -> list[Product]:
    """Those of a step: forward, and the two gradients of each."""
    forward = forward_products(size)
    return forward + [back for stack, n, k, m in forward
                      for back in ((stack, n, m, k), (stack, k, n, m))]


def flops(products: list[Product]) -> int:
    return sum(2 * stack * n * k * m for stack, n, k, m in products)


def attention(size: Size, n_queries: int, n_keys: int) -> list[Product]:
    """Scores and mixture, for each sentence and head."""
    stack, K = size.batch * size.n_heads, size.d_model // size.n_heads
    return [(stack, n_queries, K, n_keys), (stack, n_queries, n_keys, K)]


def self_attention(size: Size, tokens: int, length: int) -> list[Product]:
    D = size.d_model
    return [(1, tokens, D, 3 * D), *attention(size, length, length), (1, tokens, D, D)]


def cross_attention(size: Size, tokens: int, memory_tokens: int) -> list[Product]:
    D = size.d_model
    return [(1, tokens, D, D), (1, memory_tokens, D, 2 * D),
            *attention(size, size.n_tgt, size.n_src), (1, tokens, D, D)]


def feed_forward(size: Size, tokens: int) -> list[Product]:
    D, F = size.d_model, size.d_ff
    return [(1, tokens, D, F), (1, tokens, F, D)]
