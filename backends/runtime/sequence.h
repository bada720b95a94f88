// The ABI's sequence handle.
#ifndef LONGSTREAM_BACKENDS_RUNTIME_SEQUENCE_H_
#define LONGSTREAM_BACKENDS_RUNTIME_SEQUENCE_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "backends/api/backend.h"
#include "backends/caches/sequence_cache.h"

struct ls_sequence {
  explicit ls_sequence(std::unique_ptr<longstream::SequenceCache> sequence_cache)
      : cache(std::move(sequence_cache)) {}

  const std::unique_ptr<longstream::SequenceCache> cache;
  // The sample that LS_TOKEN_FROM_PREVIOUS refers to.
  uint64_t sampled_by = 0;    // the last ticket that samples for the sequence; 0: none
  int32_t sampled_index = 0;  // index among the rows that this ticket samples
};

#endif  // LONGSTREAM_BACKENDS_RUNTIME_SEQUENCE_H_
