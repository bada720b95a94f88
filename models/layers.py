"""The demo models as PyTorch modules, in the parallel form that training needs.

The names of the modules are those of the tensors in a checkpoint, so state_dict() is the
checkpoint. Shapes: x [B, T, d]; q, k, v [B, H, T, D], where v may have another width. Norms,
softmax, recurrence and logits are computed in float32.
"""

import math
import types
import typing

import torch
import torch.nn.functional as F
from torch import nn

LIGHTNING_CHUNK = 64
EVALUATION_BLOCK = 256  # How many queries are scored at once; bounds the memory of ReRoPE.


def rms_norm(x, weight, eps):
    x32 = x.float()
    return x32 * torch.rsqrt(x32.square().mean(-1, keepdim=True) + eps) * weight


class RMSNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        return rms_norm(x, self.weight, self.eps)


def rotation(positions, width, theta):
    """Returns cos and sin of p·θ^(-2i/D), [T, D/2] each. The angles are computed in float64."""
    half = width // 2
    frequency = theta ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = positions.double()[:, None] * frequency
    return angle.cos().float(), angle.sin().float()


def rotate(x, turn):
    """Returns R_p x, where the pairs (i, i + D/2) rotate. `turn` is the result of rotation() for
    the positions."""
    cos, sin = turn
    a, b = x.float().chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def linear(width_in, width_out):
    return nn.Linear(width_in, width_out, bias=False)


def split_heads(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge_heads(x):
    return x.transpose(1, 2).flatten(2)


def window_attention(q, k, v, window):
    """Attention of each query i to the keys i−w+1 … i, in blocks of w queries over 2w keys. T must
    be a multiple of w."""
    b, h, t, d = q.shape
    blocks = t // window

    def with_previous(x):
        x = x.reshape(b, h, blocks, window, -1)
        previous = F.pad(x, (0, 0, 0, 0, 1, 0))[:, :, :-1]
        return torch.cat([previous, x], 3).transpose(1, 2).flatten(0, 1)

    row = torch.arange(window)[:, None] + window
    column = torch.arange(2 * window)
    band = (column <= row) & (column > row - window)
    first = band & (column >= window)  # No block comes before the first one.
    mask = torch.stack([first] + [band] * (blocks - 1)).repeat(b, 1, 1)[:, None]
    q = q.reshape(b, h, blocks, window, d).transpose(1, 2).reshape(b * blocks, h, window, d)
    out = F.scaled_dot_product_attention(q, with_previous(k), with_previous(v), attn_mask=mask)
    return out.reshape(b, blocks, h, window, -1).transpose(1, 2).flatten(2, 3)


def rerope_attention(q, k, v, window, theta, turn):
    """ReRoPE: s_ij = q_iᵀ R_{-min(i-j, w)} k_j / √D for unrotated q and k. Takes quadratic time;
    only for evaluation."""
    q_near, k_near, k_far = rotate(q, turn), rotate(k, turn), k.float()
    q_far = rotate(q, rotation(torch.tensor([window]), q.shape[-1], theta))
    out = []
    for first in range(0, q.shape[2], EVALUATION_BLOCK):
        last = min(first + EVALUATION_BLOCK, q.shape[2])
        near = q_near[:, :, first:last] @ k_near[:, :, :last].mT
        far = q_far[:, :, first:last] @ k_far[:, :, :last].mT
        distance = torch.arange(first, last)[:, None] - torch.arange(last)
        scores = torch.where(distance < window, near, far) / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(distance < 0, -math.inf).softmax(-1)
        out.append(weights @ v[:, :, :last].float())
    return torch.cat(out, 2)


def query_factor(config, positions):
    """Returns the factor for q of a full (hwfa2) or attn (hypenet) layer: [T, 1], or None."""
    if config.model_type == "hypenet" and config.attn_logits_scaling is not None:
        name, a = config.attn_logits_scaling.split()
        if name != "hype":
            raise ValueError(f"attn_logits_scaling {config.attn_logits_scaling!r}")
        return (torch.log(positions + float(a)) / math.log(float(a)))[:, None]
    if config.logn_scaling is None:
        return None
    n = (positions + 1).float()[:, None]
    base = math.log(config.training_length)
    if config.logn_scaling == "always":
        return n.clamp(min=16).log() / base
    return (n.log() / base).clamp(min=1)


def attend(config, kind, q, k, v, tables, full_position):
    """Softmax attention of one layer, given unrotated queries and the same number of heads of keys
    and values."""
    length = q.shape[2]
    turn = tables.cos[:length], tables.sin[:length]
    if kind != "sliding_attention" and tables.query_factor is not None:
        q = q * tables.query_factor[:length]
    full = kind == "full_attention"
    if full and full_position == "rerope":
        return rerope_attention(q, k, v, config.rerope_window, config.rope_theta, turn)
    if kind != "attn" and not (full and config.full_position == "nope"):
        q, k = rotate(q, turn), rotate(k, turn)
    # Use float32, because its backward pass is faster on the CPU.
    with torch.autocast("cpu", enabled=False):
        q, k, v = q.float(), k.float(), v.float()
        if kind == "sliding_attention":
            return window_attention(q, k, v, config.sliding_window)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class Attention(nn.Module):
    """Softmax attention of one layer. `kind` is full_attention, sliding_attention or attn
    (HyPE)."""

    def __init__(self, config, kind):
        super().__init__()
        d, eps = config.hidden_size, config.rms_norm_eps
        self.config, self.kind = config, kind
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.head_dim = config.head_dim
        self.q_proj = linear(d, self.heads * self.head_dim)
        self.k_proj = linear(d, self.kv_heads * self.head_dim)
        self.v_proj = linear(d, self.kv_heads * self.head_dim)
        self.o_proj = linear(self.heads * self.head_dim, d)
        self.q_norm = RMSNorm(self.head_dim, eps)
        self.k_norm = RMSNorm(self.head_dim, eps)
        if kind == "attn":
            self.o_gate = linear(d, self.heads * self.head_dim)

    def forward(self, x, tables, full_position):
        q = self.q_norm(split_heads(self.q_proj(x), self.heads))
        k = self.k_norm(split_heads(self.k_proj(x), self.kv_heads))
        v = split_heads(self.v_proj(x), self.kv_heads)
        repeat = self.heads // self.kv_heads
        k, v = k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1)
        out = merge_heads(attend(self.config, self.kind, q, k, v, tables, full_position))
        if self.kind == "attn":
            out = out * torch.sigmoid(self.o_gate(x).float())
        return self.o_proj(out)


class Lightning(nn.Module):
    """S_t = γ S_{t−1} + k_tᵀ v_t, o_t = (q_t/√D) S_t, y = W_o(RMSNorm(o) ⊙ sigmoid(W_z x))."""

    def __init__(self, config):
        super().__init__()
        d, eps = config.hidden_size, config.rms_norm_eps
        self.heads, self.head_dim = config.lightning_nh, config.lightning_head_dim
        width = self.heads * self.head_dim
        self.q_proj, self.k_proj, self.v_proj = (linear(d, width) for _ in range(3))
        self.z_proj, self.o_proj = linear(d, width), linear(width, d)
        self.q_norm, self.k_norm = RMSNorm(self.head_dim, eps), RMSNorm(self.head_dim, eps)
        self.o_norm = RMSNorm(width, eps)
        # The powers of γ_h = exp(−2^(−8h/H)), h = 1…H, for one chunk. H must be a power of two.
        rate = 2.0 ** (-8.0 * torch.arange(1, self.heads + 1) / self.heads)
        row = torch.arange(LIGHTNING_CHUNK)
        self.register_buffer("rate", rate, persistent=False)
        for name, steps in {
            "within": row[:, None] - row,
            "since": (row + 1)[:, None],
            "to_end": (LIGHTNING_CHUNK - 1 - row)[:, None],
        }.items():
            self.register_buffer(name, self.decay(steps)[:, None], persistent=False)

    def decay(self, steps):
        """Returns γ_h^steps, or zero where steps < 0: [H, *steps.shape]."""
        rate = self.rate.view(-1, *[1] * steps.dim())
        return torch.exp(-rate * steps.clamp(min=0)) * (steps >= 0)

    def forward(self, x, tables, full_position):
        del full_position  # This layer has no position embedding to choose.
        turn = tables.cos[: x.shape[1]], tables.sin[: x.shape[1]]
        q = self.q_norm(split_heads(self.q_proj(x), self.heads))
        k = self.k_norm(split_heads(self.k_proj(x), self.heads))
        v = split_heads(self.v_proj(x), self.heads)
        q, k = rotate(q, turn) / math.sqrt(self.head_dim), rotate(k, turn)
        out = merge_heads(self.recurrence(q.to(v.dtype), k.to(v.dtype), v))
        return self.o_proj(self.o_norm(out) * torch.sigmoid(self.z_proj(x).float()))

    def recurrence(self, q, k, v):
        """Computes the recurrence in chunks: a masked product within each chunk, and a decayed sum
        of the states of earlier chunks."""
        q, k, v = (x.unflatten(2, (-1, LIGHTNING_CHUNK)) for x in (q, k, v))
        out = (q @ k.mT * self.within) @ v  # [B, H, chunks, size, D]
        state = (k * self.to_end).mT @ v.float()  # What each chunk adds to its end state.
        # The state before chunk c is Σ_{c'<c} γ^{size·(c−c'−1)} state_{c'}.
        chunk = torch.arange(q.shape[2])
        between = self.decay(LIGHTNING_CHUNK * (chunk[:, None] - chunk - 1))
        before = (between @ state.float().flatten(3)).view_as(state)
        return (out + (q * self.since) @ before).flatten(2, 3)


class SwiGLU(nn.Module):
    def __init__(self, d, ff):
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = linear(d, ff), linear(d, ff), linear(ff, d)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, config, kind):
        super().__init__()
        d, eps = config.hidden_size, config.rms_norm_eps
        self.input_layernorm = RMSNorm(d, eps)
        self.self_attn = Lightning(config) if kind == "lightning-attn" else Attention(config, kind)
        self.post_attention_layernorm = RMSNorm(d, eps)
        self.mlp = SwiGLU(d, config.intermediate_size)

    def forward(self, x, tables, full_position):
        x = x + self.self_attn(self.input_layernorm(x), tables, full_position)
        return x + self.mlp(self.post_attention_layernorm(x))


class GatedUnit(nn.Module):
    """A gated attention unit: [u v z] = silu(W_i x), q and k from z, y = W_o (u ⊙ softmax(q kᵀ /
    √s) v)."""

    def __init__(self, config, kind):
        super().__init__()
        self.config, self.kind = config, kind
        e, s = config.gau_expansion, config.gau_key_dim
        self.in_proj = linear(config.hidden_size, 2 * e + s)
        self.out_proj = linear(e, config.hidden_size)
        self.q_scale, self.k_scale = (nn.Parameter(torch.ones(s)) for _ in range(2))
        self.q_offset, self.k_offset = (nn.Parameter(torch.zeros(s)) for _ in range(2))

    def forward(self, x, tables, full_position):
        e, s = self.config.gau_expansion, self.config.gau_key_dim
        u, v, z = F.silu(self.in_proj(x)).split([e, e, s], -1)
        q = (self.q_scale * z + self.q_offset)[:, None]
        k = (self.k_scale * z + self.k_offset)[:, None]
        out = attend(self.config, self.kind, q, k, v[:, None], tables, full_position)
        return self.out_proj(u * merge_heads(out))


class GatedBlock(nn.Module):
    def __init__(self, config, kind):
        super().__init__()
        self.gau = GatedUnit(config, kind)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, x, tables, full_position):
        return self.post_attention_layernorm(x + self.gau(x, tables, full_position))


def layer_kinds(config):
    if config.model_type == "hypenet":
        return config.mixer_types
    if config.model_type == "hwfa2":
        return config.layer_types
    return ["full_attention"] * config.num_hidden_layers


class Tables(typing.NamedTuple):
    """Computes the tables that depend on the position only, for positions below the model's
    length."""

    cos: torch.Tensor
    sin: torch.Tensor
    query_factor: torch.Tensor | None


class Decoder(nn.Module):
    """A byte-level decoder with tied embeddings. `config` is the dictionary of config.json."""

    def __init__(self, config, length):
        super().__init__()
        absent = {"logn_scaling": None, "full_position": "rope", "block_type": "transformer"}
        config = types.SimpleNamespace(**(absent | config))
        self.config = config
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        gau = config.block_type == "gau"
        block = GatedBlock if gau else Block
        self.model.layers = nn.ModuleList(block(config, kind) for kind in layer_kinds(config))
        # A gated attention unit ends with its own norm.
        self.model.norm = nn.Identity() if gau else RMSNorm(config.hidden_size, config.rms_norm_eps)
        positions = torch.arange(length)
        width = config.gau_key_dim if gau else config.head_dim
        cos, sin = rotation(positions, width, config.rope_theta)
        self.tables = Tables(cos, sin, query_factor(config, positions))
        self.initialise()

    def initialise(self):
        depth = 2 * self.config.num_hidden_layers
        for name, weight in self.named_parameters():
            if weight.dim() < 2:
                continue
            std = 0.02 if "embed_tokens" in name else weight.shape[1] ** -0.5
            if name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight")):
                std /= math.sqrt(depth)
            nn.init.normal_(weight, std=std)

    def forward(self, tokens, full_position="rope"):
        """Returns logits [B, T, V] for tokens [B, T]. `full_position` is rope (for training) or
        rerope."""
        x = self.model.embed_tokens(tokens)
        for layer in self.model.layers:
            x = layer(x, self.tables, full_position)
        return F.linear(self.model.norm(x), self.model.embed_tokens.weight).float()
