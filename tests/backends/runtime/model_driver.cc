// Steps of a Model for tests.
#include "tests/backends/runtime/model_driver.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/backends/caches/memory_stream.h"
#include "tests/backends/caches/segment_bytes.h"

namespace longstream {
namespace {

constexpr uint32_t kNumTop = 3;

// One decode row of each sequence.
uint64_t SubmitDecode(Model& model, std::span<ls_sequence* const> sequences,
                      std::span<const int32_t> tokens, const ls_sampling& sampling) {
  std::vector<ls_batch_entry> entries(sequences.size());
  for (size_t i = 0; i < sequences.size(); ++i) {
    entries[i].sequence = sequences[i];
    entries[i].tokens = &tokens[i];
    entries[i].num_tokens = entries[i].is_decode = 1;
    entries[i].sampling = &sampling;
    entries[i].log_prob_rows = LS_ROWS_LAST;
    entries[i].num_top = kNumTop;
  }
  return model.Submit({sizeof(ls_batch), entries.data(), static_cast<uint32_t>(entries.size())});
}

std::vector<Draw> WaitForDraws(Model& model, uint64_t ticket) {
  const ls_results results = model.Wait(ticket);
  std::vector<Draw> draws(results.num_results);
  for (uint32_t i = 0; i < results.num_results; ++i) {
    const ls_result& result = results.results[i];
    draws[i] = {result.code, result.message, result.sampled, {}, {}};
    if (result.num_log_prob_rows == 0) continue;
    draws[i].log_probs.push_back(result.log_probs[0]);
    for (uint32_t t = 0; t < kNumTop; ++t) {
      draws[i].log_probs.push_back(result.top[t].log_prob);
      draws[i].top.push_back(result.top[t].token);
    }
  }
  return draws;
}

}  // namespace

std::vector<PieceResult> Step(Model& model, const std::vector<Piece>& pieces) {
  std::vector<ls_batch_entry> entries;
  for (const Piece& piece : pieces) {
    ls_batch_entry entry{};
    entry.sequence = piece.sequence;
    entry.tokens = piece.tokens.data();
    entry.num_tokens = static_cast<uint32_t>(piece.tokens.size());
    entry.is_decode = piece.is_decode ? 1 : 0;
    entry.logit_rows = piece.logit_rows;
    entry.sampling = piece.sampling;
    entries.push_back(entry);
  }
  const ls_batch batch = {sizeof(ls_batch), entries.data(), static_cast<uint32_t>(entries.size())};
  const ls_results results = model.Wait(model.Submit(batch));
  std::vector<PieceResult> copies;
  for (uint32_t i = 0; i < results.num_results; ++i) {
    const ls_result& result = results.results[i];
    const size_t size = size_t{result.num_logit_rows} * model.info().vocabulary_size;
    copies.push_back({result.code, result.message, result.sampled,
                      std::vector<float>(result.logits, result.logits + size)});
  }
  return copies;
}

std::vector<float> Feed(Model& model, ls_sequence& sequence, std::span<const int32_t> tokens,
                        std::span<const size_t> lengths) {
  std::vector<float> logits;
  for (size_t i = 0; !tokens.empty(); ++i) {
    const size_t length = lengths[std::min(i, lengths.size() - 1)];
    const size_t count = std::min(std::max<size_t>(length, 1), tokens.size());
    const std::vector<PieceResult> results =
        Step(model, {{.sequence = &sequence,
                      .tokens = {tokens.begin(), tokens.begin() + static_cast<int64_t>(count)},
                      .is_decode = length == 0}});
    EXPECT_EQ(results[0].code, LS_OK) << results[0].message;
    logits.insert(logits.end(), results[0].logits.begin(), results[0].logits.end());
    tokens = tokens.subspan(count);
  }
  return logits;
}

std::vector<float> Prefill(Model& model, ls_sequence& sequence, std::span<const int32_t> tokens) {
  const size_t lengths[] = {tokens.size()};
  return Feed(model, sequence, tokens, lengths);
}

std::vector<float> Decode(Model& model, ls_sequence& sequence, std::span<const int32_t> tokens) {
  const size_t lengths[] = {0};
  return Feed(model, sequence, tokens, lengths);
}

std::vector<Draw> DecodeByHost(Model& model, ls_sequence& sequence, int32_t first, size_t steps,
                               const ls_sampling& sampling) {
  ls_sequence* const sequences[] = {&sequence};
  std::vector<Draw> draws;
  for (size_t step = 0; step < steps; ++step) {
    const int32_t token = step == 0 ? first : draws.back().token;
    const uint64_t ticket = SubmitDecode(model, sequences, std::span(&token, 1), sampling);
    draws.push_back(WaitForDraws(model, ticket)[0]);
  }
  return draws;
}

std::vector<std::vector<Draw>> DecodeAhead(Model& model, std::span<ls_sequence* const> sequences,
                                           std::span<const int32_t> first, size_t steps,
                                           const ls_sampling& sampling) {
  const std::vector<int32_t> previous(sequences.size(), LS_TOKEN_FROM_PREVIOUS);
  std::vector<std::vector<Draw>> draws(sequences.size());
  const auto wait = [&](uint64_t ticket) {
    const std::vector<Draw> drawn = WaitForDraws(model, ticket);
    for (size_t i = 0; i < drawn.size(); ++i) draws[i].push_back(drawn[i]);
  };
  uint64_t before = 0;
  for (size_t step = 0; step < steps; ++step) {
    const uint64_t ticket =
        SubmitDecode(model, sequences, step == 0 ? first : std::span(previous), sampling);
    if (step > 0) wait(before);
    before = ticket;
  }
  wait(before);
  return draws;
}

std::unique_ptr<ls_sequence> CreateReserved(Model& model, uint64_t tokens) {
  std::unique_ptr<ls_sequence> sequence = model.Create();
  model.Reserve(*sequence, tokens);
  return sequence;
}

std::string ExportBytes(const Model& model, const ls_sequence& sequence) {
  MemoryStream stream;
  model.Export(sequence, stream.writer());
  return stream.bytes();
}

std::string SegmentBytes(Model& model, ls_sequence& sequence) {
  const auto snapshot = model.BeginSnapshot(sequence, 0);
  const std::string span = ReadSegment(snapshot->caches, SegmentKind::kSpan);
  return span + ReadSegment(snapshot->caches, SegmentKind::kFixed);
}

std::unique_ptr<ls_sequence> ImportSegments(Model& model, uint64_t position,
                                            const std::string& bytes) {
  const auto import = model.BeginImport(position);
  import->caches.Write(std::as_bytes(std::span(bytes)));
  return model.Attach(*import);
}

std::vector<int32_t> RandomTokens(size_t count, int64_t vocabulary, uint32_t seed) {
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) {
    seed = seed * 1664525u + 1013904223u;
    token = static_cast<int32_t>((seed >> 8) % static_cast<uint32_t>(vocabulary));
  }
  return tokens;
}

ls_sampling WarmSampling() {
  ls_sampling sampling{};
  sampling.struct_size = sizeof(sampling);
  sampling.seed = 5;
  sampling.temperature = 1.5f;
  sampling.top_p = sampling.repetition_penalty = 1.0f;
  return sampling;
}

}  // namespace longstream
