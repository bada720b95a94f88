// Small defects, one per plugin; the macro MUTANT selects it. For each defect there is a check that
// must find it.
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "tests/conformance/broken/wrapped_minimal.h"

namespace {

using longstream::conformance::Minimal;
using longstream::conformance::SpoiledResults;

constexpr uint32_t kVocabulary = 256;

enum Mutant {
  // Has another ABI major version, so the kit may use nothing else in its table.
  kWrongAbi,
  kLeaksOnReload,      // forgets a few bytes with every model that it closes
  kLeaksMappings,      // reserves addresses with every model that it closes
  kForksEmpty,         // a fork has forgotten the history
  kRestoresTooFar,     // truncate reports a position that was not restored
  kImportsDamage,      // a damaged snapshot becomes an empty sequence
  kAttachesDamage,     // an import of damaged segments becomes an empty sequence
  kSnapshotsLate,      // a snapshot has the bytes of its first read, not of its beginning
  kReservesAnything,   // reserve never refuses
  kIgnoresBudgets,     // model_set_budget changes nothing
  kFreesNothing,       // sequence_free keeps the bytes
  kGoesBackTooFar,     // says it can look ahead, and always goes back to the checkpoint
  kBatchDependent,     // the last bit of a logit depends on how many sequences share a batch
  kIgnoresSeed,        // sampling uses the same seed for everyone
  kCountsThreads,      // logits depend on the number of threads
  kSeesCuts,           // logits depend on the length of the entry's piece
  kClampsTokens,       // a token id out of range is replaced by one in range
  kOverwritesResults,  // the next submit overwrites results
  kForgetsHistory,     // every token is read as the same token
  kMisscores,          // log-probabilities do not match the logits
  kIgnoresMasks,       // draws tokens that are not allowed
  kReadsTooFar,        // reads fields that struct_size does not cover
};

ls_code SetBudget(ls_model*, uint64_t, ls_error) { return LS_OK; }

ls_code Fork(ls_model* model, ls_sequence*, ls_sequence** sequence, ls_error error) {
  return Minimal().sequence_create(model, sequence, error);
}

ls_code Truncate(ls_model* model, ls_sequence* sequence, uint64_t position, uint64_t* restored,
                 ls_error error) {
  const ls_code code = Minimal().sequence_truncate(model, sequence, position, restored, error);
  if (code == LS_OK) *restored = position;
  return code;
}

ls_code TruncateToCheckpoint(ls_model* model, ls_sequence* sequence, uint64_t position,
                             uint64_t* restored, ls_error error) {
  // Asks for one position less than the host. The backend can restore the position before its last
  // step but no earlier one, so it goes back to the checkpoint.
  const uint64_t further = position - (position > 0 ? 1 : 0);
  if (Minimal().sequence_truncate(model, sequence, further, restored, {nullptr, 0}) == LS_OK) {
    return LS_OK;
  }
  return Minimal().sequence_truncate(model, sequence, position, restored, error);
}

ls_code Import(ls_model* model, const ls_reader* reader, ls_sequence** sequence, ls_error error) {
  const ls_code code = Minimal().sequence_import(model, reader, sequence, error);
  return code == LS_DATA_LOSS ? Minimal().sequence_create(model, sequence, error) : code;
}

ls_code Attach(ls_model* model, ls_import* import, ls_sequence** sequence, ls_error error) {
  const ls_code code = Minimal().import_attach(model, import, sequence, error);
  if (code != LS_DATA_LOSS) return code;
  Minimal().import_free(model, import);
  return Minimal().sequence_create(model, sequence, error);
}

// A snapshot of kSnapshotsLate, which begins it again when it is read.
struct Late {
  ls_model* model;
  ls_sequence* sequence;
  ls_snapshot* snapshot;  // of Minimal, once it has begun
};

ls_code SnapshotBegin(ls_model* model, ls_sequence* sequence, uint64_t from, ls_snapshot** snapshot,
                      ls_snapshot_info* info, ls_error error) {
  const ls_code code = Minimal().snapshot_begin(model, sequence, from, snapshot, info, error);
  if (code != LS_OK) return code;
  Minimal().snapshot_free(model, *snapshot);
  *snapshot = reinterpret_cast<ls_snapshot*>(new Late{model, sequence, nullptr});
  return LS_OK;
}

ls_code SnapshotRead(ls_snapshot* snapshot, int32_t segment, void* data, size_t capacity,
                     size_t* size, ls_error error) {
  auto* late = reinterpret_cast<Late*>(snapshot);
  if (late->snapshot == nullptr) {
    ls_snapshot_info info{};
    info.struct_size = sizeof(info);
    const ls_code code =
        Minimal().snapshot_begin(late->model, late->sequence, 0, &late->snapshot, &info, error);
    if (code != LS_OK) return code;
  }
  return Minimal().snapshot_read(late->snapshot, segment, data, capacity, size, error);
}

void SnapshotFree(ls_model* model, ls_snapshot* snapshot) {
  auto* late = reinterpret_cast<Late*>(snapshot);
  if (late->snapshot != nullptr) Minimal().snapshot_free(model, late->snapshot);
  delete late;
}

ls_code Reserve(ls_model* model, ls_sequence* sequence, uint64_t tokens, ls_error error) {
  const ls_code code = Minimal().sequence_reserve(model, sequence, tokens, error);
  return code == LS_RESOURCE_EXHAUSTED ? LS_OK : code;
}

void Free(ls_model*, ls_sequence*) {}

void Close(ls_model* model) {
  // The mutant writes to the memory, because otherwise the compiler would remove the allocation.
  if (MUTANT == kLeaksOnReload) *static_cast<volatile char*>(std::malloc(24)) = 1;
  // The mutant writes nothing to the mapping, and the kernel joins adjacent mappings. So only the
  // size of the address space grows.
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (MUTANT == kLeaksMappings) mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, kFlags, -1, 0);
  Minimal().model_close(model);
}

uint32_t num_threads = 0;

ls_code Open(const ls_model_options* options, ls_model** model, ls_error error) {
  num_threads = options->host->num_threads;
  return Minimal().model_open(options, model, error);
}

SpoiledResults& Spoiled() {
  static SpoiledResults spoiled;
  return spoiled;
}

ls_code Submit(ls_model* model, const ls_batch* batch, uint64_t* ticket, ls_error error) {
  std::vector<ls_batch_entry> entries(batch->entries, batch->entries + batch->num_entries);
  std::vector<std::vector<int32_t>> tokens(entries.size());
  std::vector<ls_sampling> sampling(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    ls_batch_entry& entry = entries[i];
    tokens[i].assign(entry.tokens, entry.tokens + entry.num_tokens);
    for (int32_t& token : tokens[i]) {
      if (MUTANT == kClampsTokens) token = std::min(token, 255);
      if (MUTANT == kForgetsHistory && token >= 0 && token < 256) token = 0;
    }
    if (entry.num_tokens > 0) entry.tokens = tokens[i].data();
    if (MUTANT == kIgnoresSeed || MUTANT == kIgnoresMasks || MUTANT == kReadsTooFar) {
      if (entry.sampling == nullptr) continue;
      sampling[i] = *entry.sampling;
      if (MUTANT == kIgnoresSeed) sampling[i].seed = 1;
      if (MUTANT == kIgnoresMasks) sampling[i].allowed = nullptr;
      if (MUTANT == kReadsTooFar) sampling[i].struct_size = sizeof(ls_sampling);
      entry.sampling = &sampling[i];
    }
  }
  const ls_batch changed = {sizeof(ls_batch), entries.data(), batch->num_entries};
  const ls_code code = Minimal().submit(model, &changed, ticket, error);
  if (code == LS_OK) Spoiled().Submitted(*ticket, changed);
  return code;
}

ls_code Wait(ls_model* model, uint64_t ticket, ls_results* results, ls_error error) {
  // With kOverwritesResults, both steps of the double buffer use the same slot.
  const uint64_t slot = MUTANT == kOverwritesResults ? 0 : ticket;
  const ls_code code = Minimal().wait(model, ticket, results, error);
  if (code != LS_OK) return code;
  Spoiled().Waited(slot, kVocabulary, results,
                   [](std::vector<float>& logits, const ls_batch& batch, size_t i) {
                     const bool is_long = batch.entries[i].num_tokens > 16;
                     if (MUTANT == kCountsThreads)
                       logits[0] += 0.001f * static_cast<float>(num_threads);
                     if (MUTANT == kBatchDependent && batch.num_entries > 1) {
                       logits[0] = std::nextafter(logits[0], 100.0f);
                     }
                     if (MUTANT == kSeesCuts && is_long) logits[0] += 1.0f;
                     if (MUTANT == kMisscores) logits[0] += 1.0f;
                   });
  return LS_OK;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const ls_backend* longstream_backend() {
  static const ls_backend kBackend = [] {
    ls_backend backend = Minimal();
    if (MUTANT == kWrongAbi) {
      backend.abi_major = LS_ABI_MAJOR + 1;
      backend.model_open = nullptr;
      backend.submit = nullptr;
    }
    if (MUTANT == kLeaksOnReload || MUTANT == kLeaksMappings) backend.model_close = Close;
    if (MUTANT == kForksEmpty) backend.sequence_fork = Fork;
    if (MUTANT == kRestoresTooFar) backend.sequence_truncate = Truncate;
    if (MUTANT == kImportsDamage) backend.sequence_import = Import;
    if (MUTANT == kAttachesDamage) backend.import_attach = Attach;
    if (MUTANT == kSnapshotsLate) {
      backend.snapshot_begin = SnapshotBegin;
      backend.snapshot_read = SnapshotRead;
      backend.snapshot_free = SnapshotFree;
    }
    if (MUTANT == kReservesAnything) backend.sequence_reserve = Reserve;
    if (MUTANT == kIgnoresBudgets) backend.model_set_budget = SetBudget;
    // A late snapshot reads its sequence even after the host has freed it.
    if (MUTANT == kFreesNothing || MUTANT == kSnapshotsLate) backend.sequence_free = Free;
    if (MUTANT == kGoesBackTooFar) {
      backend.capabilities |= LS_CAP_LOOK_AHEAD;
      backend.sequence_truncate = TruncateToCheckpoint;
    }
    if (MUTANT >= kBatchDependent) {
      backend.model_open = Open;
      backend.submit = Submit;
      backend.wait = Wait;
    }
    return backend;
  }();
  return &kBackend;
}
