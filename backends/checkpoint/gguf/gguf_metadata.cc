// Reads the metadata that describes a model's architecture.
#include "backends/checkpoint/gguf/gguf_metadata.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "backends/errors/error.h"
#include "backends/errors/quote.h"

namespace longstream {
namespace {

constexpr uint64_t kMostLayers = 1 << 12;

std::string ArchitectureOf(const GgufModel& model) {
  const GgufValue* const value = model.Find("general.architecture");
  const std::optional<std::string_view> name = value != nullptr ? value->String() : std::nullopt;
  if (name && !name->empty()) return std::string(*name);
  throw BackendError(LS_INVALID_ARGUMENT, model.path() +
                                              ": general.architecture must be a string, found " +
                                              (value != nullptr ? value->Found() : "nothing"));
}

}  // namespace

GgufMetadata::GgufMetadata(const GgufModel& model)
    : model_(model), architecture_(ArchitectureOf(model)) {}

bool GgufMetadata::Has(std::string_view key) { return Find(key) != nullptr; }

const GgufValue* GgufMetadata::Find(std::string_view key) {
  asked_.emplace(key);
  return model_.Find(architecture_ + "." + std::string(key));
}

std::optional<int64_t> GgufMetadata::FindInteger(std::string_view key) {
  const GgufValue* const value = Find(key);
  if (value == nullptr) return std::nullopt;
  std::optional<int64_t> number = value->Integer();
  if (value->is_array) {
    const std::optional<std::vector<int64_t>> numbers = value->Integers(kMostLayers);
    if (numbers && !numbers->empty()) {
      const bool same = std::all_of(numbers->begin(), numbers->end(),
                                    [&](int64_t other) { return other == numbers->front(); });
      if (!same) Unsupported(key, "must be the same number for all layers, found several");
      number = numbers->front();
    }
  }
  if (!number || *number < 0) Invalid(key, "must be an integer from 0 on, found " + value->Found());
  return number;
}

int64_t GgufMetadata::Integer(std::string_view key) {
  const std::optional<int64_t> number = FindInteger(key);
  if (!number) Invalid(key, "is missing, expected an integer");
  return *number;
}

std::optional<std::string> GgufMetadata::FindNumber(std::string_view key) {
  const GgufValue* const value = Find(key);
  if (value == nullptr) return std::nullopt;
  std::optional<std::string> text = value->NumberText();
  if (!text) Invalid(key, "must be a finite number, found " + value->Found());
  return text;
}

std::string GgufMetadata::Number(std::string_view key) {
  std::optional<std::string> text = FindNumber(key);
  if (!text) Invalid(key, "is missing, expected a number");
  return *std::move(text);
}

std::optional<std::string> GgufMetadata::FindString(std::string_view key) {
  const GgufValue* const value = Find(key);
  if (value == nullptr) return std::nullopt;
  const std::optional<std::string_view> text = value->String();
  if (!text) Invalid(key, "must be a string, found " + value->Found());
  return std::string(*text);
}

void GgufMetadata::RequireNumber(std::string_view key, double usual) {
  const GgufValue* const value = Find(key);
  if (value == nullptr || value->Number() == usual) return;
  std::string text = std::to_string(static_cast<int64_t>(usual));
  Unsupported(key, "must be " + text + ", found " + value->Found());
}

void GgufMetadata::RequireBool(std::string_view key, bool usual) {
  const GgufValue* const value = Find(key);
  if (value == nullptr || value->Bool() == usual) return;
  Unsupported(key,
              std::string("must be ") + (usual ? "true" : "false") + ", found " + value->Found());
}

void GgufMetadata::RefuseUnread(std::initializer_list<std::string_view> harmless) const {
  const std::string prefix = architecture_ + ".";
  const auto& metadata = model_.metadata();
  for (auto it = metadata.lower_bound(prefix); it != metadata.end(); ++it) {
    if (!it->first.starts_with(prefix)) break;
    const std::string_view key = std::string_view(it->first).substr(prefix.size());
    if (asked_.contains(key)) continue;
    if (std::find(harmless.begin(), harmless.end(), key) != harmless.end()) continue;
    Unsupported(Shortened(key), "= " + it->second.Found() +
                                    " is not read for this architecture, and it may change the "
                                    "mathematics");
  }
}

std::string GgufMetadata::Sentence(std::string_view key, const std::string& problem) const {
  return model_.path() + ": " + Shortened(architecture_) + "." + std::string(key) + " " + problem;
}

void GgufMetadata::Invalid(std::string_view key, const std::string& problem) const {
  throw BackendError(LS_INVALID_ARGUMENT, Sentence(key, problem));
}

void GgufMetadata::Unsupported(std::string_view key, const std::string& problem) const {
  throw BackendError(LS_UNIMPLEMENTED, Sentence(key, problem));
}

}  // namespace longstream
