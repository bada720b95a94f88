// Lists of keys of Hugging Face configs.
#include "backends/checkpoint/harmless_keys.h"

#include <algorithm>
#include <iterator>

namespace longstream {
namespace {

// Sorted, for binary search.
constexpr std::string_view kHarmless[] = {
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_flash_attn_2_enabled",
    "_name_or_path",
    "architectures",
    "attention_dropout",
    "attn_implementation",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "cache_implementation",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "embd_pdrop",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "hidden_dropout",
    "id2label",
    "initializer_range",
    "is_decoder",
    "is_llama_config",
    "is_qwen2_config",
    "label2id",
    "length_penalty",
    "loss_type",
    "max_length",
    "min_length",
    "model_type",
    "neftune_noise_alpha",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "pad_token_id",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "remove_invalid_values",
    "repetition_penalty",
    "resid_pdrop",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "training_length",
    "transformers.js_config",
    "transformers_version",
    "typical_p",
    "unk_token_id",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
};

constexpr std::string_view kHarmlessIfOff[] = {
    "add_cross_attention", "is_encoder_decoder",  "pruned_heads",
    "rope_interleaved",    "tie_encoder_decoder", "use_mrope",
};

// Keys of other classes, of authors' code and of this project's own types.
constexpr std::string_view kMathematical[] = {
    "alibi",
    "attention_chunk_size",
    "attn_temperature_tuning",
    "block_type",
    "cross_attention_layers",
    "dim_model_base",
    "full_attn_mod",
    "full_position",
    "gau_expansion",
    "gau_key_dim",
    "hypenet_profile",
    "kv_lora_rank",
    "kv_sharing_modes",
    "layer_types",
    "layers_block_type",
    "leaky_rerope_factor",
    "lm_head_bias",
    "logn_scaling",
    "mixer_types",
    "mlp_bias",
    "mrope_section",
    "mup_enabled",
    "n_routed_experts",
    "num_experts",
    "num_full_layers",
    "num_kv_shared_layers",
    "num_local_experts",
    "parallel_attn",
    "per_layer_config",
    "q_lora_rank",
    "qk_layernorm",
    "qk_norm",
    "rerope_window",
    "rope",
    "scale_depth",
    "scale_emb",
    "sliding_window",
    "sparse_config",
    "use_alibi",
    "use_dynamic_ntk",
    "use_logn_attn",
    "use_parallel_residual",
    "use_qk_norm",
    "use_sliding_window",
};

static_assert(std::is_sorted(std::begin(kHarmless), std::end(kHarmless)));
static_assert(std::is_sorted(std::begin(kHarmlessIfOff), std::end(kHarmlessIfOff)));
static_assert(std::is_sorted(std::begin(kMathematical), std::end(kMathematical)));

template <size_t n>
bool Contains(const std::string_view (&sorted)[n], std::string_view key) {
  return std::binary_search(std::begin(sorted), std::end(sorted), key);
}

}  // namespace

bool IsHarmlessKey(std::string_view key) { return Contains(kHarmless, key); }

bool IsHarmlessIfOff(std::string_view key) { return Contains(kHarmlessIfOff, key); }

bool ChangesMathematics(std::string_view key) {
  return Contains(kMathematical, key) || IsHarmlessIfOff(key);
}

}  // namespace longstream
