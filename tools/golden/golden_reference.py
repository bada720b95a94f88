"""Independent reference for all models: computes the equations in float64, one token at a time.

This file shares no code with the training modules, and it has no rings, tiles or chunks. Each
attention layer keeps a list of all past keys and values as the projections compute them, and a
score is q · R_{-distance} k for one key of that list. The code is slow and simple on purpose.

    model = Reference(config, tensors);  logits = model.step(token)
"""

import math

import torch

from golden_mixture import mixture_of, mixture_output
from golden_names import usual
from golden_rope import rope_of

DEFAULT_HYPE_BASE = 362.0
FULL = "full_attention"


def rms_norm(x, weight, eps):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def layer_norm(x, weight, eps):
    return rms_norm(x - x.mean(-1, keepdim=True), weight, eps)


ACTIVATIONS = {
    "silu": torch.nn.functional.silu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "gelu": torch.nn.functional.gelu,
}


def soft_cap(x, cap):
    return x if cap is None else cap * torch.tanh(x / cap)


# Families that apply the norm at the end of a branch and not at its beginning.
POST_NORM = ("exaone4", "olmo2", "olmo3")


def alibi_slopes(heads, most=8.0):
    """The slopes 2^(-8h/H), h = 1…H; if H is not a power of two, interleaved by the rule of
    ALiBi."""
    if heads & (heads - 1) == 0:
        return [2.0 ** (-most * h / heads) for h in range(1, heads + 1)]
    power = 1 << (heads.bit_length() - 1)
    return alibi_slopes(power, most) + alibi_slopes(2 * power, most)[0::2][: heads - power]


def log_n(mode, position, training_length):
    """The factor by which log n scaling multiplies q; 1 if there is no such scaling."""
    visible = position + 1
    if mode is None:
        return 1.0
    if mode == "always":
        return math.log(max(visible, 16)) / math.log(training_length)
    if mode == "extrapolate":
        return max(1.0, math.log(visible) / math.log(training_length))
    raise ValueError(f"logn_scaling {mode!r}")


def hype_scale(setting, position):
    """The factor by which attn_logits_scaling multiplies q."""
    if setting is None:
        return 1.0
    if isinstance(setting, (int, float)):
        return float(setting)
    words = setting.split()
    if words[0] != "hype" or len(words) > 2:
        raise ValueError(f"attn_logits_scaling {setting!r}")
    a = float(words[1]) if len(words) == 2 else DEFAULT_HYPE_BASE
    return math.log(position + a) / math.log(a)


def family_windows(config):
    """The window of each layer, from the config of a public family; None means full attention."""
    layers, width = config["num_hidden_layers"], config.get("sliding_window")
    kind = config["model_type"]
    if kind in ("mistral", "mixtral", "phi3"):
        return [width] * layers
    if kind == "qwen3_moe":
        return [width if config.get("use_sliding_window") else None] * layers
    hybrids = ("afmoe", "cohere2", "exaone4", "gemma2", "gemma3_text", "olmo3")
    if kind in hybrids and width is not None:
        pattern = config.get("sliding_window_pattern", 2 if kind == "gemma2" else 4)
        pattern = config.get("global_attn_every_n_layers", pattern)
        pattern = len(pattern) if isinstance(pattern, str) else pattern
        default = [FULL if (i + 1) % pattern == 0 else "sliding_attention" for i in range(layers)]
        types = config.get("layer_types", default)
        return [None if name == FULL else width for name in types]
    if not config.get("use_sliding_window") or width is None:
        return [None] * layers
    if "layer_types" in config:
        chosen = [name == "sliding_attention" for name in config["layer_types"]]
    elif kind == "qwen2_moe":
        chosen = [i % 2 == 0 and i < config["max_window_layers"] for i in range(layers)]
    elif kind == "smollm3":
        chosen = [not rope for rope in layers_with_rope(config)]
    else:
        chosen = [i >= config["max_window_layers"] for i in range(layers)]
    return [width if sliding else None for sliding in chosen]


def layers_with_rope(config):
    layers = config["num_hidden_layers"]
    without = ("afmoe", "cohere2", "exaone4")
    if config["model_type"] in without and config.get("sliding_window") is not None:
        return [window is not None for window in family_windows(config)]
    if config["model_type"] != "smollm3":
        return [True] * layers
    if "no_rope_layers" in config:
        return [bool(one) for one in config["no_rope_layers"]]
    return [(i + 1) % config["no_rope_layer_interval"] != 0 for i in range(layers)]


def family_plan(config, overrides):
    """The layers of a public family, with the options that change them."""
    length = config.get("training_length", config["max_position_embeddings"])
    plan = []
    windows, ropes = family_windows(config), layers_with_rope(config)
    for i, (window, rope) in enumerate(zip(windows, ropes, strict=True)):
        if "full_layers" in overrides:
            window = None if i in overrides["full_layers"] else overrides.get("window", window)
        layer = {"kind": "attention", "window": window, "position": "rope" if rope else "nope"}
        layer["logn"], layer["gate"] = None, config["model_type"] == "afmoe"
        if window is None:
            layer["position"] = config.get("full_position", layer["position"])
            layer["logn"] = overrides.get("logn", config.get("logn_scaling"))
            layer["N"] = overrides.get("training_length", length)
            if layer["position"] == "rope" and "rerope_window" in overrides:
                layer |= {"position": "rerope", "w": overrides["rerope_window"]}
            if layer["position"] == "rerope" and "leaky_rerope_factor" in overrides:
                layer |= {"position": "leaky_rerope", "leak": overrides["leaky_rerope_factor"]}
        plan.append(layer)
    return plan


def layer_plan(config, overrides):
    """One dictionary per layer, with its kind (attention, lightning, gated-rnn), window, position,
    …"""
    if config["model_type"] == "hypenet":
        return [hypenet_layer(config, mixer) for mixer in hypenet_mixers(config)]
    if config["model_type"] != "hwfa2":
        return family_plan(config, overrides)

    layers = config["num_hidden_layers"]
    length = config.get("training_length", config.get("max_position_embeddings"))
    position = config.get("full_position", "rerope")
    full = {"kind": "attention", "window": None, "position": position, "N": length}
    full["logn"] = config.get("logn_scaling")
    if full["position"] in ("rerope", "leaky_rerope"):
        full["w"] = config.get("rerope_window", (length or 0) // 2)
        full["leak"] = config.get("leaky_rerope_factor")
    types = config.get("layer_types")
    if types is None:
        count = config["num_full_layers"]
        chosen = {k * layers // (count + 1) for k in range(1, count + 1)}
    else:
        chosen = {i for i, name in enumerate(types) if name == "full_attention"}
    local = {"kind": "attention", "window": config.get("sliding_window"), "position": "rope"}
    local["logn"] = None
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
    """A model with one sequence, which grows by a token per step. `tensors` maps the names of a
    checkpoint to tensors of any dtype."""

    def __init__(self, config, tensors, overrides=None, context=None):
        overrides = overrides or {}
        config, tensors = usual(config, tensors)
        self.config = config
        self.tensors = {name: value.double() for name, value in tensors.items()}
        self.plan = layer_plan(config, overrides)
        self.eps = config.get("rms_norm_eps", 1e-6)
        self.gau = config.get("block_type") == "gau"
        if self.gau:
            width = config.get("gau_key_dim", 128)
        else:
            width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        context = context or config["max_position_embeddings"]
        self.rope = rope_of(config, width, context, overrides.get("rope_scaling"))
        self.window_rope = self.rope
        if config["model_type"] in ("olmo3", "gemma3_text"):  # Only full attention is scaled.
            base = config.get("rope_local_base_freq", config["rope_theta"])
            plain = {"rope_type": "default"}
            self.window_rope = rope_of(config | {"rope_theta": base}, width, context, plain)
        self.gemma = config["model_type"].startswith("gemma")
        if self.gemma:  # The stored weights of norms are their factors minus one.
            for name in self.tensors:
                if name.endswith("norm.weight"):
                    self.tensors[name] = 1.0 + self.tensors[name]
        self.sandwich = config["model_type"] in ("afmoe", "gemma2", "gemma3_text")
        self.score_cap = config.get("attn_logit_softcapping")
        self.logit_cap = config.get("final_logit_softcapping")
        self.parallel = config["model_type"].startswith("cohere")
        if self.parallel or config["model_type"] == "glm":
            self.rope = self.window_rope = self.rope._replace(neighbours=True)
        self.eps = config.get("layer_norm_eps", self.eps)
        self.norm = layer_norm if "layer_norm_eps" in config else rms_norm
        activations = {"bloom": "gelu_tanh", "mpt": "gelu"}
        name = "gelu_tanh" if self.gemma else activations.get(config["model_type"], "silu")
        self.activation = ACTIVATIONS[name]
        self.post_norm = config["model_type"] in POST_NORM
        self.score_scale = config.get("attention_multiplier") or width**-0.5
        if "query_pre_attn_scalar" in config:
            self.score_scale = config["query_pre_attn_scalar"] ** -0.5
        self.logit_scale = config.get("logit_scale", 1.0) / config.get("logits_scaling", 1.0)
        self.embedding_scale = config.get("embedding_multiplier", 1.0)
        if self.gemma or config.get("mup_enabled"):
            self.embedding_scale = math.sqrt(config["hidden_size"])
        self.branch_scale = config.get("residual_multiplier", 1.0)
        self.qk_norm = not self.gau and (
            config["model_type"]
            in ("afmoe", "olmoe", "qwen3", "qwen3_moe", "gemma3_text", *POST_NORM)
            or (config["model_type"] in ("hwfa2", "hypenet") and config.get("use_qk_norm", True))
            or (self.parallel and config.get("use_qk_norm", False))
        )
        self.least_gap = float("inf")  # of a router, between experts chosen and not chosen
        self.position = 0
        self.past = [{"keys": [], "values": [], "state": 0.0} for _ in self.plan]

    def tensor(self, layer, name):
        return self.tensors[f"model.layers.{layer}.{name}"]

    def step(self, token):
        """Appends one token and returns the logits of the next one: float64 [V]."""
        x = self.tensors["model.embed_tokens.weight"][token]
        x = x * self.embedding_scale
        if "model.embed_norm.weight" in self.tensors:
            x = self.normed_by("model.embed_norm", x)
        for index, layer in enumerate(self.plan):
            if self.gau:
                x = self.gated_unit(index, layer, x)
                continue
            h = x if self.post_norm else self.block_norm(index, "input", x)
            mixer = {
                "attention": self.attention,
                "lightning": self.lightning,
                "gated-rnn": self.gated_rnn,
            }[layer["kind"]]
            out = mixer(index, layer, h)
            if self.post_norm or self.sandwich:
                out = self.block_norm(index, "post_attention", out)
            x = x + self.branch_scale * out
            before = "pre_feedforward" if self.sandwich else "post_attention"
            if not self.parallel:  # In a parallel block attention and MLP have the same input.
                h = x if self.post_norm else self.block_norm(index, before, x)
            out = self.feed_forward(index, h)
            if self.post_norm or self.sandwich:
                out = self.block_norm(index, "post_feedforward", out)
            x = x + self.branch_scale * out
        self.position += 1
        # The last gated attention unit has already applied its norm.
        h = x if self.gau else self.normed_by("model.norm", x)
        head = "model.embed_tokens" if self.config["tie_word_embeddings"] else "lm_head"
        return soft_cap(self.tensors[head + ".weight"] @ h * self.logit_scale, self.logit_cap)

    def feed_forward(self, index, h):
        if mixture_of(self.config, index):
            out, gap = mixture_output(self, index, h)
            self.least_gap = min(self.least_gap, gap)
            return out
        up = self.linear(index, "mlp.up_proj", h)
        if f"model.layers.{index}.mlp.gate_proj.weight" in self.tensors:
            hidden = self.activation(self.linear(index, "mlp.gate_proj", h)) * up
        else:
            hidden = self.activation(up)
        return self.linear(index, "mlp.down_proj", hidden)

    def block_norm(self, index, name, x):
        return self.normed_by(f"model.layers.{index}.{name}_layernorm", x)

    def normed_by(self, name, x):
        y = self.norm(x, self.tensors[name + ".weight"], self.eps)
        return y + self.tensors.get(name + ".bias", 0.0)

    def project(self, index, name, h, heads):
        """Computes W h + b and divides it into heads: [1, H, D]."""
        return self.linear(index, f"self_attn.{name}_proj", h).reshape(1, heads, -1)

    def linear(self, index, name, h):
        """Computes W h + b, or W h if the checkpoint has no b."""
        name = f"model.layers.{index}.{name}"
        return self.tensors[name + ".weight"] @ h + self.tensors.get(name + ".bias", 0.0)

    def normed(self, index, name, x):
        if self.config["model_type"] in ("olmo2", "olmo3", "olmoe"):  # The norm is over all heads together.
            weight = self.tensor(index, f"self_attn.{name}_norm.weight")
            return rms_norm(x.flatten(), weight, self.eps).view_as(x)
        return self.norm(x, self.tensor(index, f"self_attn.{name}_norm.weight"), self.eps)

    def gated_unit(self, index, layer, x):
        """[u v z] = silu(W_i x), q and k from z:  RMSNorm(x + W_o (u ⊙ softmax(q kᵀ / √s) v))"""
        s = self.config.get("gau_key_dim", 128)
        e = self.config.get("gau_expansion", 2 * self.config["hidden_size"])
        active = self.linear(index, "gau.in_proj", x)
        active = active * torch.sigmoid(active)
        u, v, z = active[:e], active[e : 2 * e], active[2 * e :]
        q, k = (
            self.tensor(index, f"gau.{name}_scale") * z + self.tensor(index, f"gau.{name}_offset")
            for name in "qk"
        )
        out = self.attend(index, layer, q.view(1, 1, s), k.view(1, 1, s), v.view(1, 1, e))
        return self.block_norm(
            index, "post_attention", x + self.linear(index, "gau.out_proj", u * out)
        )

    def attention(self, index, layer, h):
        config, position = self.config, self.position
        heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        qk_input = h
        if layer["position"] == "chunk":
            chunk = position // config["chunk_size"]
            qk_input = h + self.tensors["model.chunk_embed.weight"][chunk]
        q = self.project(index, "q", qk_input, heads)
        k = self.project(index, "k", qk_input, kv_heads)
        v = self.project(index, "v", h, kv_heads)
        clip = config.get("clip_qkv") or math.inf
        if config["model_type"] != "olmoe":
            q, k, v = (part.clamp(-clip, clip) for part in (q, k, v))
        if self.qk_norm:
            q, k = self.normed(index, "q", q), self.normed(index, "k", k)
        if config["model_type"] == "olmoe":  # The norm comes before the clipping.
            q, k, v = (part.clamp(-clip, clip) for part in (q, k, v))
        out = self.attend(index, layer, q, k, v)
        if layer.get("gate"):
            out = out * torch.sigmoid(self.linear(index, "self_attn.o_gate", h))
        return self.linear(index, "self_attn.o_proj", out)

    def attend(self, index, layer, q, k, v):
        """Softmax attention of the newest token, for all heads at once. Stores its k and v."""
        position, past = self.position, self.past[index]
        heads = q.shape[1]
        repeat = heads // k.shape[1]
        q = q * log_n(layer["logn"], position, layer.get("N"))
        q = q * hype_scale(layer.get("hype"), position)
        past["keys"].append(k)
        past["values"].append(v)

        first = 0 if layer["window"] is None else max(0, position - layer["window"] + 1)
        keys = torch.cat(past["keys"][first:]).repeat_interleave(repeat, dim=1)
        values = torch.cat(past["values"][first:]).repeat_interleave(repeat, dim=1)
        if layer["position"] not in ("nope", "alibi"):
            rope = self.rope if layer["window"] is None else self.window_rope
            keys = rope.magnify(rope.rotate(keys, self.key_turns(layer, first)))
            q = rope.magnify(q)
        scores = soft_cap((q * keys).sum(-1) * self.score_scale, self.score_cap)  # [keys, H]
        if layer["position"] == "alibi":
            distance = torch.arange(len(keys) - 1, -1, -1, dtype=torch.float64)
            most = self.config.get("alibi_bias_max", 8.0)
            slopes = torch.tensor(alibi_slopes(heads, most), dtype=torch.float64)
            scores = scores - distance[:, None] * slopes
        weights = torch.softmax(scores, dim=0)
        return (weights[:, :, None] * values).sum(0).flatten()

    def key_turns(self, layer, first):
        """Returns, for each key from `first` on, the angle in positions by which the key is rotated
        if the query is not rotated."""
        position = self.position
        distance = [float(position - j) for j in range(first, position + 1)]
        kind = layer["position"]
        if kind == "rope":
            return [-d for d in distance]
        if kind == "rerope":
            return [-min(d, layer["w"]) for d in distance]
        if kind == "leaky_rerope":
            w, leak = layer["w"], layer["leak"]
            return [-d if d < w else -(w + (d - w) / leak) for d in distance]
        if kind == "chunk":  # Query and key each rotate by their position in their own chunk.
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
            rope = rope_of(config, width, None)
            q, k = rope.rotate(q, [self.position]), rope.rotate(k, [self.position])
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
            out = out * torch.sigmoid(self.linear(index, "self_attn.z_proj", h))
        return self.linear(index, "self_attn.o_proj", out)

    def gated_rnn(self, index, layer, h):
        heads = self.config.get("rnn_heads", 1)
        q = self.project(index, "q", h, heads)[0]  # [heads, state_dim / heads]
        k = self.project(index, "k", h, heads)[0]
        v = self.project(index, "v", h, heads)[0]  # [heads, d / heads]
        f = torch.sigmoid(self.project(index, "f", h, heads)[0])
        past = self.past[index]
        past["state"] = f[:, :, None] * past["state"] + k[:, :, None] * v[:, None, :]
        out = torch.einsum("hk,hkv->hv", q, past["state"]).flatten()
        return self.linear(index, "self_attn.o_proj", out)
