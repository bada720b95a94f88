// Configs for tests of specs: a valid config, with some keys changed or removed.
#ifndef LONGSTREAM_TESTS_BACKENDS_ARCHITECTURES_CONFIG_EDIT_H_
#define LONGSTREAM_TESTS_BACKENDS_ARCHITECTURES_CONFIG_EDIT_H_

#include <string>
#include <string_view>

#include "backends/checkpoint/config.h"

namespace longstream {

// A small llama config. No key has its default value.
inline constexpr std::string_view kLlama = R"({
    "model_type": "llama", "vocab_size": 61, "hidden_size": 24, "intermediate_size": 40,
    "num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 8,
    "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "max_position_embeddings": 640,
    "tie_word_embeddings": true})";

// The object `base` with the keys of `changes`. The value "<absent>" removes a key. Errors call the
// file m/config.json.
Config Edited(std::string_view base, std::string_view changes);

// The same as text.
std::string EditedText(std::string_view base, std::string_view changes);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BACKENDS_ARCHITECTURES_CONFIG_EDIT_H_
