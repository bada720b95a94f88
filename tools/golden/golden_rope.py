"""Rotary position embeddings for golden_reference.py, with every kind of scaling."""

import math
import typing

import torch

DEFAULT_THETA = 10000.0


class Rope(typing.NamedTuple):
    """The pairs of elements of a head that rotate (its first elements) and their angles per
    position."""

    frequencies: torch.Tensor  # [R/2]
    magnitude: float = 1.0  # Factor of the rotating elements of queries and of keys.
    neighbours: bool = False  # True: the pairs are (2i, 2i + 1).

    def rotate(self, x, positions):
        """Returns R_p x for x [n, H, D], with one position per row. The pairs are (i, i + R/2)."""
        half = len(self.frequencies)
        angle = torch.as_tensor(positions, dtype=torch.float64)[:, None] * self.frequencies
        cos, sin = torch.cos(angle)[:, None, :], torch.sin(angle)[:, None, :]
        if self.neighbours:
            first, second = x[..., 0 : 2 * half : 2], x[..., 1 : 2 * half : 2]
            turned = first * cos - second * sin, second * cos + first * sin
            return torch.cat((torch.stack(turned, dim=-1).flatten(-2), x[..., 2 * half :]), dim=-1)
        first, second, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
        return torch.cat((first * cos - second * sin, second * cos + first * sin, rest), dim=-1)

    def magnify(self, x):
        """Multiplies the elements that rotate by the magnitude."""
        turning = 2 * len(self.frequencies)
        return torch.cat((self.magnitude * x[..., :turning], x[..., turning:]), dim=-1)


def rope_of(config, width, context, scaling=None):
    """Returns the Rope for heads of this width and for sessions of up to `context` tokens."""
    stated = config.get("rope_parameters") or config.get("rope_scaling") or {}
    theta = stated.get("rope_theta", config.get("rope_theta", DEFAULT_THETA))
    partial = stated.get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0))
    rope = stated if scaling is None else scaling
    longest = config["max_position_embeddings"]
    original = config.get("original_max_position_embeddings")
    original = original or rope.get("original_max_position_embeddings", longest)
    turning = int(width * partial)
    pair = torch.arange(turning // 2, dtype=torch.float64)
    plain = theta ** (-2.0 * pair / turning)
    kind = rope.get("rope_type", rope.get("type", "default"))
    factor = rope.get("factor")
    if kind == "default":
        return Rope(plain)
    if kind == "linear":
        return Rope(plain / factor)
    if kind in ("ntk", "dynamic"):
        growth = factor
        if kind == "dynamic":
            growth = factor * max(context, longest) / longest - (factor - 1)
        return Rope((theta * growth ** (turning / (turning - 2))) ** (-2.0 * pair / turning))
    turns = original * plain / (2 * math.pi)  # Full rotations of each pair in the original length.
    if kind == "llama3":
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        kept = ((turns - low) / (high - low)).clamp(0, 1)
        return Rope(plain * (kept + (1 - kept) / factor))
    if kind == "yarn":
        return yarn(rope, plain, theta, turning, original, factor or longest / original)
    if kind == "longrope":
        factors = rope["long_factor" if context > original else "short_factor"]
        factor = factor or longest / original
        grown = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
        factors = torch.tensor(factors, dtype=torch.float64)
        return Rope(plain / factors, rope.get("attention_factor", grown))
    raise ValueError(f"rope_type {kind!r}")


def yarn(rope, plain, theta, turning, original, factor):
    def pair_with(rotations):
        return turning * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(theta))

    low, high = pair_with(rope.get("beta_fast", 32)), pair_with(rope.get("beta_slow", 1))
    if rope.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, turning - 1)
    pair = torch.arange(turning // 2, dtype=torch.float64)
    slowed = ((pair - low) / (high - low)).clamp(0, 1)

    def growth(scale):
        return 0.1 * scale * math.log(factor) + 1

    magnitude = growth(1)
    if rope.get("mscale") and rope.get("mscale_all_dim"):
        magnitude = growth(rope["mscale"]) / growth(rope["mscale_all_dim"])
    return Rope(
        plain * (slowed / factor + 1 - slowed), rope.get("attention_factor", magnitude)
    )
