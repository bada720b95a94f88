// Sequences and steps of a model.
#include "backends/runtime/model.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "backends/api/plugin.h"
#include "backends/caches/snapshot.h"
#include "backends/errors/device_failure.h"
#include "backends/errors/error.h"
#include "backends/model/layers.h"
#include "backends/runtime/decode_bucket.h"

namespace longstream {
namespace {

constexpr const char* kSequenceFailed = "the sequence has failed; truncate it first";

// A device must have room for a sequence of this many tokens.
constexpr int64_t kLeastTokens = 4096;

// The budget for the caches. If a device allocates its pools at the start, they must have room for
// one sequence of kLeastTokens, unless the host asks for less.
uint64_t CacheBudget(const CacheLayout& layout, const ModelLimits& limits, int64_t context_limit,
                     Device& device) {
  const uint64_t budget = limits.cache_bytes_budget;
  if (device.host_memory()) return budget;
  const int64_t tokens = std::min(kLeastTokens, context_limit);
  const uint64_t for_sequence = PoolBytesFor(layout, tokens);
  const bool is_asked_for = budget != 0 && budget < for_sequence;
  const uint64_t needed = is_asked_for ? budget : for_sequence;
  const uint64_t most = MostCacheBytes(layout, device);
  Require(needed <= most, LS_RESOURCE_EXHAUSTED,
          (is_asked_for ? "caches: cache_bytes_budget is "
                        : "caches: a sequence of " + std::to_string(tokens) + " tokens needs ") +
              std::to_string(needed) + " bytes, " + std::to_string(most) +
              " of the device's are left beside weights, activations and the " +
              std::to_string(device.own_bytes()) + " that it needs itself");
  return budget;
}

// Checks that a budget holds a sequence of one token with its reservation.
void CheckHoldsASequence(const CacheLayout& layout, uint64_t budget) {
  const uint64_t needed =
      layout.ring_bytes + layout.state_bytes + layout.rollback_bytes + layout.page_bytes;
  Require(needed <= budget, LS_INVALID_ARGUMENT,
          "cache_bytes_budget: one sequence needs " + std::to_string(needed) + " bytes, found " +
              std::to_string(budget));
}

// Checks the budget, and that the bytes of any reservation fit in 64 bits.
void CheckBudget(const CacheStore& caches, int64_t context_limit) {
  const CacheLayout& layout = caches.layout;
  const auto most_pages = static_cast<uint64_t>(PagesFor(context_limit)) + 1;
  Require(SaturatedBytes(most_pages, layout.page_bytes) < uint64_t{1} << 63, LS_INVALID_ARGUMENT,
          "context_limit: the keys and values of " + std::to_string(context_limit) +
              " tokens are more bytes than can be counted");
  CheckHoldsASequence(layout, caches.budget.limit());
}

}  // namespace

Model::Model(ModelSpec spec, ModelWeights weights, DType cache_type, const OpTable& ops,
             const Executor& executor, const ModelLimits& limits, Device& device)
    : device_(device),
      spec_(std::move(spec)),
      weights_(std::move(weights)),
      limits_(limits),
      layout_(MakeCacheLayout(spec_, cache_type)),
      decoder_(spec_, weights_, caches_, layout_, ops, executor, limits.max_batch_tokens,
               limits.max_batch_sequences, device),
      rows_(limits.max_batch_tokens, limits.max_batch_sequences, spec_.chunk_size, device),
      outputs_(decoder_, ops, device, executor, spec_.vocabulary, limits.max_batch_tokens,
               limits.max_batch_sequences),
      tickets_{
          Ticket(device, limits.max_batch_tokens, limits.max_batch_sequences, spec_.vocabulary),
          Ticket(device, limits.max_batch_tokens, limits.max_batch_sequences, spec_.vocabulary)},
      caches_(layout_, CacheBudget(layout_, limits, spec_.context_limit, device), device),
      snapshot_memory_(caches_),
      description_(spec_, weights_, layout_, ops),
      batch_check_(limits.max_batch_sequences, limits.max_batch_tokens,
                   static_cast<int32_t>(spec_.vocabulary), kCapabilities) {
  CheckBudget(caches_, spec_.context_limit);
}

// Waits for the steps in flight, because they use memory that is about to be freed.
Model::~Model() { device_.Synchronize(); }

ls_memory Model::memory() const {
  const Budget& budget = caches_.budget;
  ls_memory memory{};
  memory.weights = weights_.bytes;
  memory.pages = budget.held(CacheKind::kPages);
  memory.rings = budget.held(CacheKind::kRings);
  memory.states = budget.held(CacheKind::kStates);
  memory.checkpoints = budget.held(CacheKind::kRollback);
  // Rows of full logits do not count: their memory is touched only if a host asks for them.
  const uint64_t page_tables =
      static_cast<uint64_t>(longest_table_) * limits_.max_batch_sequences * sizeof(int32_t);
  memory.workspace = decoder_.bytes() + outputs_.bytes() + page_tables;
  memory.budget = budget.limit();
  memory.reserved = budget.reserved();
  return memory;
}

void Model::SetBudget(uint64_t cache_bytes_budget) {
  CheckHoldsASequence(caches_.layout, cache_bytes_budget);
  caches_.SetBudget(cache_bytes_budget);
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
  // This comes before Reserve: after a reservation is made, nothing may fail.
  PreparePageTables(static_cast<int64_t>(position + tokens));
  sequence.cache->Reserve(static_cast<int64_t>(tokens));
}

// Makes room for the largest possible step: the most sequences, each of the longest length.
void Model::PreparePageTables(int64_t tokens) {
  const CacheLayout& layout = caches_.layout;
  if (!layout.has_pages()) return;
  // If the budget does not pay for so many pages, Reserve says so.
  const auto most = static_cast<int64_t>(caches_.budget.limit() / layout.page_bytes);
  const int64_t pages = std::min(PagesFor(tokens), most);
  if (pages <= longest_table_) return;
  rows_.PreparePageTables(static_cast<size_t>(pages) * limits_.max_batch_sequences);
  decoder_.PrepareRebuild(static_cast<size_t>(pages));
  longest_table_ = pages;
}

void Model::MarkRollbackPoint(ls_sequence& sequence) { sequence.cache->MarkRollbackPoint(); }

uint64_t Model::Truncate(ls_sequence& sequence, uint64_t position) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  const int64_t restored =
      sequence.cache->Truncate(static_cast<int64_t>(std::min(position, kMost)));
  RebuildNearRings(*sequence.cache);
  return static_cast<uint64_t>(restored);
}

void Model::RebuildNearRings(SequenceCache& cache) {
  const OpStatus status = decoder_.RebuildNearRings(cache);
  if (status == OpStatus::kOk) return;
  cache.Abandon(cache.position());  // no step may read the rings; the next Truncate tries again
  RequireDone(status, "near rings");
}

void Model::Export(const ls_sequence& sequence, const ls_writer& writer) const {
  ExportSequence(*sequence.cache, info().fingerprint, writer);
}

std::unique_ptr<ls_sequence> Model::Import(const ls_reader& reader) {
  auto sequence = std::make_unique<ls_sequence>(
      ImportSequence(caches_, info().fingerprint, spec_.context_limit, reader));
  RebuildNearRings(*sequence->cache);
  return sequence;
}

std::unique_ptr<ls_snapshot> Model::BeginSnapshot(ls_sequence& sequence, uint64_t from) {
  return std::make_unique<ls_snapshot>(*sequence.cache, from, info().fingerprint, snapshot_memory_);
}

std::unique_ptr<ls_import> Model::BeginImport(uint64_t position) {
  Require(position <= info().context_limit, LS_INVALID_ARGUMENT,
          "position: expected at most the context limit, " + std::to_string(info().context_limit) +
              ", found " + std::to_string(position));
  return std::make_unique<ls_import>(static_cast<int64_t>(position), info().fingerprint,
                                     spec_.context_limit, snapshot_memory_);
}

std::unique_ptr<ls_sequence> Model::Attach(ls_import& import) {
  import.caches.RequireComplete();
  RebuildNearRings(import.caches.cache());
  return std::make_unique<ls_sequence>(import.caches.Take());
}

void Model::CheckBatch(const ls_batch& batch) {
  Require(next_ticket_ - oldest_ticket_ < tickets_.size(), LS_FAILED_PRECONDITION,
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
  Ticket& ticket = TicketOf(next_ticket_);
  rows_.Clear();
  ticket.Begin(batch);
  for (const bool is_decode : {true, false}) {  // decode rows come first (StepRows::Add)
    for (size_t i = 0; i < batch.num_entries; ++i) {
      const ls_batch_entry& entry = batch.entries[i];
      if ((entry.is_decode != 0) == is_decode) Enter(entry, i, ticket);
    }
  }
  Begin(batch, ticket);
  return next_ticket_++;
}

void Model::Enter(const ls_batch_entry& entry, size_t index, Ticket& ticket) {
  ls_sequence& sequence = *entry.sequence;
  SequenceCache& cache = *sequence.cache;
  const bool is_from_previous = entry.tokens[0] == LS_TOKEN_FROM_PREVIOUS;
  const int32_t from_previous = ~sequence.sampled_index;
  if (entry.sampling != nullptr) {
    sequence.sampled_by = next_ticket_;
    sequence.sampled_index = ticket.num_sampled();
  }
  if (cache.failed() || (is_from_previous && TicketOf(next_ticket_ - 1).spoilt())) {
    return ticket.Fail(index, LS_FAILED_PRECONDITION, kSequenceFailed);
  }
  const int64_t begin = cache.position();
  cache.Append(entry.num_tokens);
  const std::span<const int32_t> tokens =
      is_from_previous ? std::span(&from_previous, 1) : std::span(entry.tokens, entry.num_tokens);
  const int32_t first_row = rows_.Add(cache, tokens, entry.is_decode != 0);
  ticket.Add(index, entry, first_row, begin);
}

void Model::Begin(const ls_batch& batch, Ticket& ticket) {
  try {
    const OpStatus status = rows_.num_rows() > 0 ? RunStep(batch, ticket) : OpStatus::kOk;
    if (status != OpStatus::kOk) ticket.Spoil(CodeOf(status), Sentence(status));
  } catch (const std::exception&) {
    // The caches already count the step's tokens, but the step did not run: fail it.
    const BackendError error = HandledError();
    ticket.Spoil(error.code(), error.what());
  }
  ticket.done().Record();
}

OpStatus Model::RunStep(const ls_batch& batch, Ticket& ticket) {
  // If every row is drawn, pad the step to one of few shapes, so that a device may repeat it.
  const int32_t num_rows = rows_.num_rows();
  const auto most_rows =
      static_cast<int32_t>(std::min({limits_.max_batch_tokens, limits_.max_batch_sequences,
                                     static_cast<uint32_t>(outputs_.block_rows())}));
  const bool repeats = !device_.host_memory() && num_rows <= most_rows &&
                       rows_.num_decode_rows() == num_rows && ticket.num_sampled() == num_rows;
  DecodeBucket bucket;
  if (repeats) {
    bucket = DecodeBucketFor(num_rows, rows_.max_position(), most_rows, spec_.context_limit - 1);
    rows_.PadTo(bucket.num_rows, bucket.max_position, caches_);
  }
  rows_.Upload();
  outputs_.Upload(batch, ticket, bucket.num_rows);

  const auto begin = [this] { return ForwardAndDraw(); };
  OpStatus status = repeats ? device_.Repeat(bucket.key(), begin) : begin();
  for (size_t block = 0; block < outputs_.num_blocks() && status == OpStatus::kOk; ++block) {
    if (block > 0) status = outputs_.Draw(block);
    if (status == OpStatus::kOk) status = outputs_.Score(block, ticket);
  }
  outputs_.Download(ticket);
  return status;
}

OpStatus Model::ForwardAndDraw() {
  const OpStatus status =
      decoder_.Forward(rows_, outputs_.logit_rows(rows_.num_decode_rows()), outputs_.sampled());
  return status != OpStatus::kOk || outputs_.num_blocks() == 0 ? status : outputs_.Draw(0);
}

ls_results Model::Wait(uint64_t number) {
  Require(number == oldest_ticket_ && number < next_ticket_, LS_INVALID_ARGUMENT,
          "ticket " + std::to_string(number) + " is not the oldest in flight");
  oldest_ticket_ += 1;
  Ticket& ticket = TicketOf(number);
  if (const OpStatus done = ticket.done().Wait(); done != OpStatus::kOk) {
    ticket.Spoil(CodeOf(done), Sentence(done));
  }
  ticket.Collect();
  for (uint32_t i = 0; i < ticket.num_entries(); ++i) {
    const Ticket::Part& part = ticket.part(i);
    if (part.sequence == nullptr) continue;
    SequenceCache& cache = *part.sequence->cache;
    if (cache.failed()) {  // failed in the previous ticket, which was in flight at this Submit
      ticket.Fail(i, LS_FAILED_PRECONDITION, kSequenceFailed);
    } else if (ticket.failed(i)) {
      cache.Abandon(part.begin);
    }
  }
  return ticket.results();
}

}  // namespace longstream
