// Reads the steps in tokenizer.json. There is a function for each kind of step.
#include "service/tokenizer/files/tokenizer_json_steps.h"

#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace longstream {
namespace {

// Appends the steps of a Sequence in order, including those of nested sequences. If `part` is a
// single step, appends it.
void AppendSteps(const JsonView& part, std::string_view list_key, int depth,
                 std::vector<JsonView>* steps) {
  constexpr int kMaxDepth = 8;
  if (!part.present()) return;
  if (part["type"].String() != "Sequence") return steps->push_back(part);
  if (depth == kMaxDepth) return part.FailUnsupported("a Sequence that is nested so deeply");
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

PatternSpec ReadPattern(const JsonView& pattern) {
  PatternSpec spec;
  spec.literal = pattern["String"].present();
  const JsonView text = pattern[spec.literal ? "String" : "Regex"];
  spec.text = text.String();
  if (spec.text.empty()) text.FailExpected("a pattern that is not empty");
  return spec;
}

std::string ReadCharsmap(const JsonView& map) {
  // null means a map without rules.
  const std::string encoded = map.String("");
  std::string blob;
  if (!absl::Base64Unescape(encoded, &blob)) map.FailExpected("base64");
  return blob;
}

// Reads the mark of Metaspace, which is one character.
std::string ReadMark(const JsonView& step) {
  std::string mark = step["replacement"].String();
  if (mark.empty()) step["replacement"].FailExpected("a character");
  return mark;
}

PrependScheme ReadScheme(const JsonView& step) {
  static const std::map<std::string, PrependScheme, std::less<>> schemes = {
      {"first", PrependScheme::kFirst},
      {"always", PrependScheme::kAlways},
      {"never", PrependScheme::kNever},
  };
  // Older files have the key add_prefix_space instead of prepend_scheme.
  if (!step["add_prefix_space"].Bool(true)) return PrependScheme::kNever;
  const auto scheme = schemes.find(step["prepend_scheme"].String("always"));
  if (scheme != schemes.end()) return scheme->second;
  step["prepend_scheme"].FailExpected("first, always or never");
  return PrependScheme::kNever;
}

PreTokenizerStep ReadSplit(const JsonView& split) {
  static const std::map<std::string, SplitBehavior, std::less<>> behaviors = {
      {"Isolated", SplitBehavior::kIsolated},
      {"Removed", SplitBehavior::kRemoved},
      {"Contiguous", SplitBehavior::kContiguous},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
  };
  PreTokenizerStep step;
  step.pattern = ReadPattern(split["pattern"]);
  step.invert = split["invert"].Bool(false);
  const auto behavior = behaviors.find(split["behavior"].String());
  if (behavior == behaviors.end()) {
    split["behavior"].FailExpected(
        "Isolated, Removed, Contiguous, MergedWithPrevious or MergedWithNext");
  } else {
    step.behavior = behavior->second;
  }
  return step;
}

PreTokenizerStep StepOf(PreTokenizerStep::Kind kind) {
  PreTokenizerStep step;
  step.kind = kind;
  return step;
}

PreTokenizerStep SplitAt(const char* regex, SplitBehavior behavior) {
  PreTokenizerStep step;
  step.pattern.text = regex;
  step.behavior = behavior;
  return step;
}

PreTokenizerStep ReadMetaspace(const JsonView& metaspace) {
  PreTokenizerStep step = StepOf(PreTokenizerStep::Kind::kMetaspace);
  step.mark = ReadMark(metaspace);
  step.scheme = ReadScheme(metaspace);
  step.split = metaspace["split"].Bool(true);
  return step;
}

void ReadByteLevel(const JsonView& step, TokenizerSpec* spec) {
  using Kind = PreTokenizerStep::Kind;
  if (step["add_prefix_space"].Bool(true)) {
    spec->pre_tokenizer.push_back(StepOf(Kind::kPrefixSpace));
  }
  if (step["use_regex"].Bool(true)) spec->pre_tokenizer.push_back(StepOf(Kind::kGpt2Split));
  spec->byte_level = true;
}

// The steps of a decoder of characters must come in this order.
enum DecoderStage { kReplacements, kBytes, kFused, kStripped };

void ReadStrip(const JsonView& strip, DecoderStage stage, DecoderSpec* decoder) {
  if (strip["content"].String() != " ") strip["content"].FailExpected("\" \"");
  if (strip["stop"].Size() != 0) strip["stop"].FailUnsupported("stripping at the end");
  if (stage != kFused) strip.FailUnsupported("a Strip that does not follow Fuse");
  decoder->strip_spaces = strip["start"].Size();
}

// Reads a step that comes after a step of the stage `stage`. Returns the stage of this step.
DecoderStage ReadDecoderStep(const JsonView& step, DecoderStage stage, DecoderSpec* decoder) {
  const std::string type = step["type"].String();
  if (type == "Replace" && stage == kReplacements) {
    const PatternSpec pattern = ReadPattern(step["pattern"]);
    if (!pattern.literal) step["pattern"].FailUnsupported("a regular expression in a decoder");
    decoder->replacements.emplace_back(pattern.text, step["content"].String());
    return kReplacements;
  }
  if (type == "Metaspace" && stage == kReplacements) {
    const std::string mark = ReadMark(step);
    if (ReadScheme(step) != PrependScheme::kNever) decoder->first_drops = mark;
    decoder->replacements.emplace_back(mark, " ");
    return kReplacements;
  }
  if (type == "ByteFallback" && stage == kReplacements) {
    decoder->byte_fallback = true;
    return kBytes;
  }
  if (type == "Fuse" && stage < kFused) return kFused;
  if (type == "Strip") {
    ReadStrip(step, stage, decoder);
    return kStripped;
  }
  RefuseType(step, "at this place a decoder");
  return stage;
}

// Reads the ids that a template puts before the text. Does not read the ids that it puts after the
// text, because an end token there would end the turn before it began.
void ReadTemplate(const JsonView& processor, int vocab_size, TokenizerSpec* spec) {
  for (const JsonView& piece : processor["single"].Elements()) {
    if (piece["Sequence"].present()) return;
    const std::string token = piece["SpecialToken"]["id"].String();
    const JsonView ids = processor["special_tokens"][token]["ids"];
    if (!ids.present()) ids.FailExpected("the ids of a token in front of a text");
    for (const JsonView& id : ids.Elements()) {
      spec->sequence_prefix.push_back(id.Id(vocab_size));
    }
  }
}

}  // namespace

void ReadNormalizer(const JsonView& normalizer, TokenizerSpec* spec) {
  using Kind = NormalizerStep::Kind;
  static const std::map<std::string, Kind, std::less<>> forms = {
      {"NFC", Kind::kNfc}, {"NFD", Kind::kNfd}, {"NFKC", Kind::kNfkc}, {"NFKD", Kind::kNfkd}};
  for (const JsonView& part : Steps(normalizer, "normalizers")) {
    const std::string type = part["type"].String();
    NormalizerStep step;
    if (const auto form = forms.find(type); form != forms.end()) {
      step.kind = form->second;
    } else if (type == "Prepend") {
      step.kind = Kind::kPrepend;
      step.text = part["prepend"].String();
    } else if (type == "Replace") {
      step.kind = Kind::kReplace;
      step.pattern = ReadPattern(part["pattern"]);
      step.text = part["content"].String();
    } else if (type == "Strip") {
      step.kind = Kind::kStrip;
      step.left = part["strip_left"].Bool(true);
      step.right = part["strip_right"].Bool(true);
    } else if (type == "Precompiled") {
      step.kind = Kind::kCharsmap;
      step.text = ReadCharsmap(part["precompiled_charsmap"]);
    } else {
      RefuseType(part, "normalizer");
    }
    spec->normalizer.push_back(std::move(step));
  }
}

void ReadPreTokenizer(const JsonView& pre_tokenizer, TokenizerSpec* spec) {
  for (const JsonView& part : Steps(pre_tokenizer, "pretokenizers")) {
    const std::string type = part["type"].String();
    std::vector<PreTokenizerStep>& steps = spec->pre_tokenizer;
    if (spec->byte_level) {
      RefuseType(part, "after ByteLevel a pre-tokenizer");
    } else if (type == "Split") {
      steps.push_back(ReadSplit(part));
    } else if (type == "Digits") {
      const bool individual = part["individual_digits"].Bool(false);
      steps.push_back(
          SplitAt("\\p{N}", individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous));
    } else if (type == "WhitespaceSplit") {
      steps.push_back(SplitAt("\\s+", SplitBehavior::kRemoved));
    } else if (type == "Metaspace") {
      steps.push_back(ReadMetaspace(part));
    } else if (type == "ByteLevel") {
      ReadByteLevel(part, spec);
    } else {
      RefuseType(part, "pre-tokenizer");
    }
  }
}

void ReadDecoder(const JsonView& decoder, TokenizerSpec* spec) {
  const std::vector<JsonView> steps = Steps(decoder, "decoders");
  const bool is_byte_level = steps.size() == 1 && steps[0]["type"].String() == "ByteLevel";
  if (is_byte_level != spec->byte_level) {
    return decoder.FailUnsupported(spec->byte_level
                                       ? "a decoder that is not one ByteLevel"
                                       : "a decoder ByteLevel without the pre-tokenizer");
  }
  spec->decoder.byte_level = is_byte_level;
  if (is_byte_level) return;
  if (steps.empty()) return decoder.FailUnsupported("a tokenizer without a decoder");
  DecoderStage stage = kReplacements;
  for (const JsonView& step : steps) stage = ReadDecoderStep(step, stage, &spec->decoder);
}

void ReadPostProcessor(const JsonView& processor, int vocab_size, TokenizerSpec* spec) {
  for (const JsonView& step : Steps(processor, "processors")) {
    const std::string type = step["type"].String();
    if (type == "TemplateProcessing") {
      ReadTemplate(step, vocab_size, spec);
    } else if (type != "ByteLevel") {  // ByteLevel only changes offsets, which we do not keep
      RefuseType(step, "post-processor");
    }
  }
}

}  // namespace longstream
