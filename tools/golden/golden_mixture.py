"""Mixtures of experts: which layers have them, their tensors under the usual names (Qwen's), and
the equations, in float64 for one token."""

import torch

ROUTER = "mlp.gate"
SHARED = "mlp.shared_expert"


def mixture_of(config, layer):
    """Returns the sizes and the router of a layer's mixture, or None if the layer is dense."""
    kind = config["model_type"]
    chosen = config.get("num_experts_per_tok")
    if kind in ("mixtral", "olmoe", "granitemoe", "granitemoeshared"):
        mixture = {"width": config["intermediate_size"]}
    elif kind in ("qwen2_moe", "qwen3_moe"):
        step = config.get("decoder_sparse_step", 1)
        if layer in config.get("mlp_only_layers", []) or (layer + 1) % step != 0:
            return None
        mixture = {"width": config["moe_intermediate_size"]}
    elif kind == "afmoe" and layer >= config["num_dense_layers"]:
        mixture = {"width": config["moe_intermediate_size"], "sigmoid": True, "bias": True}
        mixture["scale"] = config.get("route_scale", 1.0)
        mixture["shared"] = mixture["width"] * config["num_shared_experts"]
    else:
        return None
    experts = config.get("num_experts", config.get("num_local_experts"))
    mixture |= {"experts": experts, "chosen": chosen}
    always = kind not in ("olmoe", "qwen2_moe", "qwen3_moe")
    mixture["normalise"] = always or config.get("norm_topk_prob", False)
    if kind == "qwen2_moe":
        mixture |= {"shared": config["shared_expert_intermediate_size"], "gated": True}
    elif kind == "granitemoeshared":
        mixture["shared"] = config["shared_intermediate_size"]
    return mixture


def mixture_shapes(config, layer):
    """Names and shapes of the tensors of a layer's mixture."""
    mixture, d = mixture_of(config, layer), config["hidden_size"]
    shapes = {f"{ROUTER}.weight": (mixture["experts"], d)}
    if mixture.get("bias"):
        shapes["mlp.expert_bias"] = (mixture["experts"],)
    widths = {f"mlp.experts.{e}": mixture["width"] for e in range(mixture["experts"])}
    if mixture.get("shared"):
        widths[SHARED] = mixture["shared"]
    if mixture.get("gated"):
        shapes[f"{SHARED}_gate.weight"] = (1, d)
    for name, width in widths.items():
        shapes |= {f"{name}.gate_proj.weight": (width, d), f"{name}.up_proj.weight": (width, d)}
        shapes[f"{name}.down_proj.weight"] = (d, width)
    return shapes


def route(mixture, logits, bias):
    """Returns the chosen experts, their weights, and how far the best expert that is not chosen is
    behind the last one that is."""
    chosen = mixture["chosen"]
    p = torch.sigmoid(logits) if mixture.get("sigmoid") else torch.softmax(logits, dim=0)
    order = torch.sort(p + bias, descending=True)
    rest = order.values[chosen : chosen + 1]
    gap = float(order.values[chosen - 1] - rest[0]) if len(rest) else float("inf")
    experts = order.indices[:chosen]
    weights = p[experts]
    if mixture["normalise"]:
        weights = weights / weights.sum()
    return experts.tolist(), weights * mixture.get("scale", 1.0), gap


def mixture_output(model, index, h):
    """The output of the mixture of layer `index` for the vector h, and the gap of `route`."""
    mixture = mixture_of(model.config, index)

    def mlp(name):
        hidden = model.activation(model.linear(index, f"{name}.gate_proj", h))
        return model.linear(
            index, f"{name}.down_proj", hidden * model.linear(index, f"{name}.up_proj", h)
        )

    bias = model.tensor(index, "mlp.expert_bias") if mixture.get("bias") else 0.0
    experts, weights, gap = route(mixture, model.linear(index, ROUTER, h), bias)
    out = sum(weight * mlp(f"mlp.experts.{e}") for e, weight in zip(experts, weights, strict=True))
    if mixture.get("shared"):
        share = 1.0
        if mixture.get("gated"):
            share = torch.sigmoid(model.linear(index, f"{SHARED}_gate", h))
        out = out + share * mlp(SHARED)
    return out, gap
