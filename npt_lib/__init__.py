"""A Transformer from scratch, in NumPy: every part forwards and backwards, as the book builds it.

``y, backward = layer.forward(x)``: forward returns its output and the function that takes
dL/dy and returns dL/dx. All parts have this one shape.
"""

from npt_lib.attention import attention, causal_mask, padding_mask
from npt_lib.batches import Batches
from npt_lib.checkpoint import load, load_tokenizers, save
from npt_lib.config import Config
from npt_lib.decoder import Decoder, DecoderBlock
from npt_lib.embedding import (
    Embedding,
    LearnedPositions,
    SinusoidalPositions,
    Unembedding,
    sinusoidal_positions,
)
from npt_lib.encoder import Encoder, EncoderBlock
from npt_lib.evaluate import Evaluation, evaluate
from npt_lib.feed_forward import FeedForward, gelu, relu
from npt_lib.generate import beam_search, greedy, log_probability, sample
from npt_lib.gradcheck import check_gradients, gradient_errors, numeric_gradient
from npt_lib.layers import Linear, softmax
from npt_lib.loss import cross_entropy
from npt_lib.memory import keep_memory
from npt_lib.module import Module, Parameter, saved
from npt_lib.multihead import CrossAttention, KVCache, SelfAttention, merge_heads, split_heads
from npt_lib.norm import Dropout, LayerNorm
from npt_lib.optim import SGD, Adam, clip_gradients, noam, warmup_cosine
from npt_lib.peek import attention_maps
from npt_lib.replicas import Replicas
from npt_lib.run import History
from npt_lib.threads import threads
from npt_lib.tokenizer import CharTokenizer, WordTokenizer
from npt_lib.train import train, train_step
from npt_lib.transformer import InputEmbedding, Transformer

__version__ = "0.1.0"

__all__ = [
    "SGD", "Adam", "Batches", "CharTokenizer", "Config", "CrossAttention", "Decoder",
    "DecoderBlock", "Dropout", "Embedding", "Encoder", "EncoderBlock", "Evaluation",
    "FeedForward", "History", "InputEmbedding", "KVCache", "LayerNorm", "LearnedPositions",
    "Linear", "Module", "Parameter", "Replicas", "SelfAttention", "SinusoidalPositions",
    "Transformer", "Unembedding", "WordTokenizer", "attention", "attention_maps", "beam_search",
    "causal_mask", "check_gradients", "clip_gradients", "cross_entropy", "evaluate", "gelu",
    "gradient_errors",
    "greedy", "keep_memory", "load", "load_tokenizers", "log_probability", "merge_heads", "noam",
    "numeric_gradient", "padding_mask", "relu", "sample", "save", "saved",
    "sinusoidal_positions", "softmax", "split_heads", "threads", "train", "train_step",
    "warmup_cosine",
]
