// Computes the logits of checkpoints. tools/golden/config_parity.py compares them with those of
// transformers.
//
// Reads one directory per line of the standard input. Each holds a checkpoint and tokens.i32, the
// ids of a text. Writes the logits of every token to logits.f32 there, [tokens, vocabulary], with
// f32 weights and caches. Answers with one line: "logits" or "refused", then the refusal and the
// warnings, with a tab before each.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/api/plugin.h"
#include "backends/runtime/model.h"
#include "kernels/cpu/cpu_ops.h"
#include "tests/backends/golden/golden_case.h"
#include "tests/backends/runtime/model_driver.h"

namespace longstream {
namespace {

constexpr uint32_t kLongestText = 8192;

std::vector<int32_t> ReadTokens(const std::string& path) {
  std::vector<int32_t> tokens(std::filesystem::file_size(path) / sizeof(int32_t));
  std::ifstream in(path, std::ios::binary);
  in.read(reinterpret_cast<char*>(tokens.data()),
          static_cast<std::streamsize>(tokens.size() * sizeof(int32_t)));
  if (!in || tokens.empty()) throw std::runtime_error(path + " cannot be read");
  return tokens;
}

void WriteLogits(const std::string& path, const std::vector<float>& logits) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(logits.data()),
            static_cast<std::streamsize>(logits.size() * sizeof(float)));
  if (!out.flush()) throw std::runtime_error(path + " cannot be written");
}

// Sentences contain neither line ends nor tabs.
std::string Answer(const std::string& directory) {
  std::vector<std::string> warnings;
  ls_host host{};
  host.struct_size = sizeof(host);
  host.context = &warnings;
  host.num_threads = 1;
  host.log = [](void* context, int32_t severity, const char* text) {
    if (severity >= 2) static_cast<std::vector<std::string>*>(context)->emplace_back(text);
  };
  ls_model_options options{};
  options.struct_size = sizeof(options);
  options.directory = directory.c_str();
  options.options = R"({"weights": "f32", "cache": "f32", "packed_cache": "off"})";
  options.max_batch_tokens = kLongestText;
  options.max_batch_sequences = 1;
  options.cache_bytes_budget = uint64_t{256} << 20;
  options.host = &host;
  std::string answer = "logits";
  try {
    const std::vector<int32_t> tokens = ReadTokens(directory + "/tokens.i32");
    const auto model = OpenModel(BestBackend(directory), options, DeviceOps());
    const auto sequence = CreateReserved(*model, tokens.size());
    WriteLogits(directory + "/logits.f32", Prefill(*model, *sequence, tokens));
  } catch (const Failure& failure) {
    answer = "refused\t" + failure.text;
  } catch (const std::exception& error) {
    answer = std::string("refused\t") + error.what();
  }
  for (const std::string& warning : warnings) answer += '\t' + warning;
  return answer;
}

}  // namespace
}  // namespace longstream

int main() {
  for (std::string directory; std::getline(std::cin, directory);) {
    std::cout << longstream::Answer(directory) << std::endl;
  }
}
