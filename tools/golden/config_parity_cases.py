"""The configs that config_parity.py compares: a small one per family, and its variations.

The keys come from transformers: the declared fields of the family's config class, the keys that the
class takes from older files, those of RoPE's dictionary, and the keys of all other families.
"""

import copy
import dataclasses
import inspect
import re

from transformers import CONFIG_MAPPING, PreTrainedConfig
from transformers.modeling_rope_utils import (
    ROPE_INIT_FUNCTIONS,
    RopeParameters,
    RotaryEmbeddingConfigMixin,
)

FULL, LOCAL = "full_attention", "sliding_attention"
POSITIONS = 256  # max_position_embeddings
ABSENT = "<absent>"
RELEASES = ["4.40.0", "4.57.1", "5.0.0"]

# Values of the small configs. A class that declares one of these keys gets the value. They are
# chosen so that each key changes the logits.
SMALL = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
    "max_position_embeddings": POSITIONS, "sliding_window": 37, "max_window_layers": 1,
    "use_sliding_window": True, "query_pre_attn_scalar": 9, "num_dense_layers": 4,
    "attn_logit_softcapping": 1.5, "final_logit_softcapping": 3.0, "logit_scale": 0.25,
    "embedding_multiplier": 6.0, "residual_multiplier": 0.4, "attention_multiplier": 0.3,
    "logits_scaling": 4.0, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "moe_intermediate_size": 16, "num_experts": 4, "num_experts_per_tok": 2,
    "num_local_experts": 4, "shared_expert_intermediate_size": 24, "shared_intermediate_size": 24,
    "no_rope_layer_interval": 3, "sliding_window_pattern": 3, "global_attn_every_n_layers": 3,
    "n_layer": 4, "n_head": 4, "d_model": 32, "n_heads": 4, "n_layers": 4, "max_seq_len": POSITIONS,
}  # fmt: skip
# A null in the class that means something else than absent, or a value that the family refuses.
LEFT_OUT = {
    "phi3": ["original_max_position_embeddings"],
    "gemma3_text": ["attn_logit_softcapping", "final_logit_softcapping"],
    "mpt": ["logit_scale"],
}
# Keys without which a small config would lack a kind of layer, and families of which every key of
# RoPE's dictionary is compared: the others read it with the same code as one of these.
ADDED = {"afmoe": {"num_dense_layers": 2, "route_scale": 1.7},
         "gemma3_text": {"sliding_window_pattern": 3}, "olmo2": {"attention_bias": True},
         "olmoe": {"clip_qkv": 0.8}}  # fmt: skip
EVERY_ROPE_KEY = ("gemma3_text", "glm", "llama", "olmo3", "phi3", "qwen3")
ACTIVATIONS = ["silu", "swish", "gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "quick_gelu",
               "relu", "relu2", "acme"]  # fmt: skip
LISTS = {
    "layer_types": [[FULL] * 4, [LOCAL] * 4, [LOCAL, FULL, FULL, LOCAL], [FULL], []],
    "mlp_only_layers": [[0], [1, 3], [9], []],
    "no_rope_layers": [[0, 1, 1, 0], [1, 1, 1, 1], [0, 1], [2, 1, 0, 1], []],
}
DICTIONARIES = {
    "attn_config": [
        {}, {"clip_qkv": 0.5}, {"clip_qkv": 0}, {"softmax_scale": 0.2}, {"softmax_scale": 0},
        {"alibi": False}, {"alibi_bias_max": 16}, {"prefix_lm": True}, {"qk_ln": True},
        {"attn_uses_sequence_id": True}, {"attn_type": "multiquery_attention"},
        {"attn_impl": "triton"}, {"attn_pdrop": 0.1}, {"rope": True}, {"acme": 1},
    ],
    "text_config": [], "vision_config": [],
    "id2label": [{"0": "a"}], "label2id": [{"a": 0}],
}  # fmt: skip

# The keys that each kind of RoPE needs.
KINDS = {
    "default": {},
    "linear": {"factor": 2.5},
    "dynamic": {"factor": 2.0},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 64},
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 64},
    "longrope": {"short_factor": [1.0, 1.5, 2.0, 2.5], "long_factor": [1.0, 2.0, 4.0, 8.0],
                 "original_max_position_embeddings": 64},
}  # fmt: skip
# Other values of the keys in RoPE's dictionary.
ROPE_VALUES = {
    "rope_theta": [5000.0], "rope_type": ["acme", "su"], "partial_rotary_factor": [0.5, 1.0, 0.3],
    "factor": [3.0, 0.5], "original_max_position_embeddings": [48],
    "attention_factor": [1.3], "beta_fast": [8.0, 0], "beta_slow": [0.5, 0],
    "short_factor": [[2.0, 2.0, 2.0, 2.0], [1.0]], "long_factor": [[3.0, 3.0, 3.0, 3.0], [1.0]],
    "low_freq_factor": [2.0], "high_freq_factor": [8.0, 0.5], "mscale": [1.2],
    "mscale_all_dim": [0.7], "truncate": [False], "mrope_section": [[1, 1, 2]],
}  # fmt: skip


@dataclasses.dataclass
class Case:
    key: str  # as the table names it: "rope_scaling[yarn].factor"
    value: object  # ABSENT, or what the key is set to
    config: dict
    long: bool = False  # whether the text must be longer than the windows of the classes


def class_of(family):
    return CONFIG_MAPPING[family]


def declared(family, own=False):
    """The declared fields of the class and their defaults; `own`: only those of this class."""
    base = {field.name for field in dataclasses.fields(PreTrainedConfig)}
    fields = {field.name: field.default for field in dataclasses.fields(class_of(family))}
    return {name: value for name, value in fields.items() if not own or name not in base}


def legacy_keys(family):
    """Keys that the class takes from files of older releases."""
    sources = [inspect.getsource(class_of(family))]
    if "rope_parameters" in declared(family):
        sources.append(inspect.getsource(RotaryEmbeddingConfigMixin))
        sources.append('kwargs.get("original_max_position_embeddings")')
    pattern = r'kwargs\.(?:pop|get|setdefault)\(\s*"(\w+)"'
    found = {key for source in sources for key in re.findall(pattern, source)}
    found |= set(class_of(family).attribute_map)
    return sorted(found - set(declared(family)) - {"rope_scaling"})


def base_config(family):
    config = {}
    for key, value in declared(family, own=True).items():
        if key in LEFT_OUT.get(family, []) or key in ("rope_parameters", "attn_config"):
            continue
        value = SMALL.get(key, value)
        if value is not None and value is not dataclasses.MISSING:
            config[key] = value
    config |= ADDED.get(family, {})
    return config | {"model_type": family, "torch_dtype": "float32"}


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def odd_values(key, value):
    """Other values for a key whose usual value is `value`."""
    if key in ("hidden_act", "hidden_activation"):
        return ACTIVATIONS
    if key in LISTS:
        return LISTS[key]
    if key in ("hidden_size", "d_model", "intermediate_size"):  # very small widths are inexact
        return [0, value + 1, value + 8]
    if key in DICTIONARIES:
        return DICTIONARIES[key]
    if isinstance(value, bool):
        return [True, False]
    if isinstance(value, int):
        return sorted({0, 1, 2, value + 1, 2 * value} - {value})
    if isinstance(value, float):
        return [0.0, 0.5 * value, 2.0 * value + 0.25, 1]
    if isinstance(value, str):
        return ["acme"]
    return [True, 3, 0.5, "acme"]


def legacy_values(key):
    if "theta" in key or "freq" in key:
        return [5000.0]
    if key in SMALL:
        return odd_values(key, SMALL[key]) + [SMALL[key]]
    if "factor" in key:
        return [0.5, 1.0, 0.3]
    return {"sliding_window_pattern": [2, 3, 1, "LLG"], "n_embed": [32, 24, 40],
            "original_max_position_embeddings": [48, 300]}.get(key, [1, True, "acme"])  # fmt: skip


def changed(config, key, value):
    config = copy.deepcopy(config)
    if value == ABSENT:
        config.pop(key, None)
    else:
        config[key] = value
    return config


def field_cases(family):
    base = base_config(family)
    for key, default in declared(family).items():
        if key in ("rope_parameters", "transformers_version"):
            continue
        usual = base.get(key, default)
        values = [ABSENT, None] + odd_values(key, usual)
        for value in values if key in base else values[1:]:
            # An absent or null window may be the class's 4096.
            wide = "window" in key and value in (ABSENT, None)
            config = changed(base, key, value)
            if wide:
                config["max_position_embeddings"] = 8192
            yield Case(key, value, config, long=wide)
    for key in legacy_keys(family):
        for value in [None] + legacy_values(key):
            yield Case(key, value, changed(base, key, value))
        alias = class_of(family).attribute_map.get(key)
        if alias in base:
            renamed = changed(base, alias, ABSENT)
            yield Case(key, f"in place of {alias}", changed(renamed, key, base[alias]))


def foreign_cases(family, families):
    """Keys that only other classes have: this class ignores them."""
    base = base_config(family)
    known = set(declared(family)) | set(legacy_keys(family)) | {"rope_scaling"}
    seen = {}
    for other in families:
        theirs = base_config(other)
        for key in list(declared(other, own=True)) + legacy_keys(other):
            if key in known or key in seen or key == "rope_parameters":
                continue
            value = theirs.get(key)
            if value is None or value is False:
                value = legacy_values(key)[0] if key in legacy_keys(other) else True
            seen[key] = value
    seen["layer_types"] = seen.get("layer_types", [LOCAL, FULL, FULL, LOCAL])
    seen |= {"partial_rotary_factor": 0.5, "is_causal": False, "attention_chunk_size": 16,
             "per_layer_config": {"0": {"num_attention_heads": 2}}, "num_local_experts": 4,
             "use_flash_attn": True, "training_args": {"lr": 1e-5}, "license": "mit",
             "bos_token": "<s>", "hidden_activation": "silu", "hidden_act": "silu"}  # fmt: skip
    for key, value in sorted(seen.items()):
        if key not in known:
            yield Case(key, value, changed(base, key, value))


def has_layer_types_rope(family):
    """Whether the class has a RoPE for each layer type."""
    return "sliding_attention" in inspect.getsource(class_of(family).convert_rope_params_to_dict)


def rope_spellings(kind, dictionary, nested, by_layer_type):
    """How configs state a dictionary of RoPE: (name in the table, keys of the config)."""
    theta = {"rope_theta": dictionary["rope_theta"]} if "rope_theta" in dictionary else {}
    rest = {key: value for key, value in dictionary.items() if key != "rope_theta"}
    if by_layer_type:  # the classes do not read `type`, and olmo3's windows not rope_theta
        yield f"rope_scaling[{kind}]", {"rope_scaling": {"rope_type": kind} | rest}
    else:
        yield f"rope_scaling[{kind}]", theta | {"rope_scaling": {"type": kind} | rest}
    by_type = {FULL: {"rope_type": kind} | dictionary, LOCAL: {"rope_type": "default"}}
    if nested:
        yield f"rope_parameters.{FULL}[{kind}]", {"rope_parameters": by_type}
    else:
        yield f"rope_parameters[{kind}]", {"rope_parameters": {"rope_type": kind} | dictionary}


def rope_cases(family):
    if "rope_parameters" not in declared(family):
        return
    base = base_config(family)
    yield Case("rope_parameters", {}, base | {"rope_parameters": {}})
    yield Case("rope_scaling", {}, base | {"rope_scaling": {}})
    yield Case("rope_scaling", None, base | {"rope_scaling": None, "rope_theta": 5000.0})
    yield Case("rope_parameters", "both", base | {
        "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0},
        "rope_scaling": {"type": "linear", "factor": 2.0}})  # fmt: skip
    yield Case("rope_parameters", "beside rope_theta", base | {
        "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0},
        "rope_theta": 7000.0})  # fmt: skip
    usual = has_layer_types_rope(family)
    others = sorted(set(ROPE_INIT_FUNCTIONS) - set(KINDS)) + ["su", "ntk"]
    for kind in [*KINDS, *others]:
        needed = KINDS.get("longrope" if kind == "su" else kind, {"factor": 2.0})
        based = needed | {"rope_theta": 5000.0}
        for nested in (usual, not usual):
            for name, keys in rope_spellings(kind, based, nested, usual):
                yield Case(name, "as usual", base | keys)
        if usual:
            yield Case(f"rope_scaling[{kind}]", "called type, beside rope_theta", base | {
                "rope_theta": 5000.0, "rope_scaling": {"type": kind} | needed})  # fmt: skip
        for name, keys in rope_spellings(kind, based, usual, usual):
            part = {"partial_rotary_factor": 0.5}
            yield Case(f"partial_rotary_factor beside {name}", 0.5, base | keys | part)
        if kind in others or family not in EVERY_ROPE_KEY:
            continue
        for name, keys in rope_spellings(kind, needed, usual, usual):
            yield Case(f"{name}.rope_theta", ABSENT, base | keys)
        for key in RopeParameters.__annotations__:
            values = [None] + ROPE_VALUES.get(key, [1, 0.5, True])
            for value in values + ([ABSENT] if key in needed else []):
                for name, keys in rope_spellings(kind, changed(based, key, value), usual, usual):
                    yield Case(f"{name}.{key}", value, base | keys)
        both = needed | {"mscale": 1.2, "mscale_all_dim": 0.7}
        for name, keys in rope_spellings(kind, both, usual, usual):
            yield Case(f"{name}.mscale", "with mscale_all_dim", base | keys)
        for key, value in (("partial_rotary_factor", None),
                           ("original_max_position_embeddings", 48),
                           ("rope_local_base_freq", 3000.0)):  # fmt: skip
            for name, keys in rope_spellings(kind, based, usual, usual):
                yield Case(f"{key} beside {name}", value, base | keys | {key: value})


def release_cases(family):
    """Files of other releases without the base of RoPE: transformers 5 takes its own default."""
    if "rope_parameters" in declared(family):
        for release in RELEASES:
            config = base_config(family) | {"transformers_version": release}
            yield Case("rope_theta", f"absent in a file of transformers {release}", config)


def cases_of(family, families):
    yield Case("small config", "as it is", base_config(family))
    yield from release_cases(family)
    yield from field_cases(family)
    yield from foreign_cases(family, families)
    yield from rope_cases(family)
