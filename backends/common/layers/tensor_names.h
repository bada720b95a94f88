// What a checkpoint calls the tensors of a decoder.
#ifndef LONGSTREAM_BACKENDS_COMMON_LAYERS_TENSOR_NAMES_H_
#define LONGSTREAM_BACKENDS_COMMON_LAYERS_TENSOR_NAMES_H_

#include <string_view>

namespace longstream {

// Names without ".weight" or ".bias"; those of a layer follow "<layers>.<index>.". The defaults are
// Llama's. Where q, k and v, or gate and up, have one name, they are one stored tensor, one part
// below the other in this order.
struct TensorNames {
  std::string_view embedding = "model.embed_tokens";
  std::string_view final_norm = "model.norm";
  std::string_view head = "lm_head";
  std::string_view layers = "model.layers";

  std::string_view mixer_norm = "input_layernorm";  // before a branch; "": none
  std::string_view mixer_post_norm = "";            // behind it; "": none
  std::string_view q = "self_attn.q_proj";
  std::string_view k = "self_attn.k_proj";
  std::string_view v = "self_attn.v_proj";
  std::string_view q_norm = "self_attn.q_norm";
  std::string_view k_norm = "self_attn.k_norm";
  std::string_view out = "self_attn.o_proj";
  std::string_view mlp_norm = "post_attention_layernorm";
  std::string_view mlp_post_norm = "";
  std::string_view gate = "mlp.gate_proj";
  std::string_view up = "mlp.up_proj";
  std::string_view down = "mlp.down_proj";
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_COMMON_LAYERS_TENSOR_NAMES_H_
