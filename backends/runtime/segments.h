// The ABI's handles of snapshots and imports.
#ifndef LONGSTREAM_BACKENDS_RUNTIME_SEGMENTS_H_
#define LONGSTREAM_BACKENDS_RUNTIME_SEGMENTS_H_

#include <cstdint>

#include "backends/api/backend.h"
#include "backends/caches/segments/cache_import.h"
#include "backends/caches/segments/cache_snapshot.h"

struct ls_snapshot {
  ls_snapshot(longstream::SequenceCache& cache, uint64_t from, uint64_t fingerprint,
              longstream::SnapshotMemoryPool& pool)
      : caches(cache, from, fingerprint, pool) {}

  longstream::CacheSnapshot caches;
};

struct ls_import {
  ls_import(int64_t position, uint64_t fingerprint, int64_t context_limit,
            longstream::SnapshotMemoryPool& pool)
      : caches(position, fingerprint, context_limit, pool) {}

  longstream::CacheImport caches;
};

#endif  // LONGSTREAM_BACKENDS_RUNTIME_SEGMENTS_H_
