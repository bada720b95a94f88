// Hashes the parts of byte-level BPE first, as in versions that had no other tokenizers, so that
// its fingerprints stay the same. Parts of other tokenizers follow.
#include "service/tokenizer/spec/spec_fingerprint.h"

#include <algorithm>
#include <cstring>

#include "service/tokenizer/spec/fingerprint.h"

namespace longstream {
namespace {

using StepKind = PreTokenizerStep::Kind;

bool HasStep(const TokenizerSpec& spec, StepKind kind) {
  return std::any_of(spec.pre_tokenizer.begin(), spec.pre_tokenizer.end(),
                     [kind](const PreTokenizerStep& step) { return step.kind == kind; });
}

bool IsNfc(const NormalizerStep& step) { return step.kind == NormalizerStep::Kind::kNfc; }

bool IsByteLevelBpe(const TokenizerSpec& spec) {
  return spec.model == TokenizerSpec::Model::kBpe && spec.byte_level && spec.decoder.byte_level &&
         spec.reserved.empty() && spec.merge_ranks.empty() && spec.symbols.empty() &&
         std::all_of(spec.normalizer.begin(), spec.normalizer.end(), IsNfc) &&
         !HasStep(spec, StepKind::kMetaspace);
}

void AddTokens(const std::vector<std::pair<std::string, int32_t>>& tokens,
               Fingerprint* fingerprint) {
  fingerprint->AddNumber(tokens.size());
  for (const auto& [text, id] : tokens) {
    fingerprint->AddText(text);
    fingerprint->AddNumber(static_cast<uint64_t>(id));
  }
}

void AddSplit(const PreTokenizerStep& step, Fingerprint* fingerprint) {
  fingerprint->AddText(step.pattern.text);
  fingerprint->AddNumber(step.pattern.literal);
  fingerprint->AddNumber(static_cast<uint64_t>(step.behavior));
  fingerprint->AddNumber(step.invert);
}

void AddByteLevelBpe(const TokenizerSpec& spec, Fingerprint* fingerprint) {
  fingerprint->AddText("bpe");
  AddTokens(spec.vocabulary, fingerprint);
  fingerprint->AddNumber(spec.merges.size());
  for (const auto& [left, right] : spec.merges) {
    fingerprint->AddText(left);
    fingerprint->AddText(right);
  }
  fingerprint->AddNumber(spec.added_tokens.size());
  for (const AddedToken& token : spec.added_tokens) {
    fingerprint->AddText(token.content);
    fingerprint->AddNumber(static_cast<uint64_t>(token.id));
    for (const bool flag :
         {token.special, token.single_word, token.lstrip, token.rstrip, token.normalized}) {
      fingerprint->AddNumber(flag);
    }
  }
  const auto is_split = [](const PreTokenizerStep& step) { return step.kind == StepKind::kSplit; };
  fingerprint->AddNumber(static_cast<uint64_t>(
      std::count_if(spec.pre_tokenizer.begin(), spec.pre_tokenizer.end(), is_split)));
  for (const PreTokenizerStep& step : spec.pre_tokenizer) {
    if (is_split(step)) AddSplit(step, fingerprint);
  }
  const bool nfc = std::any_of(spec.normalizer.begin(), spec.normalizer.end(), IsNfc);
  for (const bool flag : {spec.ignore_merges, nfc, HasStep(spec, StepKind::kPrefixSpace),
                          HasStep(spec, StepKind::kGpt2Split)}) {
    fingerprint->AddNumber(flag);
  }
}

uint64_t BitsOf(double value) {
  uint64_t bits;
  static_assert(sizeof(bits) == sizeof(value));
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

void AddModel(const TokenizerSpec& spec, Fingerprint* fingerprint) {
  fingerprint->AddNumber(static_cast<uint64_t>(spec.model));
  AddTokens(spec.reserved, fingerprint);
  for (const bool flag : {spec.byte_level, spec.byte_fallback, spec.unk_id.has_value(),
                          spec.fuse_unk, spec.single_precision}) {
    fingerprint->AddNumber(flag);
  }
  fingerprint->AddNumber(static_cast<uint64_t>(spec.unk_id.value_or(0)));
  fingerprint->AddNumber(spec.merge_ranks.size());
  for (const uint32_t rank : spec.merge_ranks) fingerprint->AddNumber(rank);
  fingerprint->AddNumber(spec.scores.size());
  for (const double score : spec.scores) fingerprint->AddNumber(BitsOf(score));
  fingerprint->AddNumber(BitsOf(spec.unk_score));
  fingerprint->AddNumber(spec.symbols.size());
  for (const std::string& symbol : spec.symbols) fingerprint->AddText(symbol);
}

void AddSteps(const TokenizerSpec& spec, Fingerprint* fingerprint) {
  fingerprint->AddNumber(spec.normalizer.size());
  for (const NormalizerStep& step : spec.normalizer) {
    fingerprint->AddNumber(static_cast<uint64_t>(step.kind));
    fingerprint->AddText(step.text);
    fingerprint->AddText(step.pattern.text);
    for (const bool flag : {step.pattern.literal, step.left, step.right}) {
      fingerprint->AddNumber(flag);
    }
    fingerprint->AddNumber(static_cast<uint64_t>(step.scheme));
    // Only then, so that the fingerprints of other tokenizers stay the same.
    if (step.to_emptied) fingerprint->AddNumber(1);
  }
  fingerprint->AddNumber(spec.pre_tokenizer.size());
  for (const PreTokenizerStep& step : spec.pre_tokenizer) {
    fingerprint->AddNumber(static_cast<uint64_t>(step.kind));
    AddSplit(step, fingerprint);
    fingerprint->AddText(step.mark);
    fingerprint->AddNumber(static_cast<uint64_t>(step.scheme));
    fingerprint->AddNumber(step.split);
  }
}

}  // namespace

uint64_t FingerprintOf(const TokenizerSpec& spec) {
  Fingerprint fingerprint;
  AddByteLevelBpe(spec, &fingerprint);
  if (!IsByteLevelBpe(spec)) {
    AddModel(spec, &fingerprint);
    AddSteps(spec, &fingerprint);
  }
  return fingerprint.value();
}

}  // namespace longstream
