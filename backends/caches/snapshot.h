// A sequence's memory as a stream of bytes and back. Format: docs/snapshot-format.md.
#ifndef LONGSTREAM_BACKENDS_CACHES_SNAPSHOT_H_
#define LONGSTREAM_BACKENDS_CACHES_SNAPSHOT_H_

#include <cstdint>
#include <memory>

#include "backends/api/backend.h"
#include "backends/caches/sequence_cache.h"

namespace longstream {

// Writes what the sequence remembers: the tokens of its pages, the windows of its rings, its
// states. Two sequences that hold the same write the same bytes. Near rings are left out.
// Throws BackendError: LS_FAILED_PRECONDITION where the sequence is failed, LS_UNAVAILABLE where
// the writer gives up.
void ExportSequence(const SequenceCache& cache, uint64_t fingerprint, const ls_writer& writer);

// Reads one snapshot and no byte more. Its header is checked before any memory is taken; what is
// taken is given back where the rest is damaged. Near rings of the result are stale.
// Throws BackendError: LS_DATA_LOSS where a bit is damaged or the reader ends early,
// LS_FAILED_PRECONDITION for another fingerprint or format version or a position past
// `context_limit`, LS_RESOURCE_EXHAUSTED where it does not fit.
std::unique_ptr<SequenceCache> ImportSequence(CacheStore& store, uint64_t fingerprint,
                                              int64_t context_limit, const ls_reader& reader);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CACHES_SNAPSHOT_H_
