// Loads packed weights from a checkpoint, or from the file that an earlier start has kept.
#include "backends/packing/load_weights.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "backends/model/layers.h"
#include "backends/packing/packed_cache.h"
#include "backends/packing/weight_memory.h"
#include "backends/packing/weight_reader.h"

namespace longstream {
namespace {

const TensorRoot& RootIn(const Checkpoint& checkpoint, const TensorNames& names) {
  for (const TensorRoot& root : names.roots) {
    const std::string embedding = std::string(root.prefix) + std::string(names.embedding);
    if (checkpoint.Find(embedding + ".weight") != nullptr) return root;
  }
  return names.roots.front();
}

ModelWeights Read(const ModelSpec& spec, const TensorRoot& root, WeightReader& reader) {
  ModelWeights weights = ReadWeights(spec, root, reader);
  reader.RefuseUnread(spec.names.ignored);
  return weights;
}

}  // namespace

ModelWeights LoadWeights(const ModelSpec& spec, const Checkpoint& checkpoint,
                         const LoadOptions& options, const OpTable& ops, const Executor& executor,
                         Device& device, const LoadLog& log) {
  using Mode = WeightReader::Mode;
  const TensorRoot& root = RootIn(checkpoint, spec.names);
  WeightReader check(Mode::kCheck, checkpoint, options, ops, executor, device);
  Read(spec, root, check);
  const PackedWeightsPlan& plan = check.plan();

  OwnedMemory memory;
  std::optional<WeightTotals> totals;
  std::optional<PackedCache> cache;
  const auto bytes = [&] { return std::span(static_cast<std::byte*>(memory.get()), plan.bytes); };
  if (device.host_memory()) {
    cache.emplace(options, checkpoint, ops, plan, log);
    memory = AllocateWeights(device, plan.bytes);
    totals = cache->Read(bytes(), executor);
  }
  const Mode mode = totals ? Mode::kPlace : Mode::kPack;
  if (!totals) {
    memory.reset();  // free the old memory before taking new memory
    memory = AllocateWeights(device, plan.bytes);
  }
  WeightReader reader(mode, checkpoint, options, ops, executor, device, bytes().data());
  ModelWeights weights = Read(spec, root, reader);
  if (!totals) {
    checkpoint.RequireUnwritten();
    totals = reader.totals();
    if (cache) cache->Write(bytes(), *totals, executor);
  }
  weights.num_parameters = totals->num_parameters;
  weights.fingerprint = totals->fingerprint;
  weights.bytes = plan.bytes;
  weights.storage.push_back(std::move(memory));
  return weights;
}

}  // namespace longstream
