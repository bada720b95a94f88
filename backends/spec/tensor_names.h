// The names of a decoder's tensors in a checkpoint.
#ifndef LONGSTREAM_BACKENDS_SPEC_TENSOR_NAMES_H_
#define LONGSTREAM_BACKENDS_SPEC_TENSOR_NAMES_H_

#include <span>
#include <string_view>

namespace longstream {

// The prefix of a decoder's tensor names in a checkpoint, and the full name of its head.
struct TensorRoot {
  std::string_view prefix;
  std::string_view head;
};
inline constexpr TensorRoot kUsualRoot[] = {{"model.", "lm_head"}};

// The names of a mixture of experts, below a layer's prefix. The defaults are Qwen's.
struct ExpertNames {
  std::string_view router = "mlp.gate";
  std::string_view choice_bias = "";  // the full name; "": none
  // Expert e has the tensors <experts>.<e>.<gate>, ... If `stacked`, all experts of a layer are
  // parts of tensors [E, rows, k] with the names gate, up and down. If gate and up have the same
  // name, they are one tensor: the rows of an expert's gate, then those of its up.
  std::string_view experts = "mlp.experts";
  std::string_view gate = "gate_proj";
  std::string_view up = "up_proj";
  std::string_view down = "down_proj";
  bool stacked = false;
  std::string_view shared_router = "mlp.shared_expert_gate";  // of SharedExpert::kGated
  std::string_view shared_gate = "mlp.shared_expert.gate_proj";
  std::string_view shared_up = "mlp.shared_expert.up_proj";
  std::string_view shared_down = "mlp.shared_expert.down_proj";
};

// Names without root and without ".weight" or ".bias"; names of a layer follow "<layers>.<index>.".
// The defaults are Llama's. If q, k and v (or gate and up) have the same name, they are one stored
// tensor: one part below the other in this order, or head by head.
struct TensorNames {
  // The roots that releases of the family use. The first root that has an embedding counts.
  std::span<const TensorRoot> roots = kUsualRoot;
  // Tensors with these prefixes belong to another model in the same checkpoint and are not read.
  std::span<const std::string_view> ignored{};

  std::string_view embedding = "embed_tokens";
  std::string_view embedding_norm = "";  // behind the embedding; "": none
  std::string_view final_norm = "norm";  // "": none
  std::string_view layers = "layers";

  std::string_view mixer_norm = "input_layernorm";  // before a branch; "": none
  std::string_view mixer_post_norm = "";            // behind a branch; "": none
  std::string_view q = "self_attn.q_proj";
  std::string_view k = "self_attn.k_proj";
  std::string_view v = "self_attn.v_proj";
  bool qkv_by_head = false;  // one tensor: q, k and v of head 0, then of head 1, ...
  std::string_view q_norm = "self_attn.q_norm";
  std::string_view k_norm = "self_attn.k_norm";
  std::string_view out = "self_attn.o_proj";
  std::string_view output_gate = "self_attn.o_gate";  // of attention
  std::string_view mlp_norm = "post_attention_layernorm";
  std::string_view mlp_post_norm = "";
  std::string_view gate = "mlp.gate_proj";
  std::string_view up =
      "mlp.up_proj";  // kGated only; the only input projection of a kPlain MLP is `gate`
  std::string_view down = "mlp.down_proj";
  ExpertNames experts{};
  std::string_view stream_norm = "";  // of the residual stream, behind a layer; "": none
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_SPEC_TENSOR_NAMES_H_
