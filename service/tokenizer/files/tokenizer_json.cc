// Reads the model and the added tokens of tokenizer.json.
#include "service/tokenizer/files/tokenizer_json.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/tokenizer/files/json_view.h"
#include "service/tokenizer/files/tokenizer_json_steps.h"

namespace longstream {
namespace {

// Refuses options of a BPE model that none of the supported model families uses.
void CheckBpeOptions(const JsonView& model) {
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!model[key].String("").empty()) model[key].FailUnsupported(absl::StrCat("a ", key));
  }
  if (model["dropout"].present()) model["dropout"].FailUnsupported("dropout");
}

// A merge is a pair of texts. In older files it is one text "left right".
std::pair<std::string, std::string> ReadMerge(const JsonView& merge) {
  if (!merge.is_string()) {
    const std::vector<JsonView> pair = merge.Elements();
    if (pair.size() == 2) return {pair[0].String(), pair[1].String()};
    merge.FailExpected("a pair of tokens");
    return {};
  }
  const std::string text = merge.String();
  const size_t space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
    merge.FailExpected("two tokens with one space between");
    return {};
  }
  return {text.substr(0, space), text.substr(space + 1)};
}

// Reads unk_token, fuse_unk and byte_fallback, which decide about characters without a token. They
// do not matter if words are bytes, because every byte has a token.
void ReadUnknown(const JsonView& model, TokenizerSpec* spec) {
  spec->byte_fallback = model["byte_fallback"].Bool(false);
  spec->fuse_unk = model["fuse_unk"].Bool(false);
  if (spec->byte_level || !model["unk_token"].present()) return;
  const std::string unk = model["unk_token"].String();
  for (const auto& [text, id] : spec->vocabulary) {
    if (text == unk) spec->unk_id = id;
  }
  if (!spec->unk_id) model["unk_token"].FailExpected("a token of model.vocab");
}

void ReadBpe(const JsonView& model, int vocab_size, TokenizerSpec* spec) {
  CheckBpeOptions(model);
  for (const auto& [text, id] : model["vocab"].Members()) {
    spec->vocabulary.emplace_back(text, id.Id(vocab_size));
  }
  for (const JsonView& merge : model["merges"].Elements()) {
    // Some files have the first line of a merges.txt file in this array.
    if (merge.is_string() && merge.String().starts_with("#version")) continue;
    spec->merges.push_back(ReadMerge(merge));
  }
  spec->ignore_merges = model["ignore_merges"].Bool(false);
  ReadUnknown(model, spec);
}

void ReadUnigram(const JsonView& model, int vocab_size, TokenizerSpec* spec) {
  spec->model = TokenizerSpec::Model::kUnigram;
  if (spec->byte_level) model["type"].FailUnsupported("a Unigram model with ByteLevel");
  const std::vector<JsonView> pieces = model["vocab"].Elements();
  if (pieces.size() > static_cast<size_t>(vocab_size)) {
    model["vocab"].FailExpected(
        absl::StrCat("at most ", vocab_size, " tokens, the model's vocabulary"));
    return;
  }
  std::vector<std::pair<std::pair<std::string, int32_t>, double>> scored;
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::vector<JsonView> pair = pieces[i].Elements();
    if (pair.size() != 2) return pieces[i].FailExpected("a token and its score");
    scored.push_back({{pair[0].String(), static_cast<int32_t>(i)}, pair[1].Number()});
    least = std::min(least, scored.back().second);
  }
  std::sort(scored.begin(), scored.end());
  for (auto& [token, score] : scored) {
    spec->vocabulary.push_back(std::move(token));
    spec->scores.push_back(score);
  }
  constexpr double kUnknownPenalty = 10;
  spec->unk_score = least - kUnknownPenalty;
  spec->byte_fallback = model["byte_fallback"].Bool(false);
  spec->unk_id = model["unk_id"].Id(static_cast<int>(pieces.size()));
}

void ReadModel(const JsonView& model, int vocab_size, TokenizerSpec* spec) {
  if (!model.present()) model.FailExpected("an object");
  const std::string type = model["type"].String("BPE");
  if (type == "BPE") {
    ReadBpe(model, vocab_size, spec);
  } else if (type == "Unigram") {
    ReadUnigram(model, vocab_size, spec);
  } else {
    model["type"].FailUnsupported(absl::StrCat("model type \"", type, "\""));
  }
  if (spec->vocabulary.empty()) model["vocab"].FailExpected("a vocabulary");
}

// Ignores tokens beyond the model's vocabulary. Such a token belongs to another model with the same
// tokenizer (for example, it marks the place of an image), and is plain text to this model.
void ReadAddedTokens(const JsonView& tokens, int vocab_size, TokenizerSpec* spec) {
  for (const JsonView& token : tokens.Elements()) {
    if (token["id"].Size() >= static_cast<size_t>(vocab_size)) continue;
    AddedToken added;
    added.id = token["id"].Id(vocab_size);
    added.content = token["content"].String();
    added.special = token["special"].Bool(false);
    added.single_word = token["single_word"].Bool(false);
    added.lstrip = token["lstrip"].Bool(false);
    added.rstrip = token["rstrip"].Bool(false);
    added.normalized = token["normalized"].Bool(!added.special);
    if (!added.content.empty()) spec->added_tokens.push_back(std::move(added));
  }
}

}  // namespace

// Does not read `truncation` and `padding`, because they only concern training batches.
absl::StatusOr<TokenizerSpec> ReadTokenizerJson(const std::filesystem::path& path, int vocab_size) {
  absl::StatusOr<JsonFile> file = JsonFile::Read(path);
  if (!file.ok()) return file.status();
  const JsonView root(*file);
  TokenizerSpec spec;
  if (root["version"].String("1.0") != "1.0") root["version"].FailExpected("\"1.0\"");
  // Read the pre-tokenizer first, because it decides whether words are bytes.
  ReadPreTokenizer(root["pre_tokenizer"], &spec);
  ReadModel(root["model"], vocab_size, &spec);
  ReadAddedTokens(root["added_tokens"], vocab_size, &spec);
  ReadNormalizer(root["normalizer"], &spec);
  ReadDecoder(root["decoder"], &spec);
  ReadPostProcessor(root["post_processor"], vocab_size, &spec);
  if (!file->status().ok()) return file->status();
  return spec;
}

}  // namespace longstream
