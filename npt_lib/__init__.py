"""A Transformer from scratch, in NumPy: every part forwards and backwards, as the book builds it.

``y, backward = layer.forward(x)``: forward returns its output and the function that takes
dL/dy and returns dL/dx. All parts have this one shape.
"""

from npt_lib.byte_pairs import BytePairTokenizer
from npt_lib.checkpoint import load, load_tokenizers, save
from npt_lib.config import Config
from npt_lib.decoder import Decoder, DecoderBlock
from npt_lib.dot_product_attention import (
    attention,
    attention_maps,
    causal_mask,
    padding_mask,
)
from npt_lib.embedding import (
    Embedding,
    LearnedPositions,
    SinusoidalPositions,
    Unembedding,
    sinusoidal_positions,
)
from npt_lib.encoder import Encoder, EncoderBlock
from npt_lib.feed_forward import FeedForward, exact_gelu, gelu, relu
from npt_lib.fewer_bits import MixedPrecision, rounded
from npt_lib.generate import DecodingState, Rules, beam_search, greedy, log_probability, sample
from npt_lib.gpt import GPT, GPTConfig, gpt_config
from npt_lib.gpt2 import GPT2Tokenizer, load_gpt2, save_gpt2
from npt_lib.gradcheck import check_gradients, gradient_errors, numeric_gradient
from npt_lib.int8 import load_quantized, quantize, save_quantized
from npt_lib.layers import Linear, softmax
from npt_lib.long_attention import BlockSparse, Causal, Window, attention_in_tiles
from npt_lib.loss import cross_entropy
from npt_lib.modern import (
    GatedFeedForward,
    GroupedAttention,
    ModernConfig,
    NoPositions,
    RelativeBias,
    RMSNorm,
    Rotary,
    llama_config,
    modern_config,
    silu,
)
from npt_lib.module import Module, Parameter, saved
from npt_lib.multi_head_attention import (
    CrossAttention,
    KVCache,
    SelfAttention,
    merge_heads,
    split_heads,
)
from npt_lib.norm import Dropout, LayerNorm
from npt_lib.optim import SGD, Adam, clip_gradients, noam, warmup_cosine
from npt_lib.parallel.memory import keep_memory
from npt_lib.parallel.processes import processes
from npt_lib.parallel.threads import threads
from npt_lib.pattern_attention import PatternAttention
from npt_lib.tokenizer import CharTokenizer, WordTokenizer
from npt_lib.training import Batches, Evaluation, History, evaluate, train, train_step
from npt_lib.transformer import InputEmbedding, Transformer

__version__ = "0.1.0"

__all__ = [
    "GPT", "SGD", "Adam", "Batches", "BlockSparse", "BytePairTokenizer", "Causal", "CharTokenizer",
    "Config", "CrossAttention", "Decoder", "DecoderBlock", "DecodingState", "Dropout", "Embedding",
    "Encoder", "EncoderBlock", "Evaluation", "FeedForward", "GPT2Tokenizer", "GPTConfig",
    "GatedFeedForward", "GroupedAttention", "History", "InputEmbedding", "KVCache", "LayerNorm",
    "LearnedPositions", "Linear", "MixedPrecision", "ModernConfig", "Module", "NoPositions",
    "Parameter", "PatternAttention", "RMSNorm", "RelativeBias", "Rotary", "Rules", "SelfAttention",
    "SinusoidalPositions", "Transformer", "Unembedding", "Window", "WordTokenizer", "attention",
    "attention_in_tiles", "attention_maps", "beam_search", "causal_mask", "check_gradients",
    "clip_gradients", "cross_entropy", "evaluate", "exact_gelu", "gelu", "gpt_config",
    "gradient_errors", "greedy", "keep_memory", "llama_config", "load", "load_gpt2",
    "load_quantized", "load_tokenizers", "log_probability", "merge_heads", "modern_config", "noam",
    "numeric_gradient", "padding_mask", "processes", "quantize", "relu", "rounded", "sample",
    "save", "save_gpt2", "save_quantized", "saved", "silu", "sinusoidal_positions", "softmax",
    "split_heads", "threads", "train", "train_step", "warmup_cosine",
]
