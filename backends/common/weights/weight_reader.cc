// Tensors of a checkpoint, one by one, into packed weights and f32 vectors.
#include "backends/common/weights/weight_reader.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <new>

#include "backends/common/error.h"
#include "backends/common/weights/convert.h"
#include "backends/common/weights/fingerprint.h"
#include "backends/common/weights/quote.h"
#include "kernels/core/quantise.h"

namespace longstream {
namespace {

constexpr size_t kAlignment = 64;                     // what packed weights ask for
constexpr size_t kHugePage = size_t{2} << 20;         // x86-64
constexpr int64_t kWindowBytes = int64_t{16} << 20;   // of a file, resident at a time
constexpr int64_t kStageElements = int64_t{1} << 21;  // converted at once on their way to packing
constexpr int64_t kTaskElements = int64_t{1} << 16;   // converted by one task

int64_t Elements(const StoredTensor& tensor) {
  return static_cast<int64_t>(tensor.data.size() / SizeOf(*tensor.type));
}

bool IsAligned(const StoredTensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.data.data()) % SizeOf(*tensor.type) == 0;
}

// Buffers of rotary embeddings, which old checkpoints carry and every reader computes.
bool IsHarmlessTensor(std::string_view name) { return name.ends_with("rotary_emb.inv_freq"); }

}  // namespace

WeightReader::WeightReader(Mode mode, const Checkpoint& checkpoint, const LoadOptions& options,
                           const OpTable& ops, const Executor& executor, Device& device)
    : mode_(mode),
      checkpoint_(checkpoint),
      options_(options),
      ops_(ops),
      executor_(executor),
      device_(device) {}

WeightReader::HostBlock WeightReader::Allocate(size_t bytes) const {
  // Projections read their weights once per token: huge pages save the walks of page tables.
  const size_t alignment = bytes >= 4 * kHugePage ? kHugePage : kAlignment;
  const size_t size = std::max(bytes + alignment - 1, alignment) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, size);
  if (memory == nullptr) throw std::bad_alloc();
  HostBlock block{OwnedMemory(memory, std::free), size};
  if (alignment == kHugePage) madvise(memory, size, MADV_HUGEPAGE);
  std::memset(memory, 0, size);
  return block;
}

std::byte* WeightReader::Keep(HostBlock block) {
  const size_t size = block.size;
  if (!device_.host_memory()) {
    void* memory = device_.Allocate(size);
    if (memory == nullptr) {
      throw BackendError(LS_RESOURCE_EXHAUSTED,
                         "weights: the device has no " + std::to_string(size) + " bytes beside " +
                             std::to_string(bytes_) + ", " + std::to_string(device_.free_bytes()) +
                             " are free");
    }
    OwnedMemory owned(memory,
                      [&device = device_, size](void* data) { device.Release(data, size); });
    device_.Upload(memory, block.data(), size);
    if (device_.Synchronize() != OpStatus::kOk) {
      throw BackendError(LS_INTERNAL, "weights: the device reported a failure");
    }
    block.memory = std::move(owned);
  }
  bytes_ += size;
  storage_.push_back(std::move(block.memory));
  return static_cast<std::byte*>(storage_.back().get());
}

DType WeightReader::TypeOf(const std::vector<WeightPart>& parts, int64_t k) const {
  const auto stored = [&](const WeightPart& part) {
    return *checkpoint_.Get(part.name, std::array{part.rows, k}).type;
  };
  if (options_.weights()) return *options_.weights();
  const DType first = stored(parts.front());
  const bool same = std::all_of(parts.begin(), parts.end(),
                                [&](const WeightPart& part) { return stored(part) == first; });
  return same ? first : DType::kF32;
}

template <typename Read>
void WeightReader::ReadTensor(const StoredTensor& tensor, int64_t row, DType type,
                              const Read& read) {
  const int64_t elements = Elements(tensor);
  const auto element_bytes = static_cast<int64_t>(SizeOf(*tensor.type));
  const int64_t window = std::max<int64_t>(kWindowBytes / (row * element_bytes), 1) * row;
  RunningHash bytes_hash(tensor.data.size());
  size_t hashed = 0;
  for (int64_t first = 0; first < elements; first += window) {
    const int64_t count = std::min(window, elements - first);
    read(first, count);
    const auto end = static_cast<size_t>((first + count) * element_bytes);
    const size_t ready =
        first + count == elements ? end : end / RunningHash::kPieceBytes * RunningHash::kPieceBytes;
    bytes_hash.Add(tensor.data.subspan(hashed, ready - hashed), executor_);
    hashed = ready;
    // From the beginning again, for the page that the window before ended in.
    checkpoint_.Release(tensor, hashed);
  }
  num_parameters_ += static_cast<uint64_t>(elements);
  uint64_t hash = bytes_hash.value();
  for (const int64_t extent : tensor.shape) hash = HashAppend(hash, static_cast<uint64_t>(extent));
  hash = HashAppend(hash, NameOf(*tensor.type));
  hashes_[tensor.name] = HashAppend(hash, NameOf(type));
}

template <typename Scan>
void WeightReader::ScanElements(const StoredTensor& tensor, int64_t begin, int64_t count,
                                DType type, const Scan& scan) {
  const int64_t tasks = (count + kTaskElements - 1) / kTaskElements;
  std::vector<int64_t> lost(static_cast<size_t>(tasks), -1);
  ParallelFor(executor_, static_cast<uint32_t>(tasks), [&](uint32_t task) {
    const int64_t first = task * kTaskElements;
    lost[task] = scan(begin + first, std::min(kTaskElements, count - first));
  });
  for (int64_t task = 0; task < tasks; ++task) {
    if (lost[static_cast<size_t>(task)] < 0) continue;
    const int64_t element = begin + task * kTaskElements + lost[static_cast<size_t>(task)];
    throw BackendError(LS_INVALID_ARGUMENT,
                       checkpoint_.FileOf(tensor) + ": tensor " + Quoted(tensor.name) +
                           ": element " + std::to_string(element) + " is out of the range of " +
                           NameOf(type) + ", expected weights bf16 or f32");
  }
}

void WeightReader::ConvertElements(const StoredTensor& tensor, int64_t begin, int64_t count,
                                   DType type, std::byte* destination) {
  const auto stored_size = static_cast<int64_t>(SizeOf(*tensor.type));
  ScanElements(tensor, begin, count, type, [&](int64_t first, int64_t piece) {
    return Convert(tensor.data.data() + first * stored_size, *tensor.type, piece, type,
                   destination + (first - begin) * static_cast<int64_t>(SizeOf(type)));
  });
}

void WeightReader::Pack(const StoredTensor& tensor, int64_t first, int64_t rows, int64_t first_row,
                        const PackedWeight& weight, void* destination) {
  PackArgs args;
  args.destination = destination;
  args.type = weight.type;
  args.n = weight.n;
  args.k = weight.k;
  const DType stored = *tensor.type;
  const auto stored_size = static_cast<int64_t>(SizeOf(stored));
  const int64_t begin = first * weight.k;
  if (IsQuantised(weight.type)) {
    ScanElements(tensor, begin, rows * weight.k, weight.type, [&](int64_t from, int64_t count) {
      return FirstBeyond(tensor.data.data() + from * stored_size, stored, count,
                         LargestWeight(weight.type));
    });
  }
  if (IsAligned(tensor) &&
      (stored == weight.type || weight.type == DType::kF32 || IsQuantised(weight.type) ||
       (stored == DType::kF32 && weight.type == DType::kBF16))) {
    args.source = tensor.data.data() + begin * stored_size;
    args.source_type = stored;
    args.num_rows = rows;
    args.first_row = first_row;
    ops_.pack(executor_, args);
    return;
  }
  // Through a buffer of the type that packing can take it from.
  args.source_type = weight.type == DType::kF16 ? DType::kF16 : DType::kF32;
  const int64_t rows_at_once = std::clamp<int64_t>(kStageElements / weight.k, 1, rows);
  std::vector<float> stage(static_cast<size_t>(rows_at_once * weight.k));
  for (int64_t row = 0; row < rows; row += rows_at_once) {
    args.num_rows = std::min(rows_at_once, rows - row);
    args.first_row = first_row + row;
    args.source = stage.data();
    ConvertElements(tensor, begin + row * weight.k, args.num_rows * weight.k, args.source_type,
                    reinterpret_cast<std::byte*>(stage.data()));
    ops_.pack(executor_, args);
  }
}

PackedWeight WeightReader::Projection(const std::vector<WeightPart>& parts, int64_t k) {
  return Packed(parts, k, TypeOf(parts, k));
}

std::pair<PackedWeight, PackedWeight> WeightReader::Pair(const WeightPart& first,
                                                         const WeightPart& second, int64_t k) {
  const DType type = TypeOf({first, second}, k);
  return {Packed({first}, k, type), Packed({second}, k, type)};
}

PackedWeight WeightReader::Packed(const std::vector<WeightPart>& parts, int64_t k, DType type) {
  std::vector<const StoredTensor*> tensors;
  PackedWeight weight;
  weight.type = type;
  weight.k = k;
  for (const WeightPart& part : parts) {
    read_.insert(part.name);
    tensors.push_back(&checkpoint_.Get(part.name, std::array{part.rows, k}));
    weight.n += part.rows;
  }
  if (mode_ == Mode::kCheck) return weight;

  HostBlock block = Allocate(ops_.packed_bytes(weight.type, weight.n, weight.k));
  int64_t row = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const StoredTensor& tensor = *tensors[i];
    ReadTensor(tensor, k, weight.type, [&](int64_t first, int64_t count) {
      Pack(tensor, first / k, count / k, row + first / k, weight, block.data());
    });
    row += parts[i].rows;
  }
  weight.data = Keep(std::move(block));
  return weight;
}

const float* WeightReader::Vector(const std::vector<WeightPart>& parts) {
  int64_t size = 0;
  for (const WeightPart& part : parts) {
    size += part.rows;
    if (part.name.empty()) continue;
    read_.insert(part.name);
    checkpoint_.Get(part.name, std::array{part.rows});
  }
  if (mode_ == Mode::kCheck) return nullptr;

  HostBlock block = Allocate(static_cast<size_t>(size) * sizeof(float));
  std::byte* to = block.data();
  for (const WeightPart& part : parts) {
    if (!part.name.empty()) {
      const StoredTensor& tensor = *checkpoint_.Find(part.name);
      ReadTensor(tensor, 1, DType::kF32, [&](int64_t first, int64_t count) {
        ConvertElements(tensor, first, count, DType::kF32,
                        to + first * static_cast<int64_t>(sizeof(float)));
      });
    }
    to += part.rows * static_cast<int64_t>(sizeof(float));
  }
  return reinterpret_cast<const float*>(Keep(std::move(block)));
}

Matrix WeightReader::Table(std::string_view name, int64_t rows, int64_t cols) {
  read_.emplace(name);
  const StoredTensor& tensor = checkpoint_.Get(name, std::array{rows, cols});
  Matrix table{nullptr, DType::kF32, rows, cols, cols};
  if (mode_ == Mode::kCheck) return table;

  HostBlock block = Allocate(static_cast<size_t>(rows * cols) * sizeof(float));
  ReadTensor(tensor, cols, DType::kF32, [&](int64_t first, int64_t count) {
    ConvertElements(tensor, first, count, DType::kF32,
                    block.data() + first * static_cast<int64_t>(sizeof(float)));
  });
  table.data = Keep(std::move(block));
  return table;
}

const float* WeightReader::Constants(std::span<const float> values) {
  if (mode_ == Mode::kCheck) return nullptr;
  HostBlock block = Allocate(values.size_bytes());
  std::memcpy(block.data(), values.data(), values.size_bytes());
  return reinterpret_cast<const float*>(Keep(std::move(block)));
}

void WeightReader::RequireCopy(std::string_view name, std::string_view original) {
  const StoredTensor* copy = checkpoint_.Find(name);
  if (copy == nullptr) return;
  read_.emplace(name);
  if (mode_ == Mode::kCheck) return;
  const StoredTensor& first = *checkpoint_.Find(original);
  bool same = copy->type_name == first.type_name && copy->shape == first.shape;
  for (size_t begin = 0; same && begin < first.data.size(); begin += kWindowBytes) {
    const size_t count = std::min<size_t>(kWindowBytes, first.data.size() - begin);
    same = std::memcmp(copy->data.data() + begin, first.data.data() + begin, count) == 0;
    checkpoint_.Release(*copy, begin + count);
    checkpoint_.Release(first, begin + count);
  }
  if (!same) {
    throw BackendError(LS_INVALID_ARGUMENT, checkpoint_.FileOf(*copy) + ": tensor " + Quoted(name) +
                                                " must equal " + Quoted(original) +
                                                ", which the config ties it to");
  }
}

void WeightReader::RefuseUnread() const {
  for (const auto& [name, tensor] : checkpoint_.tensors()) {
    if (read_.contains(name) || IsHarmlessTensor(name)) continue;
    throw BackendError(LS_UNIMPLEMENTED,
                       checkpoint_.FileOf(*tensor) + ": tensor " + Quoted(name) +
                           " is not read by this model, and leaving it out may change the "
                           "mathematics");
  }
}

void WeightReader::Finish(ModelWeights* weights) {
  uint64_t fingerprint = hashes_.size();
  for (const auto& [name, hash] : hashes_) {
    fingerprint = HashAppend(HashAppend(fingerprint, name), hash);
  }
  weights->num_parameters = num_parameters_;
  weights->bytes = bytes_;
  weights->fingerprint = fingerprint;
  weights->storage = std::move(storage_);
}

}  // namespace longstream
