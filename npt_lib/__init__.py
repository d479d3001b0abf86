from npt_lib.attention import attention, causal_mask, padding_mask
from npt_lib.config import Config
from npt_lib.decoder import Decoder, DecoderBlock
from npt_lib.embedding import *
from npt_lib.encoder import Encoder, EncoderBlock
from npt_lib.feed_forward import *
from npt_lib.gradcheck import *
from npt_lib.layers import Linear, softmax
from npt_lib.loss import cross_entropy
from npt_lib.module import *
from npt_lib.multihead import *
from npt_lib.norm import *
from npt_lib.optim import *
from npt_lib.peek import *
from npt_lib.transformer import Transformer
