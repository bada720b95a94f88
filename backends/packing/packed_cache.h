// Keeps packed weights between starts. If a file of packed weights exists and fits the model, the
// weights are read from it. Otherwise they are packed from the checkpoint and written to the file.
// A bad file never keeps a model from loading: the log gets a line, and the weights are packed from
// the checkpoint.
#ifndef LONGSTREAM_BACKENDS_PACKING_PACKED_CACHE_H_
#define LONGSTREAM_BACKENDS_PACKING_PACKED_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "backends/checkpoint/checkpoint.h"
#include "backends/checkpoint/load_options.h"
#include "backends/packing/packed_file.h"
#include "kernels/core/executor.h"
#include "kernels/ops/op_table.h"

namespace longstream {

// Receives one sentence that says how the file was used, or why it was not used. `severity`: as of
// ls_host.log.
using LoadLog = std::function<void(int32_t severity, const std::string& sentence)>;

// The blocks that a model's file of packed weights must contain, and their size.
struct PackedWeightsPlan {
  std::string recipes;  // one line per block, in the order of memory: how the block is packed
  uint64_t bytes = 0;   // the bytes of all blocks together
};

// Processes that load the same model at the same time do not disturb each other: one writes the
// file, the others continue without it. Used by one thread.
class PackedCache {
 public:
  // If the option packed_cache is `auto`, the file is in the checkpoint's directory, and only
  // weights of at least kLeastBytes are kept. If it is `off`, there is no file. Any other value is
  // the directory of the file, for weights of any size. The file's name contains the type of the
  // weights, the ops and a hash of the plan (and of the checkpoint's path, if the option is a
  // directory), so each combination has its own file.
  static constexpr uint64_t kLeastBytes = uint64_t{64} << 20;

  // Borrows `checkpoint`.
  PackedCache(const LoadOptions& options, const Checkpoint& checkpoint, const OpTable& ops,
              const PackedWeightsPlan& plan, LoadLog log);

  // Fills `memory` with the weights of the file. nullopt: no file was read, and `memory` may hold
  // anything. REQUIRES: memory.size() is the plan's `bytes`.
  std::optional<WeightTotals> Read(std::span<std::byte> memory, const Executor& executor) const;

  // Writes weights that were packed from the checkpoint. Makes the directory of the file if it does
  // not exist. Does nothing if the checkpoint's files have changed since they were opened.
  void Write(std::span<const std::byte> memory, const WeightTotals& totals,
             const Executor& executor) const;

  // The path of the file; "": there is no file.
  const std::string& path() const { return path_; }

 private:
  const Checkpoint& checkpoint_;
  LoadLog log_;
  std::string path_;
  std::string key_;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_PACKING_PACKED_CACHE_H_
