// Sequences and steps of a model.
#include "backends/common/plugin/model.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "backends/api/plugin.h"
#include "backends/common/cache/snapshot.h"
#include "backends/common/error.h"
#include "backends/common/weights/config.h"
#include "backends/common/weights/load_options.h"
#include "backends/common/weights/load_weights.h"
#include "backends/common/weights/safetensors.h"

namespace longstream {
namespace {

// The budget holds a sequence of one token, with its reservation; the bytes of any reservation can
// be counted.
void CheckBudget(const CacheStore& caches, int64_t context_limit) {
  const CacheLayout& layout = caches.layout;
  const auto most_pages = static_cast<uint64_t>(PagesFor(context_limit)) + 1;
  Require(SaturatedBytes(most_pages, layout.page_bytes) < uint64_t{1} << 63, LS_INVALID_ARGUMENT,
          "context_limit: the keys and values of " + std::to_string(context_limit) +
              " tokens are more bytes than can be counted");
  const uint64_t needed =
      layout.ring_bytes + layout.state_bytes + layout.checkpoint_bytes + layout.page_bytes;
  Require(needed <= caches.budget.limit(), LS_INVALID_ARGUMENT,
          "cache_bytes_budget: one sequence needs " + std::to_string(needed) + " bytes, found " +
              std::to_string(caches.budget.limit()));
}

// What the decoder's ops do not serve is refused here, not in the first step.
void CheckServed(const ModelSpec& spec, const Config& config) {
  for (const MixerSpec& mixer : spec.layers) {
    if (mixer.recurrent() || mixer.head_dim <= kMaxHeadDim) continue;
    config.Unsupported("head_dim", "must be at most " + std::to_string(kMaxHeadDim) +
                                       " in attention layers, found " +
                                       std::to_string(mixer.head_dim));
  }
}

}  // namespace

Model::Model(ModelSpec spec, ModelWeights weights, DType cache_type, const OpTable& ops,
             const Executor& executor, const ModelLimits& limits, Device& device)
    : device_(device),
      spec_(std::move(spec)),
      weights_(std::move(weights)),
      limits_(limits),
      caches_(MakeCacheLayout(spec_, cache_type), limits.cache_bytes_budget, device),
      description_(spec_, weights_, caches_.layout, ops.name),
      batch_check_(limits.max_batch_sequences, limits.max_batch_tokens,
                   static_cast<int32_t>(spec_.vocabulary), kCapabilities),
      decoder_(spec_, weights_, caches_, ops, executor, limits.max_batch_tokens,
               limits.max_batch_sequences),
      rows_(limits.max_batch_tokens, limits.max_batch_sequences, spec_.chunk_size, device),
      outputs_(decoder_, ops, device, executor, spec_.vocabulary, limits.max_batch_tokens,
               limits.max_batch_sequences),
      results_{
          TicketResults(limits.max_batch_tokens, limits.max_batch_sequences, spec_.vocabulary),
          TicketResults(limits.max_batch_tokens, limits.max_batch_sequences, spec_.vocabulary)} {
  CheckBudget(caches_, spec_.context_limit);
  entered_.reserve(limits.max_batch_sequences);
}

ls_memory Model::memory() const {
  const Budget& budget = caches_.budget;
  ls_memory memory{};
  memory.weights = weights_.bytes;
  memory.pages = budget.held(CacheKind::kPages);
  memory.rings = budget.held(CacheKind::kRings);
  memory.states = budget.held(CacheKind::kStates);
  memory.checkpoints = budget.held(CacheKind::kCheckpoints);
  // Rows of full logits are left out: their memory is touched only where a host asks for them.
  const uint64_t page_tables =
      static_cast<uint64_t>(longest_table_) * limits_.max_batch_sequences * sizeof(int32_t);
  memory.workspace = decoder_.bytes() + outputs_.bytes() + page_tables;
  memory.budget = budget.limit();
  memory.reserved = budget.reserved();
  return memory;
}

std::unique_ptr<ls_sequence> Model::Create() {
  return std::make_unique<ls_sequence>(std::make_unique<SequenceCache>(caches_));
}

std::unique_ptr<ls_sequence> Model::Fork(ls_sequence& source) {
  return std::make_unique<ls_sequence>(source.cache->Fork());
}

void Model::Reserve(ls_sequence& sequence, uint64_t tokens) {
  const uint64_t position = static_cast<uint64_t>(sequence.cache->position());
  const uint64_t limit = info().context_limit;
  Require(tokens <= limit - position, LS_INVALID_ARGUMENT,
          "tokens: position " + std::to_string(position) + " + " + std::to_string(tokens) +
              " is past the context limit, " + std::to_string(limit));
  // First, for a reservation that has been made must not fail any more.
  PreparePageTables(static_cast<int64_t>(position + tokens));
  sequence.cache->Reserve(static_cast<int64_t>(tokens));
}

// Room in a step for the largest there can be: as many sequences as there may be, each as long as
// the longest.
void Model::PreparePageTables(int64_t tokens) {
  const CacheLayout& layout = caches_.layout;
  if (!layout.has_pages()) return;
  // Of more than the budget pays for, Reserve will say that there is no room.
  const auto most = static_cast<int64_t>(caches_.budget.limit() / layout.page_bytes);
  const int64_t pages = std::min(PagesFor(tokens), most);
  if (pages <= longest_table_) return;
  rows_.PreparePageTables(static_cast<size_t>(pages) * limits_.max_batch_sequences);
  longest_table_ = pages;
}

void Model::Checkpoint(ls_sequence& sequence) { sequence.cache->Checkpoint(); }

uint64_t Model::Truncate(ls_sequence& sequence, uint64_t position) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  const int64_t restored =
      sequence.cache->Truncate(static_cast<int64_t>(std::min(position, kMost)));
  RebuildNearRings(sequence);
  return static_cast<uint64_t>(restored);
}

void Model::RebuildNearRings(ls_sequence& sequence) {
  const OpStatus status = decoder_.RebuildNearRings(*sequence.cache);
  if (status == OpStatus::kOk) return;
  sequence.cache->Abandon(0);  // no step may read them; the next truncate tries again
  throw Failure{LS_INTERNAL, std::string("near rings: ") + Sentence(status)};
}

void Model::Export(const ls_sequence& sequence, const ls_writer& writer) const {
  ExportSequence(*sequence.cache, info().fingerprint, writer);
}

std::unique_ptr<ls_sequence> Model::Import(const ls_reader& reader) {
  auto sequence = std::make_unique<ls_sequence>(
      ImportSequence(caches_, info().fingerprint, spec_.context_limit, reader));
  RebuildNearRings(*sequence);
  return sequence;
}

void Model::CheckBatch(const ls_batch& batch) {
  Require(next_ticket_ - oldest_ticket_ < results_.size(), LS_FAILED_PRECONDITION,
          "two tickets are in flight");
  batch_check_.Check(batch);
  for (uint32_t i = 0; i < batch.num_entries; ++i) {
    const ls_batch_entry& entry = batch.entries[i];
    const ls_sequence& sequence = *entry.sequence;
    const bool is_sampling =
        sequence.sampled_by >= oldest_ticket_ && sequence.sampled_by + 1 == next_ticket_;
    Require(entry.tokens[0] != LS_TOKEN_FROM_PREVIOUS || is_sampling, LS_INVALID_ARGUMENT,
            "LS_TOKEN_FROM_PREVIOUS: no token is being sampled for the sequence");
    Require(entry.num_tokens <= sequence.cache->reserved_tokens(), LS_INVALID_ARGUMENT,
            "tokens: " + std::to_string(entry.num_tokens) + ", of which only " +
                std::to_string(sequence.cache->reserved_tokens()) + " are reserved");
  }
}

uint64_t Model::Submit(const ls_batch& batch) {
  CheckBatch(batch);
  TicketResults* results = &results_[next_ticket_ % results_.size()];
  rows_.Clear();
  entered_.clear();
  outputs_.Begin(batch, results);
  for (const bool is_decode : {true, false}) {  // decode rows come first (StepRows::Add)
    for (size_t i = 0; i < batch.num_entries; ++i) {
      if ((batch.entries[i].is_decode != 0) == is_decode) Enter(batch, i, results);
    }
  }
  if (!entered_.empty()) Run(results);
  for (const size_t i : entered_) {
    if (results->failed(i)) batch.entries[i].sequence->cache->Abandon(batch.entries[i].num_tokens);
  }
  for (size_t i = 0; i < batch.num_entries; ++i) {
    ls_sequence& sequence = *batch.entries[i].sequence;
    sequence.sampled = results->results[i].sampled;
    if (batch.entries[i].sampling != nullptr) sequence.sampled_by = next_ticket_;
  }
  return next_ticket_++;
}

void Model::Enter(const ls_batch& batch, size_t index, TicketResults* results) {
  const ls_batch_entry& entry = batch.entries[index];
  SequenceCache& cache = *entry.sequence->cache;
  if (cache.failed()) {
    return results->Fail(index, LS_FAILED_PRECONDITION,
                         "the sequence has failed; truncate it first");
  }
  const bool from_previous = entry.tokens[0] == LS_TOKEN_FROM_PREVIOUS;
  const std::span<const int32_t> tokens =
      from_previous ? std::span<const int32_t>(&entry.sequence->sampled, 1)
                    : std::span<const int32_t>(entry.tokens, entry.num_tokens);
  cache.Append(entry.num_tokens);
  const int32_t first_row = rows_.Add(cache, tokens, entry.is_decode != 0);
  outputs_.Add(index, first_row, cache.position());
  entered_.push_back(index);
}

void Model::Run(TicketResults* results) {
  const auto fail_all = [&](const char* message) {
    for (const size_t i : entered_) results->Fail(i, LS_INTERNAL, message);
  };
  OpStatus status = OpStatus::kOk;
  try {
    rows_.Upload();
    status = decoder_.Forward(rows_);
    if (status == OpStatus::kOk) status = outputs_.Compute();
  } catch (const std::exception& exception) {
    // The caches are part of the way: what was to be a step is none.
    fail_all(exception.what());
  }
  const OpStatus done = device_.Synchronize();
  if (status == OpStatus::kOk) status = done;
  if (status != OpStatus::kOk) fail_all(Sentence(status));
}

ls_results Model::Wait(uint64_t ticket) {
  Require(ticket == oldest_ticket_ && ticket < next_ticket_, LS_INVALID_ARGUMENT,
          "ticket " + std::to_string(ticket) + " is not the oldest in flight");
  oldest_ticket_ += 1;
  const TicketResults& results = results_[ticket % results_.size()];
  return {results.results.data(), results.num_results};
}

std::unique_ptr<Model> OpenModel(const BackendDefinition& definition,
                                 const ls_model_options& options, const OpTable& ops,
                                 Device& device) {
  const Executor executor{options.host->context, options.host->num_threads,
                          options.host->parallel_run};
  const LoadOptions load_options(options.options);
  const Config config(options.directory);
  ModelSpec spec = definition.plan(config, load_options);
  CheckServed(spec, config);
  ModelWeights weights =
      LoadWeights(spec, Checkpoint(options.directory), load_options, ops, executor, device);
  const DType cache_type = load_options.CacheType(weights.layers[0].mixer_in.type);
  return std::make_unique<Model>(std::move(spec), std::move(weights), cache_type, ops, executor,
                                 ModelLimits{options.cache_bytes_budget, options.max_batch_tokens,
                                             options.max_batch_sequences},
                                 device);
}

}  // namespace longstream
