"""Golden cases whose checkpoints are quantised.

A case has two functions more than other cases: `store` makes the stored parts of the projections, and
`decode` makes the weights of the stored parts, which the logits are computed from. Decoding is
independent of Longstream: transformers decodes FP8; the package compressed-tensors decodes its own
formats and AWQ's; and the functions below decode GPTQ after the published description of its format.
"""

import types
import zlib

import numpy as np
import torch

from golden_families import llama, qwen2, qwen3

SIZES = (61, 64, 96, 1, 4, 2, 16)
DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}


def is_projection(name):
    return name.endswith("_proj.weight")


def modules_of(tensors, part):
    return sorted(name.removesuffix(part) for name in tensors if name.endswith(part))


def store_projections(method, pack):
    """Returns a `store` that replaces X.weight by the parts that pack(X, weight) returns."""

    def store(config, tensors):
        stored = {}
        for name, tensor in tensors.items():
            if not is_projection(name):
                stored[name] = tensor
                continue
            module = name.removesuffix(".weight")
            for part, value in pack(module, tensor).items():
                stored[f"{module}.{part}"] = value.contiguous()
        return config | {"quantization_config": method}, stored

    return store


def to_words(codes, bits):
    """Packs codes [m, p * x] into int32 words [m, x], the first code in the lowest bits."""
    per_word = 32 // bits
    codes = codes.reshape(codes.shape[0], -1, per_word).astype(np.uint64)
    words = sum(codes[:, :, i] << np.uint64(bits * i) for i in range(per_word))
    return torch.from_numpy(words.astype(np.uint32).view(np.int32))


def from_words(words, bits):
    """Unpacks int32 words [m, x] to codes [m, p * x]."""
    words = words.numpy().view(np.uint32)
    codes = [(words >> np.uint32(bits * i)) & np.uint32(2**bits - 1) for i in range(32 // bits)]
    return np.stack(codes, axis=-1).reshape(words.shape[0], -1).astype(np.int64)


def grouped_codes(weight, group_of, bits, symmetric):
    """Returns codes [n, k], zero points [n, groups] and float16 scales [n, groups]."""
    weight, most = weight.double().numpy(), 2**bits - 1
    groups = int(group_of.max()) + 1
    codes = np.zeros(weight.shape, dtype=np.int64)
    zeros = np.zeros((weight.shape[0], groups), dtype=np.int64)
    scales = np.zeros((weight.shape[0], groups), dtype=np.float16)
    for group in range(groups):
        part = weight[:, group_of == group]
        low, high = np.minimum(part.min(1), 0.0), np.maximum(part.max(1), 0.0)
        if symmetric:
            high = np.maximum(-low, high)
            low = -high
        scale = ((high - low) / most).astype(np.float16)
        zero = np.full_like(low, 2 ** (bits - 1)) if symmetric else np.round(-low / scale)
        # A stored zero point of GPTQ is one less, so it is at least 1.
        zero = np.clip(zero, 1, most)
        levels = np.round(part / scale.astype(np.float64)[:, None]) + zero[:, None]
        codes[:, group_of == group] = np.clip(levels, 0, most)
        zeros[:, group], scales[:, group] = zero, scale
    return codes, zeros, scales


def gptq(bits, group_size, symmetric, version, act_order=False):
    """Returns the functions `store` and `decode` of GPTQ checkpoints."""
    less = 1 if version == "gptq" else 0

    def pack(module, weight):
        k = weight.shape[1]
        group_of = np.arange(k) // (k if group_size == -1 else group_size)
        if act_order:
            order = np.random.default_rng(zlib.crc32(module.encode())).permutation(k)
            group_of = group_of[np.argsort(order)]
        codes, zeros, scales = grouped_codes(weight, group_of, bits, symmetric)
        return {
            "qweight": to_words(codes, bits).T,
            "qzeros": to_words(zeros.T - less, bits),
            "scales": torch.from_numpy(scales.T.copy()),
            "g_idx": torch.from_numpy(group_of.astype(np.int32)),
        }

    def decode(tensors):
        decoded = dict(tensors)
        for module in modules_of(tensors, ".qweight"):
            qweight, qzeros, scales, index = (
                decoded.pop(f"{module}.{part}") for part in ("qweight", "qzeros", "scales", "g_idx")
            )
            codes = from_words(qweight.T.contiguous(), bits)
            zeros = from_words(qzeros, bits).T + less
            of = index.numpy()
            difference = torch.from_numpy(codes - zeros[:, of]).double()
            weight = difference * scales.T.double()[:, of]
            # Groups in the order of activations are decoded to the type of the checkpoint.
            decoded[f"{module}.weight"] = weight.to(torch.float16).float() if act_order else weight
        return decoded

    method = {
        "quant_method": "gptq", "bits": bits, "group_size": group_size, "sym": symmetric,
        "desc_act": act_order, "checkpoint_format": version, "damp_percent": 0.1,
        "true_sequential": True, "lm_head": False,
    }
    return {"store": store_projections(method, pack), "decode": decode}


def with_zero_bias(functions):
    """Adds a bias of zeros that the model does not have, as AutoGPTQ does."""

    def store(config, tensors):
        config, stored = functions["store"](config, tensors)
        stored["model.layers.0.self_attn.o_proj.bias"] = torch.zeros(64, dtype=torch.float16)
        return config, stored

    def decode(tensors):
        decoded = functions["decode"](tensors)
        del decoded["model.layers.0.self_attn.o_proj.bias"]
        return decoded

    return {"store": store, "decode": decode}


def awq(group_size):
    """Returns the functions of AutoAWQ's format, which compressed-tensors decodes."""
    order = [0, 2, 4, 6, 1, 3, 5, 7]

    def shuffled(codes):
        return to_words(codes.reshape(-1, 8)[:, order].reshape(codes.shape), 4)

    def pack(_, weight):
        group_of = np.arange(weight.shape[1]) // group_size
        codes, zeros, scales = grouped_codes(weight, group_of, 4, symmetric=False)
        return {
            "qweight": shuffled(codes.T),
            "qzeros": shuffled(zeros.T),
            "scales": torch.from_numpy(scales.T.copy()),
        }

    def decode(tensors):
        from compressed_tensors.entrypoints.convert.converters.autoawq import AutoAWQConverter

        converted = AutoAWQConverter(group_size=group_size).process(dict(tensors))
        return decode_compressed(converted, {"": integers(4, group_size, symmetric=False)})

    method = {
        "quant_method": "awq", "bits": 4, "group_size": group_size, "zero_point": True,
        "version": "gemm", "modules_to_not_convert": None,
    }
    return {"store": store_projections(method, pack), "decode": decode}


def fp8(block):
    """Returns the functions of block FP8, which transformers encodes and decodes."""

    def quantizer():
        settings = types.SimpleNamespace(weight_block_size=block, scale_fmt="float")
        return types.SimpleNamespace(quantization_config=settings)

    def pack(_, weight):
        from transformers.integrations.finegrained_fp8 import Fp8Quantize

        return Fp8Quantize(quantizer()).convert({"weight": weight})

    def decode(tensors):
        from transformers.integrations.finegrained_fp8 import Fp8Dequantize

        decoded, op = dict(tensors), Fp8Dequantize(quantizer())
        for module in modules_of(tensors, ".weight_scale_inv"):
            scales = decoded.pop(f"{module}.weight_scale_inv")
            weight = decoded[f"{module}.weight"]
            decoded[f"{module}.weight"] = op._dequantize_one(weight, scales, torch.bfloat16)
        return decoded

    method = {
        "quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3",
        "weight_block_size": list(block),
    }
    return {"store": store_projections(method, pack), "decode": decode}


def integers(bits, group_size, symmetric):
    """The arguments of compressed-tensors for integer weights; group_size -1: one per output."""
    strategy = "channel" if group_size == -1 else "group"
    size = {} if group_size == -1 else {"group_size": group_size}
    return {"num_bits": bits, "type": "int", "symmetric": symmetric, "strategy": strategy} | size


FLOATS = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "channel"}


def scheme_of(module, schemes):
    """The arguments of the last entry whose key ends the module's name."""
    return [weights for end, weights in schemes.items() if module.endswith(end)][-1]


def compressor_of(weights, packed):
    from compressed_tensors.compressors import BaseCompressor

    if packed:
        return BaseCompressor.get_value_from_registry("pack-quantized")
    return BaseCompressor.get_value_from_registry(f"{weights['type']}-quantized")


def scheme(weights):
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    return QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**weights))


def decode_compressed(tensors, schemes, rounded=()):
    """Decodes the formats of compressed-tensors, with scales in float32. Rounds the weights of the
    modules that `rounded` names to the type of their scales."""
    decoded = dict(tensors)
    for module in modules_of(tensors, ".weight_scale"):
        weights = scheme_of(module, schemes)
        names = [name for name in decoded if name.startswith(module + ".weight")]
        parts = {name.removeprefix(module + "."): decoded.pop(name) for name in names}
        compressor = compressor_of(weights, packed="weight_packed" in parts)
        stored, parts["weight_scale"] = parts["weight_scale"].dtype, parts["weight_scale"].float()
        weight = compressor.decompress(parts, scheme(weights))["weight"]
        if module.endswith(tuple(rounded)):
            weight = weight.to(stored).float()
        decoded[f"{module}.weight"] = weight
    return decoded


def compressed(name, schemes, groups, ignore=(), rounded=()):
    """Returns the functions of a format of compressed-tensors. Projections whose names end with one
    of `ignore` stay as they are."""

    def pack(module, weight):
        from compressed_tensors.quantization.utils import calculate_qparams

        if module.endswith(tuple(ignore)):
            return {"weight": weight}
        weights = scheme_of(module, schemes)
        size = weights.get("group_size", weight.shape[1])
        runs = weight.float().reshape(weight.shape[0], -1, size)
        scale, zero = calculate_qparams(runs.amin(-1), runs.amax(-1), scheme(weights).weights)
        parts = {"weight": weight.float(), "weight_scale": scale.to(weight.dtype).float()}
        if not weights["symmetric"]:
            parts["weight_zero_point"] = zero.to(torch.int8)
        compressor = compressor_of(weights, packed=name == "pack-quantized")
        stored = compressor.compress(parts, scheme(weights))
        return stored | {"weight_scale": scale.to(weight.dtype)}

    method = {
        "quant_method": "compressed-tensors", "format": name, "quantization_status": "compressed",
        "ignore": ["lm_head", *(f"re:.*{end}" for end in ignore)], "kv_cache_scheme": None,
        "config_groups": {
            f"group_{i}": {
                "targets": [target], "weights": weights, "input_activations": None,
                "output_activations": None,
            }
            for i, (target, weights) in enumerate(groups.items())
        },
    }
    decode = lambda tensors: decode_compressed(tensors, schemes, rounded)
    return {"store": store_projections(method, pack), "decode": decode}


def case(dtype, config, functions, note):
    return {"dtype": dtype, "source": "transformers", "config": config, "note": note} | functions


W4 = integers(4, 32, symmetric=True)
W8_ZEROS = integers(8, -1, symmetric=False)
W4_ZEROS = integers(4, 32, symmetric=False)
W8 = integers(8, -1, symmetric=True)

QUANTISED_CASES = {
    "quantised_gptq": case(
        "float16", llama(*SIZES), gptq(4, 32, True, "gptq"),
        "GPTQ of 4 bits, symmetric, groups of 32, zero points of version 1",
    ),
    "quantised_gptq_order": case(
        "float16", qwen3(*SIZES), gptq(4, 32, False, "gptq_v2", act_order=True),
        "GPTQ of 4 bits with zero points of version 2, groups in the order of activations",
    ),
    "quantised_gptq_8bits": case(
        "float16", qwen2(*SIZES), with_zero_bias(gptq(8, -1, True, "gptq")),
        "GPTQ of 8 bits, symmetric, a scale per output, a bias of zeros that the model lacks",
    ),
    "quantised_awq": case(
        "float16", llama(*SIZES, tie_word_embeddings=False), awq(32),
        "AWQ, groups of 32, untied head that is not quantised",
    ),
    "quantised_fp8": case(
        "bfloat16", qwen3(*SIZES), fp8((32, 16)),
        "FP8 with a scale per block of 32 × 16",
    ),
    "quantised_pack": case(
        "bfloat16", llama(*SIZES),
        compressed(
            "pack-quantized", {"": W4, "v_proj": W8_ZEROS},
            {"Linear": W4, "re:.*v_proj": W8_ZEROS}, ignore=("down_proj",), rounded=("v_proj",),
        ),
        "compressed-tensors: 4 bits in groups of 32; `v_proj` of 8 bits with zero points, "
        "`down_proj` is not quantised",
    ),
    "quantised_pack_zeros": case(
        "bfloat16", llama(*SIZES), compressed("pack-quantized", {"": W4_ZEROS}, {"Linear": W4_ZEROS}),
        "compressed-tensors: 4 bits with zero points in groups of 32",
    ),
    "quantised_int8": case(
        "bfloat16", qwen2(*SIZES), compressed("int-quantized", {"": W8}, {"Linear": W8}),
        "compressed-tensors: int8 with a scale per output",
    ),
    "quantised_float8": case(
        "bfloat16", llama(*SIZES),
        compressed("float-quantized", {"": FLOATS}, {"Linear": FLOATS}, rounded=("",)),
        "compressed-tensors: FP8 with a scale per output",
    ),
}
