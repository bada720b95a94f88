// Keys of Hugging Face configs that do not change what a decoder computes.
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

static_assert(std::is_sorted(std::begin(kHarmless), std::end(kHarmless)));
static_assert(std::is_sorted(std::begin(kHarmlessIfOff), std::end(kHarmlessIfOff)));

}  // namespace

bool IsHarmlessKey(std::string_view key) {
  return std::binary_search(std::begin(kHarmless), std::end(kHarmless), key);
}

bool IsHarmlessIfOff(std::string_view key) {
  return std::binary_search(std::begin(kHarmlessIfOff), std::end(kHarmlessIfOff), key);
}

}  // namespace longstream
