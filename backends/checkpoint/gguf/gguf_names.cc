// From the names of tensors in GGUF files to those in checkpoints of Hugging Face.
#include "backends/checkpoint/gguf/gguf_names.h"

#include <algorithm>

namespace longstream {
namespace {

constexpr std::string_view kLayer = "blk.";

constexpr GgufName kGlobal[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
};

constexpr GgufName kOfLayer[] = {
    {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
    {"attn_q_norm", "self_attn.q_norm"}, {"attn_k_norm", "self_attn.k_norm"},
    {"attn_output", "self_attn.o_proj"}, {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
};

std::string_view Find(std::span<const GgufName> names, std::string_view gguf) {
  const auto found = std::find_if(names.begin(), names.end(),
                                  [gguf](const GgufName& name) { return name.gguf == gguf; });
  return found == names.end() ? std::string_view() : found->hugging_face;
}

bool IsNumber(std::string_view text) {
  return !text.empty() && text.size() <= 5 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::optional<std::string> HuggingFaceName(std::string_view gguf, std::span<const GgufName> own) {
  const size_t dot = gguf.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string suffix(gguf.substr(dot));
  if (suffix != ".weight" && suffix != ".bias") return std::nullopt;
  std::string_view name = gguf.substr(0, dot);
  if (!name.starts_with(kLayer)) {
    const std::string_view global = Find(kGlobal, name);
    return global.empty() ? std::nullopt : std::optional(std::string(global) + suffix);
  }
  name.remove_prefix(kLayer.size());
  const size_t end = name.find('.');
  if (end == std::string_view::npos || !IsNumber(name.substr(0, end))) return std::nullopt;
  const std::string layer(name.substr(0, end));
  name.remove_prefix(end + 1);
  std::string_view of_layer = Find(own, name);
  if (of_layer.empty()) of_layer = Find(kOfLayer, name);
  if (of_layer.empty()) return std::nullopt;
  return "model.layers." + layer + "." + std::string(of_layer) + suffix;
}

}  // namespace longstream
