// minimal: a complete backend for a toy model (toy_model.h). Read it from top to bottom beside
// docs/plugin-abi.md, whose sections have the same numbers. It does what every backend does: open a
// directory, account for memory, keep what sequences remember, and run batches. Tests of the
// service use it in place of a real backend.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/api/backend.h"
#include "backends/api/plugin.h"
#include "backends/minimal/outputs.h"
#include "backends/minimal/settings.h"
#include "backends/minimal/snapshot.h"
#include "backends/minimal/toy_model.h"

using longstream::Guarded;
using longstream::Require;
using longstream::toy::kVocabulary;
using longstream::toy::Outputs;
using longstream::toy::Settings;
using longstream::toy::Snapshot;
using longstream::toy::State;

constexpr uint64_t kCapabilities = LS_CAP_SNAPSHOT | LS_CAP_FORK | LS_CAP_SCORE |
                                   LS_CAP_IN_FLIGHT_TOKENS | LS_CAP_SET_BUDGET | LS_CAP_SEGMENTS |
                                   LS_CAP_ALLOWED_TOKENS;

// ---------------------------------------------------------------- 1. The handles

// A sequence of this model remembers one State. Other backends keep pages, rings or matrices.
struct ls_sequence {
  State state;       // at present
  State previous;    // before the last step
  State checkpoint;  // at the rollback point, if has_checkpoint
  bool has_checkpoint = false;
  bool has_reservation = false;  // includes the bytes of `checkpoint`
  uint64_t reserved_end = 0;     // the host may feed tokens up to this position
  bool failed = false;           // refuses tokens until the host truncates it
  int32_t sampled = -1;  // the token that ticket `sampled_by` sampled; for LS_TOKEN_FROM_PREVIOUS
  uint64_t sampled_by = 0;
};

// A snapshot is one fixed block: this model has no pages, so it has no spans.
struct ls_snapshot {
  Snapshot block;
  size_t read = 0;  // bytes of `block` that the host has read
};

struct ls_import {
  longstream::toy::PartialSnapshot block;
};

struct ls_model {
  ls_model(const ls_model_options& options, const Settings& read)
      : settings(read),
        max_tokens(options.max_batch_tokens),
        max_sequences(options.max_batch_sequences),
        executor{options.host->context, options.host->num_threads, options.host->parallel_run},
        batch_check(max_sequences, max_tokens, kVocabulary, kCapabilities),
        rows(max_tokens),
        outputs{Outputs(kVocabulary, max_tokens, max_sequences),
                Outputs(kVocabulary, max_tokens, max_sequences)} {
    if (options.cache_bytes_budget != 0) budget = most_bytes = options.cache_bytes_budget;
  }

  const Settings settings;
  const uint64_t fingerprint =
      longstream::toy::Mix(settings.weights.seed * 2 + settings.weights.utf8 + 1);
  const ls_layer_info layer{LS_LAYER_RECURRENT, "none", 0, 0, sizeof(State)};
  uint64_t most_bytes = std::numeric_limits<uint64_t>::max();  // the largest budget
  const uint32_t max_tokens;
  const uint32_t max_sequences;
  const longstream::Executor executor;  // the host's threads
  longstream::BatchCheck batch_check;
  std::vector<State> rows;         // [max_tokens] states after the rows of an entry with outputs
  std::array<Outputs, 2> outputs;  // two, because two tickets may be in flight
  uint64_t next_ticket = 1;
  uint64_t oldest_ticket = 1;  // the oldest ticket in flight; == next_ticket if none is
  bool device_lost = false;
  // The budget, and the bytes that sequences hold. Atomic, because any thread may call model_memory
  // at any time.
  std::atomic<uint64_t> budget{std::numeric_limits<uint64_t>::max()};
  std::atomic<uint64_t> states{0};
  std::atomic<uint64_t> checkpoints{0};
};

namespace {

// A backend that computes prompts in blocks of tokens gives the size of a block here. This backend
// could give 1. It gives 16, so that in tests the host cuts prompts as it does for real backends.
constexpr uint32_t kPrefillGrid = 16;

// ---------------------------------------------------------------- 2. Models

ls_code Probe(const char* directory, int32_t* fit, ls_error error) {
  return Guarded(error, [&] {
    const std::string type = longstream::toy::ModelType(longstream::toy::ReadConfig(directory));
    *fit = type == "minimal" ? 100 : 0;
    if (*fit == 0) longstream::Report(LS_OK, "model_type: " + type + ", not minimal", error);
  });
}

void CheckBudget(uint64_t bytes) {
  Require(bytes >= 2 * sizeof(State), LS_INVALID_ARGUMENT,
          "cache_bytes_budget: one sequence needs " + std::to_string(2 * sizeof(State)));
}

ls_code Open(const ls_model_options* options, ls_model** model, ls_error error) {
  return Guarded(error, [&] {
    const Settings settings = longstream::toy::ReadSettings(options->directory, options->options);
    Require(options->num_devices == 1 && std::string("cpu") == options->devices[0], LS_NOT_FOUND,
            "devices: this backend runs on one device, cpu");
    longstream::CheckBatchLimits(*options);
    auto opened = std::make_unique<ls_model>(*options, settings);
    CheckBudget(opened->budget);
    *model = opened.release();
  });
}

void Close(ls_model* model) { delete model; }

ls_code Info(const ls_model* model, ls_model_info* info) {
  ls_model_info filled{};
  filled.architecture = "minimal";
  filled.vocabulary_size = kVocabulary;
  filled.num_layers = 1;
  filled.layers = &model->layer;
  filled.context_limit = model->settings.context_limit;
  filled.prefill_grid = kPrefillGrid;
  filled.state_bytes_per_sequence = sizeof(State);
  filled.checkpoint_bytes_per_sequence = sizeof(State);
  filled.fingerprint = model->fingerprint;
  filled.kernels = longstream::DeviceOps().name;
  longstream::Fill(info, filled);
  return LS_OK;
}

ls_code Memory(const ls_model* model, ls_memory* memory) {
  ls_memory filled{};
  filled.weights = sizeof(model->settings.weights);
  filled.states = model->states;
  filled.checkpoints = model->checkpoints;
  filled.workspace = 2 * model->outputs[0].bytes() + model->rows.size() * sizeof(State);
  filled.budget = model->budget;
  filled.reserved = filled.states + filled.checkpoints;
  longstream::Fill(memory, filled);
  return LS_OK;
}

ls_code SetBudget(ls_model* model, uint64_t cache_bytes_budget, ls_error error) {
  return Guarded(error, [&] {
    CheckBudget(cache_bytes_budget);
    model->budget = std::min(cache_bytes_budget, model->most_bytes);
  });
}

// ---------------------------------------------------------------- 3. Sequences

// Takes the bytes of one State from the budget and adds them to `held`.
void Charge(const ls_model& model, std::atomic<uint64_t>& held) {
  const uint64_t used = model.states + model.checkpoints;  // may exceed a budget that was lowered
  const uint64_t left = model.budget - std::min<uint64_t>(model.budget, used);
  Require(left >= sizeof(State), LS_RESOURCE_EXHAUSTED,
          "cache budget: " + std::to_string(sizeof(State)) + " bytes wanted, " +
              std::to_string(left) + " of " + std::to_string(model.budget) + " left");
  held += sizeof(State);
}

// Charges the budget last, so that an exception leaves nothing charged.
ls_sequence* NewSequence(ls_model& model, const State& state) {
  auto sequence = std::make_unique<ls_sequence>();
  sequence->state = state;
  sequence->reserved_end = state.position;
  Charge(model, model.states);
  return sequence.release();
}

void RequireSound(const ls_sequence& sequence) {
  Require(!sequence.failed, LS_FAILED_PRECONDITION, "the sequence has failed; truncate it first");
}

ls_code Create(ls_model* model, ls_sequence** sequence, ls_error error) {
  return Guarded(error, [&] { *sequence = NewSequence(*model, State{}); });
}

ls_code Fork(ls_model* model, ls_sequence* source, ls_sequence** sequence, ls_error error) {
  return Guarded(error, [&] {
    RequireSound(*source);
    *sequence = NewSequence(*model, source->state);
  });
}

void ReleaseReservation(ls_model& model, ls_sequence& sequence) {
  if (sequence.has_reservation) model.checkpoints -= sizeof(State);
  sequence.has_reservation = sequence.has_checkpoint = false;
  sequence.reserved_end = sequence.state.position;
}

void Free(ls_model* model, ls_sequence* sequence) {
  ReleaseReservation(*model, *sequence);
  model->states -= sizeof(State);
  delete sequence;
}

// Feeding a token needs no memory in this backend. So a reservation is only a limit, plus the bytes
// of `checkpoint`.
ls_code Reserve(ls_model* model, ls_sequence* sequence, uint64_t tokens, ls_error error) {
  return Guarded(error, [&] {
    const uint64_t position = sequence->state.position;
    Require(tokens <= model->settings.context_limit - position, LS_INVALID_ARGUMENT,
            "tokens: " + std::to_string(position) + " + " + std::to_string(tokens) +
                " is past the context limit");
    if (tokens == 0) return ReleaseReservation(*model, *sequence);
    if (!sequence->has_reservation) Charge(*model, model->checkpoints);
    sequence->has_reservation = true;
    sequence->reserved_end = position + tokens;
  });
}

ls_code Checkpoint(ls_model*, ls_sequence* sequence, ls_error error) {
  return Guarded(error, [&] {
    RequireSound(*sequence);
    Require(sequence->has_reservation, LS_FAILED_PRECONDITION, "no reservation stands");
    sequence->checkpoint = sequence->state;
    sequence->has_checkpoint = true;
  });
}

// Two positions can be restored exactly: the current one, because a failed step has not moved the
// sequence, and the one before the last step. For any other position, goes back to the rollback
// point; the host feeds the rest again.
ls_code Truncate(ls_model*, ls_sequence* sequence, uint64_t position, uint64_t* restored,
                 ls_error error) {
  return Guarded(error, [&] {
    const uint64_t current = sequence->state.position;
    const uint64_t first = sequence->has_checkpoint ? sequence->checkpoint.position : current;
    Require(position >= first && position <= current, LS_INVALID_ARGUMENT,
            "position: expected " + std::to_string(first) + " ... " + std::to_string(current) +
                ", found " + std::to_string(position));
    if (position < current) {
      const bool is_previous = position == sequence->previous.position;
      sequence->state = is_previous ? sequence->previous : sequence->checkpoint;
    }
    sequence->failed = false;
    *restored = sequence->state.position;
  });
}

uint64_t Position(const ls_sequence* sequence) { return sequence->state.position; }

ls_code Bytes(const ls_model*, const ls_sequence* sequence, ls_sequence_bytes* bytes) {
  ls_sequence_bytes filled{};
  filled.state = sizeof(State);
  filled.checkpoint = sequence->has_reservation ? sizeof(State) : 0;
  longstream::Fill(bytes, filled);
  return LS_OK;
}

// ---------------------------------------------------------------- 4. Snapshots

Snapshot SnapshotOf(const ls_model& model, const ls_sequence& sequence) {
  RequireSound(sequence);
  Snapshot snapshot;
  snapshot.fingerprint = model.fingerprint;
  snapshot.state = sequence.state;
  snapshot.checksum = longstream::toy::Checksum(snapshot);
  return snapshot;
}

ls_code Export(ls_model* model, ls_sequence* sequence, const ls_writer* writer, ls_error error) {
  return Guarded(error, [&] {
    const Snapshot snapshot = SnapshotOf(*model, *sequence);
    Require(writer->write(writer->context, &snapshot, sizeof(snapshot)) == 0, LS_UNAVAILABLE,
            "the host's writer has failed");
  });
}

// Checks for damage first, because the fingerprint itself may be damaged.
ls_code Import(ls_model* model, const ls_reader* reader, ls_sequence** sequence, ls_error error) {
  return Guarded(error, [&] {
    Snapshot snapshot;
    Require(reader->read(reader->context, &snapshot, sizeof(snapshot)) == 0, LS_DATA_LOSS,
            "the snapshot is cut short");
    Require(!longstream::toy::IsDamaged(snapshot), LS_DATA_LOSS,
            "the snapshot is damaged: its checksum is wrong");
    Require(snapshot.fingerprint == model->fingerprint &&
                snapshot.state.position <= model->settings.context_limit,
            LS_FAILED_PRECONDITION, "the snapshot is of another model");
    *sequence = NewSequence(*model, snapshot.state);
  });
}

ls_code SnapshotBegin(ls_model* model, ls_sequence* sequence, uint64_t from, ls_snapshot** snapshot,
                      ls_snapshot_info* info, ls_error error) {
  return Guarded(error, [&] {
    Require(from <= sequence->state.position, LS_INVALID_ARGUMENT,
            "from: expected at most the position, " + std::to_string(sequence->state.position) +
                ", found " + std::to_string(from));
    auto begun = std::make_unique<ls_snapshot>(ls_snapshot{SnapshotOf(*model, *sequence)});
    longstream::Fill(info, {0, from, from, 0, sizeof(Snapshot), sequence->state.position});
    *snapshot = begun.release();
  });
}

ls_code SnapshotRead(ls_snapshot* snapshot, int32_t segment, void* data, size_t capacity,
                     size_t* size, ls_error error) {
  return Guarded(error, [&] {
    longstream::RequireSegment(segment);
    const size_t left = segment == LS_SEGMENT_FIXED ? sizeof(Snapshot) - snapshot->read : 0;
    *size = std::min(capacity, left);
    if (*size == 0) return;
    std::memcpy(data, reinterpret_cast<const char*>(&snapshot->block) + snapshot->read, *size);
    snapshot->read += *size;
  });
}

void SnapshotFree(ls_model*, ls_snapshot* snapshot) { delete snapshot; }

ls_code ImportBegin(ls_model* model, uint64_t position, ls_import** import, ls_error error) {
  return Guarded(error, [&] {
    Require(position <= model->settings.context_limit, LS_INVALID_ARGUMENT,
            "position: expected at most the context limit, " +
                std::to_string(model->settings.context_limit) + ", found " +
                std::to_string(position));
    auto begun = std::make_unique<ls_import>(ls_import{{model->fingerprint, position}});
    Charge(*model, model->states);
    *import = begun.release();
  });
}

ls_code ImportWrite(ls_import* import, const void* data, size_t size, ls_error error) {
  return Guarded(error, [&] { import->block.Add(static_cast<const char*>(data), size); });
}

ls_code ImportAttach(ls_model*, ls_import* import, ls_sequence** sequence, ls_error error) {
  return Guarded(error, [&] {
    auto attached = std::make_unique<ls_sequence>();
    attached->state = import->block.CompleteState();
    attached->reserved_end = attached->state.position;
    *sequence = attached.release();  // the import's bytes of the budget are now the sequence's
    delete import;
  });
}

void ImportFree(ls_model* model, ls_import* import) {
  model->states -= sizeof(State);
  delete import;
}

// ---------------------------------------------------------------- 5. Steps

// Throws for a malformed batch, before anything has changed.
void CheckBatch(ls_model& model, const ls_batch& batch) {
  Require(model.next_ticket - model.oldest_ticket < 2, LS_FAILED_PRECONDITION,
          "two tickets are in flight");
  model.batch_check.Check(batch);
  for (uint32_t i = 0; i < batch.num_entries; ++i) {
    const ls_batch_entry& entry = batch.entries[i];
    const ls_sequence& sequence = *entry.sequence;
    const bool is_sampling =
        sequence.sampled_by >= model.oldest_ticket && sequence.sampled_by + 1 == model.next_ticket;
    Require(entry.tokens[0] != LS_TOKEN_FROM_PREVIOUS || is_sampling, LS_INVALID_ARGUMENT,
            "LS_TOKEN_FROM_PREVIOUS: no token is being sampled");
    Require(entry.num_tokens <= sequence.reserved_end - sequence.state.position,
            LS_INVALID_ARGUMENT, "tokens: more than the sequence has reserved");
  }
}

// Feeds an entry's tokens to `state` and writes its logits: [NumLogitRows(entry), kVocabulary].
void Forward(ls_model& model, const ls_batch_entry& entry, State& state, float* logits) {
  RequireSound(*entry.sequence);
  const uint32_t num_rows = longstream::toy::NumLogitRows(entry);
  for (uint32_t i = 0; i < entry.num_tokens; ++i) {
    Require(state.position != model.settings.fail_at_position, LS_INTERNAL,
            "NaN logits at position " + std::to_string(state.position));
    model.device_lost |= state.position == model.settings.lose_device_at_position;
    Require(!model.device_lost, LS_UNAVAILABLE, "the device answers no more");
    const bool from_previous = entry.tokens[i] == LS_TOKEN_FROM_PREVIOUS;
    const int32_t token = from_previous ? entry.sequence->sampled : entry.tokens[i];
    longstream::toy::Feed(state, static_cast<uint32_t>(token));
    const uint32_t to_come = entry.num_tokens - 1 - i;
    if (to_come < num_rows) model.rows[num_rows - 1 - to_come] = state;
  }
  // Runs on the host's threads. A task depends only on its own row, so that results do not depend
  // on the number of threads.
  longstream::ParallelFor(model.executor, num_rows, [&](uint32_t row) {
    longstream::toy::ComputeLogits(model.settings.weights, model.rows[row],
                                   logits + size_t{row} * kVocabulary);
  });
}

ls_code Submit(ls_model* model, const ls_batch* batch, uint64_t* ticket, ls_error error) {
  return Guarded(error, [&] {
    CheckBatch(*model, *batch);
    std::this_thread::sleep_for(std::chrono::microseconds(model->settings.step_delay_us));
    Outputs& outputs = model->outputs[model->next_ticket % 2];
    outputs.Clear();
    for (uint32_t i = 0; i < batch->num_entries; ++i) {
      const ls_batch_entry& entry = batch->entries[i];
      ls_sequence& sequence = *entry.sequence;
      State state = sequence.state;
      const uint64_t end = state.position + entry.num_tokens;
      // If this sequence fails, its result says so and its state stays the same. The other entries
      // go on.
      const ls_result& result =
          outputs.Add(entry, end, [&] { Forward(*model, entry, state, outputs.Logits()); });
      sequence.failed = result.code != LS_OK;
      if (!sequence.failed) sequence.previous = std::exchange(sequence.state, state);
      sequence.sampled = result.sampled;
      if (entry.sampling != nullptr) sequence.sampled_by = model->next_ticket;
    }
    *ticket = model->next_ticket++;
  });
}

// The work was done in Submit. A backend for a device would wait for the device here.
ls_code Wait(ls_model* model, uint64_t ticket, ls_results* results, ls_error error) {
  return Guarded(error, [&] {
    Require(ticket == model->oldest_ticket && ticket < model->next_ticket, LS_INVALID_ARGUMENT,
            "ticket " + std::to_string(ticket) + " is not the oldest in flight");
    *results = model->outputs[ticket % 2].results();
    model->oldest_ticket += 1;
  });
}

// ---------------------------------------------------------------- 6. The table

constexpr ls_backend kBackend = {
    .abi_major = LS_ABI_MAJOR,
    .abi_minor = LS_ABI_MINOR,
    .struct_size = sizeof(ls_backend),
    .name = "minimal",
    .device = "cpu",
    .version = "1.0",
    .capabilities = kCapabilities,
    .probe = Probe,
    .model_open = Open,
    .model_close = Close,
    .model_info = Info,
    .model_memory = Memory,
    .sequence_create = Create,
    .sequence_fork = Fork,
    .sequence_free = Free,
    .sequence_reserve = Reserve,
    .sequence_checkpoint = Checkpoint,
    .sequence_truncate = Truncate,
    .sequence_position = Position,
    .sequence_bytes = Bytes,
    .sequence_export = Export,
    .sequence_import = Import,
    .submit = Submit,
    .wait = Wait,
    .model_set_budget = SetBudget,
    .snapshot_begin = SnapshotBegin,
    .snapshot_read = SnapshotRead,
    .snapshot_free = SnapshotFree,
    .import_begin = ImportBegin,
    .import_write = ImportWrite,
    .import_attach = ImportAttach,
    .import_free = ImportFree,
};

}  // namespace

// The only symbol that the version script (backends/api/export.map) exports.
extern "C" __attribute__((visibility("default"))) const ls_backend* longstream_backend() {
  return &kBackend;
}
