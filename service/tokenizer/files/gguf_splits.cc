// The patterns are those of the tokenizer.json files that the names stand for. llama.cpp writes
// some of them in another way, with the same matches, because its engine knows fewer constructs.
#include "service/tokenizer/files/gguf_splits.h"

#include <algorithm>

#include "absl/strings/str_join.h"

namespace longstream {
namespace {

// Words, up to three digits, punctuation, white space.
constexpr std::string_view kThreeDigits =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// The same with each digit alone.
constexpr std::string_view kOneDigit =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Words that end with lower case.
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kEachDigit = R"(\p{N})";
// GPT-2's pattern, which leaves white space at the end as a word of its own.
constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))";

const std::vector<GgufSplit>& Splits() {
  static const auto* const splits = new std::vector<GgufSplit>{
      {.name = "llama-bpe", .patterns = {kThreeDigits}, .ignore_merges = true, .add_bos = true},
      {.name = "llama3", .patterns = {kThreeDigits}, .ignore_merges = true, .add_bos = true},
      {.name = "llama-v3", .patterns = {kThreeDigits}, .ignore_merges = true, .add_bos = true},
      {.name = "smaug-bpe", .patterns = {kThreeDigits}},
      {.name = "dbrx", .patterns = {kThreeDigits}},
      {.name = "glm4", .patterns = {kThreeDigits}},
      {.name = "chatglm-bpe", .patterns = {kThreeDigits}},
      {.name = "qwen2", .patterns = {kOneDigit}, .nfc = true},
      {.name = "deepseek-r1-qwen", .patterns = {kOneDigit}},
      {.name = "tekken", .patterns = {kTekken}, .ignore_merges = true, .add_bos = true},
      {.name = "gpt-4o", .patterns = {kGpt4o}},
      // Of files that name no pattern. No tokenizer.json has these patterns; llama.cpp has them.
      {.name = "default",
       .patterns = {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
      {.name = "gpt-2", .gpt2 = true},
      {.name = "phi-2", .gpt2 = true},
      {.name = "olmo", .gpt2 = true},
      {.name = "mpt", .gpt2 = true},
      {.name = "exaone4", .gpt2 = true, .nfc = true},
      {.name = "smollm", .patterns = {kEachDigit}, .gpt2 = true},
      {.name = "starcoder", .patterns = {kEachDigit}, .gpt2 = true},
      {.name = "refact", .patterns = {kEachDigit}, .gpt2 = true},
      {.name = "command-r", .patterns = {kEachDigit}, .gpt2 = true, .nfc = true},
  };
  return *splits;
}

}  // namespace

const GgufSplit* FindGgufSplit(std::string_view name) {
  const std::vector<GgufSplit>& splits = Splits();
  const auto found = std::find_if(splits.begin(), splits.end(),
                                  [name](const GgufSplit& split) { return split.name == name; });
  return found == splits.end() ? nullptr : &*found;
}

std::vector<PreTokenizerStep> StepsOf(const GgufSplit& split) {
  std::vector<PreTokenizerStep> steps;
  for (const std::string_view pattern : split.patterns) {
    steps.emplace_back().pattern.text = pattern;
  }
  if (split.gpt2) steps.emplace_back().kind = PreTokenizerStep::Kind::kGpt2Split;
  return steps;
}

std::string GgufSplitNames() {
  return absl::StrJoin(Splits(), ", ",
                       [](std::string* out, const GgufSplit& split) { out->append(split.name); });
}

}  // namespace longstream
