// Writes a sequence's memory as a stream of bytes and reads it back: version 1 of the format in
// docs/snapshots.md.
#ifndef LONGSTREAM_BACKENDS_CACHES_SNAPSHOT_H_
#define LONGSTREAM_BACKENDS_CACHES_SNAPSHOT_H_

#include <cstdint>
#include <memory>

#include "backends/api/backend.h"
#include "backends/caches/sequence_cache.h"

namespace longstream {

// Writes the memory of a sequence: the tokens of its pages, the windows of its rings and its
// states. Does not write near rings. Sequences with equal memory give equal bytes. Throws
// BackendError: LS_FAILED_PRECONDITION if the sequence is failed, LS_UNAVAILABLE if the writer
// fails.
void ExportSequence(const SequenceCache& cache, uint64_t fingerprint, const ls_writer& writer);

// Reads exactly one snapshot. Checks its header before taking memory; if the rest is damaged, frees
// that memory. The near rings of the result are stale. Throws BackendError: LS_DATA_LOSS if a bit
// is damaged or the reader ends early; LS_FAILED_PRECONDITION if the fingerprint or the format
// version differs or the position is past `context_limit`; LS_RESOURCE_EXHAUSTED if the memory does
// not fit.
std::unique_ptr<SequenceCache> ImportSequence(CacheStore& store, uint64_t fingerprint,
                                              int64_t context_limit, const ls_reader& reader);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CACHES_SNAPSHOT_H_
