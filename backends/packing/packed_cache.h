// Packed weights kept between starts: read from a file where one is there and fits, written to it
// where none does. Nothing that is wrong with the file keeps a model from loading: it is told in a
// line of the log, and the weights are packed from the checkpoint.
#ifndef LONGSTREAM_BACKENDS_PACKING_PACKED_CACHE_H_
#define LONGSTREAM_BACKENDS_PACKING_PACKED_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "backends/checkpoint/load_options.h"
#include "backends/checkpoint/safetensors.h"
#include "backends/packing/packed_file.h"
#include "kernels/core/executor.h"
#include "kernels/ops/op_table.h"

namespace longstream {

// Told in one sentence what became of the file.
using LoadLog = std::function<void(const std::string& sentence)>;

// What of a model the file depends on.
struct PackedWeightsPlan {
  std::string recipes;  // what each block is made of, a line each, in the order of memory
  uint64_t bytes = 0;   // of all blocks
};

// Processes that load the same model at the same time do not disturb each other: one of them writes
// the file, the others go on without. Used by one thread.
class PackedCache {
 public:
  // `auto` in the options is a file in the checkpoint's directory for weights of kLeastBytes and
  // more; `off` is none; else the name of a directory, for weights of any size. The file's name has
  // the type of the weights, the ops, and a hash of the plan (and of the checkpoint's path, where
  // the directory is another): each combination has its own.
  static constexpr uint64_t kLeastBytes = uint64_t{64} << 20;

  // Borrows `checkpoint`.
  PackedCache(const LoadOptions& options, const Checkpoint& checkpoint, const OpTable& ops,
              const PackedWeightsPlan& plan, LoadLog log);

  // Fills `memory` with the weights. nullopt: it did not, and `memory` may hold anything.
  // REQUIRES: memory.size() is the plan's
  std::optional<WeightTotals> Read(std::span<std::byte> memory, const Executor& executor) const;

  // Keeps weights that have been packed from the checkpoint, unless its files have changed since
  // they were opened.
  void Write(std::span<const std::byte> memory, const WeightTotals& totals,
             const Executor& executor) const;

  // "" where there is to be none.
  const std::string& path() const { return path_; }

 private:
  const Checkpoint& checkpoint_;
  LoadLog log_;
  std::string path_;
  std::string key_;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_PACKING_PACKED_CACHE_H_
