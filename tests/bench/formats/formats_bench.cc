// Times what a response format costs: the compilation of a schema, the first mask at each place of
// a document, and the masks of later documents. The vocabulary is synthetic, of the size and shape
// of those of current models, or that of a model directory.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "service/grammar/matcher.h"
#include "service/grammar/response/compiled_formats.h"
#include "service/grammar/response/response_format.h"
#include "service/tokenizer/files/load_tokenizer.h"
#include "tests/bench/program/bench_program.h"

namespace longstream {
namespace {

constexpr const char* kSchema = R"({"type": "object", "required": ["id", "name", "tags", "items"],
  "properties": {
    "id": {"type": "integer"}, "name": {"type": "string"}, "email": {"type": "string"},
    "score": {"type": "number"}, "active": {"type": "boolean"},
    "tags": {"type": "array", "items": {"type": "string"}},
    "items": {"type": "array", "items": {"type": "object", "required": ["sku", "count"],
      "properties": {"sku": {"type": "string"}, "count": {"type": "integer", "minimum": 1}, "note": {"type": "string"}}}}}})";

constexpr const char* kDocument =
    R"({"id": 4711, "name": "Ada Lovelace", "email": "ada@example.org", "score": 0.75, )"
    R"("active": true, "tags": ["first", "of her kind"], "items": [{"sku": "A-17", "count": 3, )"
    R"("note": "handle with care"}, {"sku": "B-4", "count": 12}]})";

// Words with and without a space before them, punctuation as JSON and programs have it, numbers,
// Chinese characters, and all bytes.
class SyntheticTokens : public Tokenizer {
 public:
  SyntheticTokens() : SyntheticTokens(MakeTokens()) {}
  std::string_view kind() const override { return "synthetic"; }
  std::string_view TokenBytes(int32_t id) const override {
    return tokens_[static_cast<size_t>(id)];
  }
  bool IsSpecial(int32_t) const override { return false; }

 private:
  explicit SyntheticTokens(std::vector<std::string> tokens)
      : Tokenizer({.vocab_size = static_cast<int>(tokens.size())}), tokens_(std::move(tokens)) {}
  absl::StatusOr<std::vector<int32_t>> EncodeText(std::string_view, EncodeOptions) const override {
    return absl::UnimplementedError("only for decoding");
  }
  static std::vector<std::string> MakeTokens() {
    constexpr size_t kWords = 110'000, kSigns = 14'000, kCharacters = 25'000;
    std::mt19937_64 random(1);
    std::set<std::string> tokens;
    for (int byte = 0; byte < 256; ++byte) tokens.insert(std::string(1, static_cast<char>(byte)));
    for (int number = 0; number < 1000; ++number) tokens.insert(std::to_string(number));
    const std::string consonants = "bcdfghklmnprstvw", vowels = "aeiou",
                      signs = "\"{}[]:,. \n()=;-_/\\";
    while (tokens.size() < kWords) {
      std::string word = random() % 2 == 0 ? " " : "";
      for (uint64_t syllables = 1 + random() % 4; syllables > 0; --syllables) {
        word += consonants[random() % consonants.size()];
        word += vowels[random() % vowels.size()];
      }
      if (random() % 5 == 0) word[word[0] == ' ' ? 1 : 0] -= 32;
      tokens.insert(std::move(word));
    }
    while (tokens.size() < kWords + kSigns) {
      std::string token;
      for (uint64_t length = 2 + random() % 4; length > 0; --length) {
        token += signs[random() % signs.size()];
      }
      tokens.insert(std::move(token));
    }
    for (size_t i = 0; i < kCharacters; ++i) {
      const size_t c = 0x4e00 + i % 0x5000;
      tokens.insert({static_cast<char>(0xe0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 63)),
                     static_cast<char>(0x80 | (c & 63))});
    }
    return {tokens.begin(), tokens.end()};
  }

  const std::vector<std::string> tokens_;
};

double Milliseconds(absl::Time begin) { return absl::ToDoubleMilliseconds(absl::Now() - begin); }

// Prints the times of the masks behind each byte of the document.
void TimeMasks(const TokenMasks& masks, const char* name) {
  std::vector<uint32_t> mask(masks.words());
  std::vector<double> times;
  for (int round = 0; round < 3; ++round) {
    Matcher matcher(masks.grammar());
    times.clear();
    for (const char* byte = kDocument; *byte != '\0'; ++byte) {
      const absl::Time begin = absl::Now();
      if (!masks.Fill(matcher, absl::MakeSpan(mask)).ok()) std::printf("  a mask failed\n");
      times.push_back(Milliseconds(begin));
      if (!matcher.Push(static_cast<uint8_t>(*byte))) {
        std::printf("  the document does not fit\n");
        return;
      }
      matcher.Commit();
    }
    double sum = 0;
    for (const double time : times) sum += time;
    std::sort(times.begin(), times.end());
    std::printf(
        "%s, %s document: %zu masks, %.1f ms; median %.3f ms, 99 %% %.3f ms, longest %.3f ms\n",
        name, round == 0 ? "first" : "later", times.size(), sum, times[times.size() / 2],
        times[times.size() * 99 / 100], times.back());
  }
}

int Run(const std::string& directory, int vocabulary) {
  std::unique_ptr<Tokenizer> tokenizer = std::make_unique<SyntheticTokens>();
  if (!directory.empty()) tokenizer = Take(LoadTokenizer(directory, vocabulary));
  absl::Time begin = absl::Now();
  const TokenTrie trie(*tokenizer);
  std::printf("tree of %d tokens: %zu nodes, %.1f MB, %.1f ms\n", tokenizer->vocab_size(),
              trie.num_nodes(), static_cast<double>(trie.bytes()) / 1e6, Milliseconds(begin));
  CompiledFormats formats(*tokenizer);
  const std::pair<const char*, ResponseFormat> cases[] = {
      {"schema", {ResponseFormat::Kind::kJsonSchema, kSchema}},
      {"any object", {ResponseFormat::Kind::kJsonObject}},
  };
  for (const auto& [name, format] : cases) {
    begin = absl::Now();
    const Grammar grammar = Take(Compile(format));
    const double compiled = Milliseconds(begin);
    begin = absl::Now();
    const auto masks = Take(formats.Get(format));
    std::printf("%s: compiled in %.2f ms, %zu nodes, %zu bytes; with its sets of tokens %.1f ms\n",
                name, compiled, grammar.num_nodes(), grammar.bytes(), Milliseconds(begin));
    TimeMasks(*masks, name);
  }
  return 0;
}

}  // namespace
}  // namespace longstream

int main(int argc, char** argv) {
  CLI::App app("Times what a response format costs.");
  std::string directory;
  int vocabulary = 0;
  app.add_option("--tokenizer", directory, "a model directory; default: a synthetic vocabulary");
  app.add_option("--vocabulary", vocabulary, "the number of the model's logits");
  return longstream::RunProgram("formats_bench", app, argc, argv,
                                [&] { return longstream::Run(directory, vocabulary); });
}
