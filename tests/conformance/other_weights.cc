// Copies a model and changes one bit.
#include "tests/conformance/other_weights.h"

#include <filesystem>
#include <fstream>
#include <optional>

namespace longstream::conformance {
namespace {

namespace fs = std::filesystem;

// Makes a copy of the model in which one bit of the weights is flipped: the lowest bit of a
// mantissa.
std::optional<std::string> ChangedCopy(const std::string& model, const fs::path& directory) {
  std::optional<fs::path> weights;
  for (const auto& entry : fs::directory_iterator(model)) {
    if (!entry.is_regular_file()) continue;
    const fs::path copy = directory / entry.path().filename();
    fs::copy_file(entry.path(), copy);
    const std::string name = copy.filename();
    if (name.starts_with("model") && name.ends_with(".safetensors")) weights = copy;
  }
  if (!weights.has_value()) return std::nullopt;
  fs::permissions(*weights, fs::perms::owner_write, fs::perm_options::add);
  std::fstream file(*weights, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-4, std::ios::end);
  const char byte = static_cast<char>(file.get() ^ 1);
  file.seekp(-4, std::ios::end);
  file.put(byte);
  return directory.string();
}

}  // namespace

OtherWeights::OtherWeights(const Target& target) : directory_(target.other_model) {
  if (!directory_.empty()) return;
  const auto changed = ChangedCopy(target.model, copy_.path());
  if (!changed.has_value()) {
    throw CheckNotApplicable{"no safetensors file to change and no other model given"};
  }
  directory_ = *changed;
}

}  // namespace longstream::conformance
