"""A byte-level GPT of about 137,000 parameters."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CONTEXT = 64
BYTES = 256


class Block(nn.Module):
    """Attention and a feed-forward layer, each on a normalised copy and added back; shape (rows, time, width)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_forward = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries_keys_values, self.mixed = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.forward_layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.before_attention(x))
        return x + self.forward_layers(self.before_forward(x))

    def attend(self, x: Tensor) -> Tensor:
        rows, time, width = x.shape
        parts = self.queries_keys_values(x).view(rows, time, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        found = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.mixed(found.transpose(1, 2).reshape(rows, time, width))


class GPT(nn.Module):
    """Maps bytes, shape (rows, time), to the mean loss of predicting each next byte, in nats."""

    def __init__(self, width: int = 64, layers: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.bytes, self.places = nn.Embedding(BYTES, width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.last_norm, self.head = nn.LayerNorm(width), nn.Linear(width, BYTES, bias=False)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=0.02 if "places" in name or "bytes" in name else width**-0.5 / 2)

    def forward(self, text: Tensor, following: Tensor) -> Tensor:
        x = self.bytes(text) + self.places(torch.arange(text.shape[1]))
        logits = self.head(self.last_norm(self.blocks(x)))
        return F.cross_entropy(logits.flatten(0, 1), following.flatten())
