// The state of a thread of a block.
#ifndef LONGSTREAM_TESTS_SIMT_HARNESS_THREAD_H_
#define LONGSTREAM_TESTS_SIMT_HARNESS_THREAD_H_

#include <cstdint>

#include "tests/simt/harness/block.h"
#include "tests/simt/harness/copies.h"
#include "tests/simt/harness/fiber.h"
#include "tests/simt/harness/warpgroup.h"

namespace longstream::simt {

inline constexpr unsigned kWarp = 32;

enum class State { kReady, kBlockBarrier, kWarpOperation, kEarlierKernels, kDone };
enum class Operation {
  kBarrier,
  kBallot,
  kShuffle,
  kGather,
  // Operations of a warpgroup.
  kProduct,
  kProductFence,
  kProductCommit,
  kProductWait,
};

inline constexpr const char* kOperationNames[] = {"__syncwarp",     "a vote",      "a shuffle",
                                                  "an exchange",    "a product",   "wgmma's fence",
                                                  "wgmma's commit", "wgmma's wait"};

struct Thread {
  State state = State::kReady;
  unsigned number = 0;
  // The warp operation in which the thread waits.
  Operation operation = Operation::kBarrier;
  uint32_t mask = 0;
  unsigned from = 0;
  int predicate = 0;
  uint32_t ballot = 0;
  ShuffledBytes given;
  ShuffledBytes taken;
  GatheredBytes gathered;
  Fiber fiber;
  uint3 index{};
  Product product;  // the thread's part of its warpgroup's product

  Copies copies;
  bool has_awaited = false;        // has awaited the earlier kernels
  bool has_fenced_writes = false;  // has fenced its writes since the last barrier
};

}  // namespace longstream::simt

#endif  // LONGSTREAM_TESTS_SIMT_HARNESS_THREAD_H_
