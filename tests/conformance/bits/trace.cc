// Writes results as text that keeps every bit.
#include "tests/conformance/bits/trace.h"

#include <bit>
#include <cinttypes>
#include <cstdio>

namespace longstream::conformance {
namespace {

// Returns the FNV-1a hash of the data. A change of any single byte changes the hash.
uint64_t Digest(const void* data, size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  uint64_t digest = 0xcbf29ce484222325u;
  for (size_t i = 0; i < size; ++i) digest = (digest ^ bytes[i]) * 0x100000001b3u;
  return digest;
}

std::string Hexadecimal(uint64_t number, int digits) {
  char text[20];
  std::snprintf(text, sizeof(text), "%0*" PRIx64, digits, number);
  return text;
}

std::string Bits(float number) { return Hexadecimal(std::bit_cast<uint32_t>(number), 8); }

std::string Word(const char* name, uint64_t number) {
  return std::string(" ") + name + " " + std::to_string(number);
}

}  // namespace

void Trace::AddInfo(const ls_model_info& info) {
  text_ += std::string("model ") + info.architecture + " kernels " + info.kernels +
           Word("vocabulary", info.vocabulary_size) + Word("parameters", info.num_parameters) +
           Word("context", info.context_limit) + Word("grid", info.prefill_grid) +
           Word("page", info.page_tokens) + Word("kv", info.kv_bytes_per_token) +
           Word("window", info.window_bytes_per_sequence) +
           Word("state", info.state_bytes_per_sequence) +
           Word("checkpoint", info.checkpoint_bytes_per_sequence) + " fingerprint " +
           Hexadecimal(info.fingerprint, 16) + "\n";
  for (uint32_t i = 0; i < info.num_layers; ++i) {
    const ls_layer_info& layer = info.layers[i];
    text_ += "layer" + Word("kind", static_cast<uint64_t>(layer.kind)) + " position " +
             layer.position + Word("window", layer.window) +
             Word("bytes_per_token", layer.bytes_per_token) + Word("fixed", layer.bytes_fixed) +
             "\n";
  }
}

void Trace::AddOutput(const std::string& label, const Output& output) {
  text_ += label + " sampled " + std::to_string(output.sampled);
  const size_t rows = output.log_probs.size();
  const size_t num_top = rows > 0 ? output.top.size() / rows : 0;
  for (size_t row = 0; row < rows; ++row) {
    text_ += " log_prob " + Bits(output.log_probs[row]) + " top";
    for (const ls_top_token& top : std::span(output.top).subspan(row * num_top, num_top)) {
      text_ += " " + std::to_string(top.token) + ":" + Bits(top.log_prob);
    }
  }
  if (!output.logits.empty()) {
    text_ += Word("logits", output.logits.size()) + " digest " +
             Hexadecimal(Digest(output.logits.data(), output.logits.size() * sizeof(float)), 16);
  }
  text_ += "\n";
}

void Trace::AddBytes(const std::string& label, const Sequence& sequence) {
  const ls_sequence_bytes bytes = sequence.Bytes();
  text_ += label + Word("position", sequence.position()) + Word("kv", bytes.kv) +
           Word("window", bytes.window) + Word("state", bytes.state) +
           Word("checkpoint", bytes.checkpoint) + "\n";
}

void Trace::AddSnapshot(const std::string& label, const std::string& snapshot) {
  text_ += label + Word("bytes", snapshot.size()) + " digest " +
           Hexadecimal(Digest(snapshot.data(), snapshot.size()), 16) + "\n";
}

void Trace::AddNumber(const std::string& label, uint64_t number) {
  text_ += label + " " + std::to_string(number) + "\n";
}

}  // namespace longstream::conformance
