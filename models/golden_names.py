"""What families call keys and tensors, as golden_reference.py calls them: those of Llama."""

# What Gemma 3's config class takes for keys that its releases leave out.
GEMMA3_SILENT = {
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "max_position_embeddings": 131072,
}


def usual(config, tensors):
    """The config and the tensors of a checkpoint by their usual names."""
    if config["model_type"] == "gemma3":
        config = GEMMA3_SILENT | config["text_config"]
        root = "language_model."
        tensors = {n.removeprefix(root): t for n, t in tensors.items() if n.startswith(root)}
    if config["model_type"] == "phi3":
        tensors = split_phi3(config, tensors)
    return config, tensors


def split_phi3(config, tensors):
    """q, k and v are one tensor, and gate and up another."""
    tensors = dict(tensors)
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    width = config["hidden_size"] // heads
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        q, k, v = tensors.pop(prefix + "self_attn.qkv_proj.weight").split(
            [heads * width, kv_heads * width, kv_heads * width]
        )
        gate, up = tensors.pop(prefix + "mlp.gate_up_proj.weight").chunk(2)
        parts = {"self_attn.q": q, "self_attn.k": k, "self_attn.v": v, "mlp.gate": gate, "mlp.up": up}
        tensors |= {f"{prefix}{name}_proj.weight": part for name, part in parts.items()}
    return tensors
