"""Independent reference of every model: float64, one token at a time, straight from the equations.

It shares no code with the training modules and knows no ring, tile or chunk: each attention layer
keeps the list of all past keys and values as they come out of the projections, and a score is
q · R_{-distance} k for one key at a time of that list. Slow and plain on purpose.

    model = Reference(config, tensors);  logits = model.step(token)
"""

import math

import torch

DEFAULT_HYPE_BASE = 362.0


def rms_norm(x, weight, eps):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def rotation(positions, width, theta):
    """cos and sin of p·θ^(-2i/D) for each position: [n, D/2] each."""
    pair = torch.arange(width // 2, dtype=torch.float64)
    angle = torch.as_tensor(positions, dtype=torch.float64).reshape(-1, 1) * theta ** (
        -2.0 * pair / width
    )
    return torch.cos(angle), torch.sin(angle)


def rotate(x, positions, theta):
    """R_p x for x [n, H, D] and one position per row, half-split pairs (i, i + D/2)."""
    half = x.shape[-1] // 2
    cos, sin = rotation(positions, x.shape[-1], theta)
    cos, sin = cos[:, None, :], sin[:, None, :]
    first, second = x[..., :half], x[..., half:]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def alibi_slopes(heads):
    """2^(-8h/H), h = 1…H; for H not a power of two the usual ALiBi interleaving."""
    if heads & (heads - 1) == 0:
        return [2.0 ** (-8.0 * h / heads) for h in range(1, heads + 1)]
    power = 1 << (heads.bit_length() - 1)
    return alibi_slopes(power) + alibi_slopes(2 * power)[0::2][: heads - power]


def log_n(mode, position, training_length):
    """The factor on q of the log n scaling; 1 without."""
    visible = position + 1
    if mode is None:
        return 1.0
    if mode == "always":
        return math.log(max(visible, 16)) / math.log(training_length)
    if mode == "extrapolate":
        return max(1.0, math.log(visible) / math.log(training_length))
    raise ValueError(f"logn_scaling {mode!r}")


def hype_scale(setting, position):
    """The factor on q that attn_logits_scaling asks for."""
    if setting is None:
        return 1.0
    if isinstance(setting, (int, float)):
        return float(setting)
    words = setting.split()
    if words[0] != "hype" or len(words) > 2:
        raise ValueError(f"attn_logits_scaling {setting!r}")
    a = float(words[1]) if len(words) == 2 else DEFAULT_HYPE_BASE
    return math.log(position + a) / math.log(a)


def layer_plan(config, overrides):
    """One dictionary per layer: kind (attention, lightning, gated-rnn), window, position, …"""
    layers = config["num_hidden_layers"]
    length = config.get("training_length", config.get("max_position_embeddings"))
    logn = config.get("logn_scaling")
    if config["model_type"] == "hypenet":
        return [hypenet_layer(config, mixer) for mixer in hypenet_mixers(config)]

    default = "rerope" if config["model_type"] == "hwfa2" else "rope"
    position = config.get("full_position", default)
    full = {"kind": "attention", "window": None, "position": position, "logn": logn}
    if config["model_type"] == "hwfa2":
        if full["position"] in ("rerope", "leaky_rerope"):
            full["w"] = config.get("rerope_window", (length or 0) // 2)
            full["leak"] = config.get("leaky_rerope_factor")
        types = config.get("layer_types")
        if types is None:
            count = config["num_full_layers"]
            chosen = {k * layers // (count + 1) for k in range(1, count + 1)}
        else:
            chosen = {i for i, name in enumerate(types) if name == "full_attention"}
        width = config.get("sliding_window")
    else:
        chosen = set(range(layers))
        width = None

    full["N"] = overrides.get("training_length", length)
    if "rerope_window" in overrides:
        full["position"], full["w"] = "rerope", overrides["rerope_window"]
    if "leaky_rerope_factor" in overrides:
        full["position"], full["leak"] = "leaky_rerope", overrides["leaky_rerope_factor"]
    if "window" in overrides:
        width, chosen = overrides["window"], set(overrides["full_layers"])
    if "logn" in overrides:
        full["logn"] = overrides["logn"]
    local = {"kind": "attention", "window": width, "position": "rope", "logn": None}
    return [full if i in chosen else local for i in range(layers)]


def hypenet_mixers(config):
    layers = config["num_hidden_layers"]
    if "mixer_types" in config:
        return config["mixer_types"]
    outer = layers // 4
    return [
        "attn" if i < outer or i >= 3 * layers // 4 else "gated-rnn" for i in range(layers)
    ]


def hypenet_layer(config, mixer):
    if mixer == "lightning-attn":
        return {"kind": "lightning"}
    if mixer == "gated-rnn":
        return {"kind": "gated-rnn"}
    layer = {"kind": "attention", "window": None, "logn": None}
    if config.get("hypenet_profile", "published") == "chunked":
        layer |= {"position": "chunk", "window": config.get("attention_window")}
    else:
        layer |= {
            "position": "rope" if config.get("attn_use_rope", True) else "nope",
            "hype": config.get("attn_logits_scaling"),
            "gate": config.get("attn_use_output_gate", False),
        }
    return layer


class Reference:
    """A model and one growing sequence. tensors: checkpoint names to tensors of any dtype."""

    def __init__(self, config, tensors, overrides=None):
        self.config = config
        self.tensors = {name: value.double() for name, value in tensors.items()}
        self.plan = layer_plan(config, overrides or {})
        self.eps = config.get("rms_norm_eps", 1e-6)
        rope = config.get("rope_parameters", config)
        self.theta = rope["rope_theta"]
        self.qk_norm = config["model_type"] == "qwen3" or (
            config["model_type"] in ("hwfa2", "hypenet") and config.get("use_qk_norm", True)
        )
        self.position = 0
        self.past = [{"keys": [], "values": [], "state": 0.0} for _ in self.plan]

    def tensor(self, layer, name):
        return self.tensors[f"model.layers.{layer}.{name}"]

    def step(self, token):
        """Appends one token and returns the logits of the next one: float64 [V]."""
        x = self.tensors["model.embed_tokens.weight"][token]
        for index, layer in enumerate(self.plan):
            h = rms_norm(x, self.tensor(index, "input_layernorm.weight"), self.eps)
            mixer = {
                "attention": self.attention,
                "lightning": self.lightning,
                "gated-rnn": self.gated_rnn,
            }[layer["kind"]]
            x = x + mixer(index, layer, h)
            h = rms_norm(x, self.tensor(index, "post_attention_layernorm.weight"), self.eps)
            gate = self.tensor(index, "mlp.gate_proj.weight") @ h
            up = self.tensor(index, "mlp.up_proj.weight") @ h
            x = x + self.tensor(index, "mlp.down_proj.weight") @ (gate * torch.sigmoid(gate) * up)
        self.position += 1
        h = rms_norm(x, self.tensors["model.norm.weight"], self.eps)
        head = "model.embed_tokens" if self.config["tie_word_embeddings"] else "lm_head"
        return self.tensors[head + ".weight"] @ h

    def project(self, index, name, h, heads):
        """W h + b as heads: [1, H, D]."""
        return self.linear(index, f"{name}_proj", h).reshape(1, heads, -1)

    def linear(self, index, name, h):
        """W h + b, b where the checkpoint has one."""
        name = f"model.layers.{index}.self_attn.{name}"
        return self.tensors[name + ".weight"] @ h + self.tensors.get(name + ".bias", 0.0)

    def normed(self, index, name, x):
        return rms_norm(x, self.tensor(index, f"self_attn.{name}_norm.weight"), self.eps)

    def attention(self, index, layer, h):
        config, position, past = self.config, self.position, self.past[index]
        heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        qk_input = h
        if layer["position"] == "chunk":
            chunk = position // config["chunk_size"]
            qk_input = h + self.tensors["model.chunk_embed.weight"][chunk]
        q = self.project(index, "q", qk_input, heads)
        k = self.project(index, "k", qk_input, kv_heads)
        v = self.project(index, "v", h, kv_heads)
        if self.qk_norm:
            q, k = self.normed(index, "q", q), self.normed(index, "k", k)
        q = q * log_n(layer["logn"], position, layer.get("N"))
        q = q * hype_scale(layer.get("hype"), position)
        past["keys"].append(k)
        past["values"].append(v)

        first = 0 if layer["window"] is None else max(0, position - layer["window"] + 1)
        keys = torch.cat(past["keys"][first:]).repeat_interleave(heads // kv_heads, dim=1)
        values = torch.cat(past["values"][first:]).repeat_interleave(heads // kv_heads, dim=1)
        keys = rotate(keys, self.key_turns(layer, first), self.theta)
        scores = (q * keys).sum(-1) / math.sqrt(q.shape[-1])  # [keys, H]
        if layer["position"] == "alibi":
            distance = torch.arange(len(keys) - 1, -1, -1, dtype=torch.float64)
            slopes = torch.tensor(alibi_slopes(heads), dtype=torch.float64)
            scores = scores - distance[:, None] * slopes
        weights = torch.softmax(scores, dim=0)
        out = (weights[:, :, None] * values).sum(0).flatten()
        if layer.get("gate"):
            out = out * torch.sigmoid(self.linear(index, "o_gate", h))
        return self.linear(index, "o_proj", out)

    def key_turns(self, layer, first):
        """How far each key from `first` on is turned relative to an unturned query."""
        position = self.position
        distance = [float(position - j) for j in range(first, position + 1)]
        kind = layer["position"]
        if kind in ("nope", "alibi"):
            return [0.0 for _ in distance]
        if kind == "rope":
            return [-d for d in distance]
        if kind == "rerope":
            return [-min(d, layer["w"]) for d in distance]
        if kind == "leaky_rerope":
            w, leak = layer["w"], layer["leak"]
            return [-d if d < w else -(w + (d - w) / leak) for d in distance]
        if kind == "chunk":  # Both are turned by their place within their own chunk.
            size = self.config["chunk_size"]
            return [float(j % size - position % size) for j in range(first, position + 1)]
        raise ValueError(f"full_position {kind!r}")

    def lightning(self, index, layer, h):
        config = self.config
        heads, kv_heads = config["lightning_nh"], config["lightning_nkv"]
        width = config["lightning_head_dim"]
        q = self.project(index, "q", h, heads)
        k = self.project(index, "k", h, kv_heads)
        v = self.project(index, "v", h, kv_heads)[0].repeat_interleave(heads // kv_heads, dim=0)
        if config.get("lightning_use_qk_norm", False):
            q, k = self.normed(index, "q", q), self.normed(index, "k", k)
        if config.get("lightning_use_rope", True):
            q = rotate(q, [self.position], self.theta)
            k = rotate(k, [self.position], self.theta)
        q, k = q[0], k[0].repeat_interleave(heads // kv_heads, dim=0)
        scale = {"1/sqrt(d)": width**-0.5, "1/d": 1.0 / width, 1: 1.0}[
            config.get("lightning_scale", "1/sqrt(d)")
        ]
        gamma = torch.exp(-torch.tensor(alibi_slopes(heads), dtype=torch.float64))
        past = self.past[index]
        past["state"] = gamma[:, None, None] * past["state"] + k[:, :, None] * v[:, None, :]
        out = torch.einsum("hk,hkv->hv", q * scale, past["state"]).flatten()
        if config.get("lightning_use_output_norm", False):
            out = rms_norm(out, self.tensor(index, "self_attn.o_norm.weight"), self.eps)
        if config.get("lightning_use_output_gate", False):
            out = out * torch.sigmoid(self.linear(index, "z_proj", h))
        return self.linear(index, "o_proj", out)

    def gated_rnn(self, index, layer, h):
        heads = self.config.get("rnn_heads", 1)
        q = self.project(index, "q", h, heads)[0]  # [heads, state_dim / heads]
        k = self.project(index, "k", h, heads)[0]
        v = self.project(index, "v", h, heads)[0]  # [heads, d / heads]
        f = torch.sigmoid(self.project(index, "f", h, heads)[0])
        past = self.past[index]
        past["state"] = f[:, :, None] * past["state"] + k[:, :, None] * v[:, None, :]
        out = torch.einsum("hk,hkv->hv", q, past["state"]).flatten()
        return self.linear(index, "o_proj", out)
