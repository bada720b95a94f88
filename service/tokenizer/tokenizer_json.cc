// Reads tokenizer.json, one function per top-level key.
#include "service/tokenizer/tokenizer_json.h"

#include <map>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "service/tokenizer/json_view.h"

namespace longstream {
namespace {

// Refuses options of the model that a byte-level vocabulary has no use for. unk_token, fuse_unk and
// byte_fallback are harmless: they apply to characters without a token, and every byte has one.
void CheckModelOptions(const JsonView& model) {
  const std::string type = model["type"].String("BPE");
  if (type != "BPE") model["type"].FailUnsupported(absl::StrCat("model type \"", type, "\""));
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!model[key].String("").empty()) model[key].FailUnsupported(absl::StrCat("a ", key));
  }
  if (model["dropout"].present()) model["dropout"].FailUnsupported("dropout");
}

// A merge is a pair, or in older files "left right".
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

void ReadModel(const JsonView& model, int vocab_size, TokenizerSpec* spec) {
  if (!model.present()) model.FailExpected("an object");
  CheckModelOptions(model);
  for (const auto& [text, id] : model["vocab"].Members()) {
    spec->vocabulary.emplace_back(text, id.Id(vocab_size));
  }
  if (spec->vocabulary.empty()) model["vocab"].FailExpected("a vocabulary");
  for (const JsonView& merge : model["merges"].Elements()) {
    // The first line of a merges.txt that found its way into the array.
    if (merge.is_string() && merge.String().starts_with("#version")) continue;
    spec->merges.push_back(ReadMerge(merge));
  }
  spec->ignore_merges = model["ignore_merges"].Bool(false);
}

void ReadAddedTokens(const JsonView& tokens, int vocab_size, TokenizerSpec* spec) {
  for (const JsonView& token : tokens.Elements()) {
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

// The steps of a normalizer, pre-tokenizer, decoder or post-processor: what stands in a Sequence,
// in order, sequences within sequences included; or the one step that it is.
void AppendSteps(const JsonView& part, std::string_view list_key, int depth,
                 std::vector<JsonView>* steps) {
  constexpr int kMaxDepth = 8;
  if (!part.present()) return;
  if (part["type"].String() != "Sequence") return steps->push_back(part);
  if (depth == kMaxDepth) return part.FailUnsupported("so deep a Sequence");
  for (const JsonView& inner : part[list_key].Elements()) {
    AppendSteps(inner, list_key, depth + 1, steps);
  }
}

std::vector<JsonView> Steps(const JsonView& part, std::string_view list_key) {
  std::vector<JsonView> steps;
  AppendSteps(part, list_key, 0, &steps);
  return steps;
}

void RefuseType(const JsonView& step, const char* what) {
  const JsonView type = step["type"];
  type.FailUnsupported(absl::StrCat(what, " \"", type.String(), "\""));
}

void ReadNormalizer(const JsonView& normalizer, TokenizerSpec* spec) {
  for (const JsonView& step : Steps(normalizer, "normalizers")) {
    if (step["type"].String() != "NFC") RefuseType(step, "normalizer");
    spec->nfc = true;
  }
}

SplitRule ReadSplit(const JsonView& split) {
  static const std::map<std::string, SplitBehavior, std::less<>> behaviors = {
      {"Isolated", SplitBehavior::kIsolated},
      {"Removed", SplitBehavior::kRemoved},
      {"Contiguous", SplitBehavior::kContiguous},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
  };
  SplitRule rule;
  rule.literal = split["pattern"]["String"].present();
  rule.pattern = split["pattern"][rule.literal ? "String" : "Regex"].String();
  rule.invert = split["invert"].Bool(false);
  const auto behavior = behaviors.find(split["behavior"].String());
  if (behavior == behaviors.end()) {
    split["behavior"].FailExpected(
        "Isolated, Removed, Contiguous, MergedWithPrevious or MergedWithNext");
  } else {
    rule.behavior = behavior->second;
  }
  return rule;
}

void ReadPreTokenizer(const JsonView& pre_tokenizer, TokenizerSpec* spec) {
  bool byte_level = false;
  for (const JsonView& step : Steps(pre_tokenizer, "pretokenizers")) {
    const std::string type = step["type"].String();
    if (byte_level) {
      RefuseType(step, "after ByteLevel a pre-tokenizer");
    } else if (type == "Split") {
      spec->splits.push_back(ReadSplit(step));
    } else if (type == "Digits") {
      const bool individual = step["individual_digits"].Bool(false);
      const auto behavior = individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous;
      spec->splits.push_back({"\\p{N}", false, behavior, false});
    } else if (type == "ByteLevel") {
      spec->add_prefix_space = step["add_prefix_space"].Bool(true);
      spec->gpt2_split = step["use_regex"].Bool(true);
      byte_level = true;
    } else {
      RefuseType(step, "pre-tokenizer");
    }
  }
  if (!byte_level) pre_tokenizer.FailUnsupported("a pre-tokenizer without ByteLevel");
}

void ReadDecoder(const JsonView& decoder) {
  const std::vector<JsonView> steps = Steps(decoder, "decoders");
  for (const JsonView& step : steps) {
    if (step["type"].String() != "ByteLevel") RefuseType(step, "decoder");
  }
  if (steps.size() != 1) decoder.FailUnsupported("a decoder that is not one ByteLevel");
}

// The ids that a template puts before the text. What it puts behind, an end token, would end the
// turn before it began; it has no place in a session.
void ReadTemplate(const JsonView& processor, int vocab_size, TokenizerSpec* spec) {
  for (const JsonView& piece : processor["single"].Elements()) {
    if (piece["Sequence"].present()) return;
    const std::string token = piece["SpecialToken"]["id"].String();
    for (const JsonView& id : processor["special_tokens"][token]["ids"].Elements()) {
      spec->sequence_prefix.push_back(id.Id(vocab_size));
    }
  }
}

void ReadPostProcessor(const JsonView& processor, int vocab_size, TokenizerSpec* spec) {
  for (const JsonView& step : Steps(processor, "processors")) {
    const std::string type = step["type"].String();
    if (type == "TemplateProcessing") {
      ReadTemplate(step, vocab_size, spec);
    } else if (type != "ByteLevel") {  // which only moves offsets, and offsets are not kept
      RefuseType(step, "post-processor");
    }
  }
}

}  // namespace

// truncation and padding shape training batches and are not read.
absl::StatusOr<TokenizerSpec> ReadTokenizerJson(const std::filesystem::path& path, int vocab_size) {
  absl::StatusOr<JsonFile> file = JsonFile::Read(path);
  if (!file.ok()) return file.status();
  const JsonView root(*file);
  TokenizerSpec spec;
  if (root["version"].String("1.0") != "1.0") root["version"].FailExpected("\"1.0\"");
  ReadModel(root["model"], vocab_size, &spec);
  ReadAddedTokens(root["added_tokens"], vocab_size, &spec);
  ReadNormalizer(root["normalizer"], &spec);
  ReadPreTokenizer(root["pre_tokenizer"], &spec);
  ReadDecoder(root["decoder"]);
  ReadPostProcessor(root["post_processor"], vocab_size, &spec);
  if (!file->status().ok()) return file->status();
  return spec;
}

}  // namespace longstream
