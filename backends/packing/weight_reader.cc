// Tensors of a checkpoint, one by one, into packed weights and f32 vectors.
#include "backends/packing/weight_reader.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "backends/errors/device_failure.h"
#include "backends/errors/error.h"
#include "backends/errors/quote.h"
#include "backends/packing/convert.h"
#include "backends/packing/fingerprint.h"
#include "backends/packing/weight_memory.h"
#include "kernels/core/quantise.h"

namespace longstream {
namespace {

constexpr int64_t kWindowBytes = int64_t{16} << 20;  // bytes of the file that one read covers
// Elements that are converted at a time before packing.
constexpr int64_t kStageElements = int64_t{1} << 21;
constexpr int64_t kTaskElements = int64_t{1} << 16;  // elements that one task converts

// Splits a part's stored rows [first, first + rows) into runs that stay together when the part is
// reordered. Calls run(first stored row, number of rows, first row after reordering) for each run.
template <typename Run>
void ForEachRun(const WeightPart& part, int64_t first, int64_t rows, const Run& run) {
  if (part.order.empty()) return run(first, rows, first);
  const auto block = static_cast<int64_t>(part.order.size());
  const auto place = [&](int64_t row) {
    return row / block * block + part.order[static_cast<size_t>(row % block)];
  };
  const int64_t last = first + rows;
  for (int64_t begin = first; begin < last;) {
    int64_t end = begin + 1;
    while (end < last && place(end) == place(begin) + end - begin) ++end;
    run(begin, end - begin, place(begin));
    begin = end;
  }
}

// Applies a part's order to its numbers.
void Reorder(const WeightPart& part, float* numbers) {
  const size_t block = part.order.size();
  if (block == 0) return;
  std::vector<float> stored(block);
  for (float* begin = numbers; begin < numbers + part.rows; begin += block) {
    std::copy_n(begin, block, stored.begin());
    for (size_t i = 0; i < block; ++i) begin[part.order[i]] = stored[i];
  }
}

// The largest number that `type` holds. Only types whose range a stored weight may exceed are
// passed.
float LargestOf(DType type) {
  if (type == DType::kF16) return 65504.0f;
  return type == DType::kBF16 ? 0x1.fep127f : LargestWeight(type);
}

// The type in which a tensor is read if the model stores it as `type`: groups if they can be kept.
DType SourceType(const Tensor& tensor, DType type) {
  const bool kept = tensor.groups &&
                    (tensor.groups == type || (tensor.groups == DType::kI4 && type == DType::kI8));
  return kept ? *tensor.groups : *tensor.type;
}

// The place of the first group whose scale is not finite; groups.size(): there is none.
int64_t FirstWithoutScale(std::span<const WeightGroup> groups, const Executor& executor) {
  const auto size = static_cast<int64_t>(groups.size());
  constexpr int64_t kTaskGroups = kTaskElements / kGroupInputs;
  std::atomic<int64_t> first = size;
  const auto tasks = static_cast<uint32_t>((size + kTaskGroups - 1) / kTaskGroups);
  ParallelFor(executor, tasks, [&](uint32_t task) {
    const int64_t begin = task * kTaskGroups;
    for (int64_t i = begin; i < std::min(begin + kTaskGroups, size); ++i) {
      if (std::isfinite(ToF32(groups[static_cast<size_t>(i)].scale))) continue;
      int64_t before = first;
      while (i < before && !first.compare_exchange_weak(before, i)) {
      }
      return;
    }
  });
  return first;
}

// Old checkpoints carry buffers of rotary embeddings. Every reader computes them, so they are not
// read.
bool IsHarmlessTensor(std::string_view name) { return name.ends_with("rotary_emb.inv_freq"); }

}  // namespace

WeightReader::WeightReader(Mode mode, const Checkpoint& checkpoint, const LoadOptions& options,
                           const OpTable& ops, const Executor& executor, Device& device,
                           std::byte* memory)
    : mode_(mode),
      checkpoint_(checkpoint),
      options_(options),
      ops_(ops),
      executor_(executor),
      device_(device),
      memory_(memory) {}

std::string WeightReader::Names(const std::vector<WeightPart>& parts) const {
  std::string text;
  for (const WeightPart& part : parts) {
    text += " | " + part.name + " " + std::to_string(part.rows);
    if (part.all_rows() != part.rows) {
      text += " from " + std::to_string(part.first_row) + " of " + std::to_string(part.stored_rows);
    }
    if (const Tensor* tensor = checkpoint_.Find(part.name)) text += checkpoint_.RecipeOf(*tensor);
    if (part.order.empty()) continue;
    const uint64_t order = HashBytes(std::as_bytes(std::span(part.order)), Executor());
    text += " in the order of hash " + std::to_string(order);
  }
  return text;
}

template <typename Fill>
std::byte* WeightReader::Block(const std::string& recipe, size_t bytes, const Fill& fill) {
  const uint64_t offset = plan_.bytes;
  plan_.bytes += (bytes + kWeightAlignment - 1) / kWeightAlignment * kWeightAlignment;
  if (mode_ == Mode::kCheck) {
    plan_.recipes +=
        "at " + std::to_string(offset) + ", " + std::to_string(bytes) + " bytes: " + recipe + "\n";
    return nullptr;
  }
  std::byte* place = memory_ + offset;
  if (mode_ == Mode::kPlace) return place;
  if (device_.host_memory()) {
    fill(place);
    return place;
  }
  const OwnedMemory stage = AllocateHostWeights(bytes);
  fill(static_cast<std::byte*>(stage.get()));
  device_.Upload(place, stage.get(), bytes);
  RequireDone(device_.Synchronize(), "weights");
  return place;
}

const Tensor& WeightReader::TensorOf(const WeightPart& part, int64_t k) const {
  const int64_t rows = part.all_rows();
  if (part.stacked == 0) return checkpoint_.Get(part.name, std::array{rows, k});
  return checkpoint_.Get(part.name, std::array{part.stacked, rows / part.stacked, k});
}

DType WeightReader::TypeOf(const std::vector<WeightPart>& parts, int64_t k) const {
  std::vector<DType> own;
  for (const WeightPart& part : parts) {
    const Tensor& tensor = TensorOf(part, k);
    own.push_back(tensor.groups.value_or(*tensor.type));
  }
  if (options_.weights()) return *options_.weights();
  if (std::count(own.begin(), own.end(), own.front()) == std::ssize(own)) return own.front();
  return std::all_of(own.begin(), own.end(), IsQuantised) ? DType::kI8 : DType::kF32;
}

void WeightReader::ReadGroups(const Tensor& tensor, int64_t first, int64_t rows,
                              std::span<std::byte> to) {
  auto* const groups = reinterpret_cast<WeightGroup*>(to.data());
  const int64_t of_row = static_cast<int64_t>(to.size() / sizeof(WeightGroup)) / rows;
  checkpoint_.ReadGroups(tensor, first, rows, groups, executor_);
  const auto count = static_cast<size_t>(rows * of_row);
  const int64_t bad = FirstWithoutScale({groups, count}, executor_);
  if (bad == rows * of_row) return;
  const int64_t input = bad % of_row * kGroupInputs;
  throw BackendError(LS_INVALID_ARGUMENT,
                     checkpoint_.FileOf(tensor) + ": tensor " + Quoted(tensor.name) + ": row " +
                         std::to_string(first + bad / of_row) +
                         " has a scale or numbers from input " + std::to_string(input) +
                         " on that are not finite or too large for int8, expected finite ones");
}

template <typename Take>
void WeightReader::ReadPart(const WeightPart& part, int64_t row, DType type, const Take& take) {
  const Tensor& tensor = *checkpoint_.Find(part.name);
  const DType source = SourceType(tensor, type);
  const int64_t row_bytes = IsQuantised(source)
                                ? NumGroups(row) * static_cast<int64_t>(sizeof(WeightGroup))
                                : row * static_cast<int64_t>(SizeOf(source));
  const int64_t rows_at_once = std::max<int64_t>(kWindowBytes / row_bytes, 1);
  const int64_t begin = part.first_row * row;
  const int64_t end = begin + part.rows * row;
  const auto byte = [&](int64_t element) { return static_cast<size_t>(element / row * row_bytes); };
  // Only whole pieces are hashed here. The rest of a window waits for the next window.
  constexpr size_t kPiece = RunningHash::kPieceBytes;
  RunningHash bytes_hash(byte(end - begin));
  size_t waiting = 0;
  for (int64_t first = begin; first < end; first += rows_at_once * row) {
    const int64_t count = std::min(rows_at_once * row, end - first);
    buffer_.resize(std::max(buffer_.size(), kPiece + byte(count)));
    const std::span<std::byte> window = std::span(buffer_).subspan(kPiece, byte(count));
    if (IsQuantised(source)) {
      ReadGroups(tensor, first / row, count / row, window);
    } else {
      checkpoint_.Read(tensor, byte(first), window, executor_);
    }
    take(Window{tensor, source, row, row_bytes, first, count, window.data()});
    const size_t unhashed = waiting + window.size();
    const size_t ready = first + count == end ? unhashed : unhashed / kPiece * kPiece;
    bytes_hash.Add({window.data() - waiting, ready}, executor_);
    waiting = unhashed - ready;
    std::memmove(window.data() - waiting, window.data() + window.size() - waiting, waiting);
  }
  num_parameters_ += static_cast<uint64_t>(end - begin);
  uint64_t hash = bytes_hash.value();
  for (const int64_t extent : tensor.shape) hash = HashAppend(hash, static_cast<uint64_t>(extent));
  hash = HashAppend(hash, NameOf(source));
  const bool whole = part.rows == part.all_rows();
  const std::string from = whole ? "" : " from " + std::to_string(part.first_row);
  hashes_[tensor.name + from] = HashAppend(hash, NameOf(type));
}

template <typename Scan>
void WeightReader::ScanElements(const Window& window, int64_t begin, int64_t count, DType type,
                                const Scan& scan) {
  const int64_t tasks = (count + kTaskElements - 1) / kTaskElements;
  std::vector<int64_t> lost(static_cast<size_t>(tasks), -1);
  ParallelFor(executor_, static_cast<uint32_t>(tasks), [&](uint32_t task) {
    const int64_t first = task * kTaskElements;
    lost[task] = scan(begin + first, std::min(kTaskElements, count - first));
  });
  for (int64_t task = 0; task < tasks; ++task) {
    if (lost[static_cast<size_t>(task)] < 0) continue;
    const int64_t element = begin + task * kTaskElements + lost[static_cast<size_t>(task)];
    float number = 0;
    Convert(window.At(element), window.type, 1, DType::kF32, &number);
    char text[64];
    std::snprintf(text, sizeof(text), "%g, beyond +-%g of ", number, LargestOf(type));
    throw BackendError(LS_INVALID_ARGUMENT, checkpoint_.FileOf(window.tensor) + ": tensor " +
                                                Quoted(window.tensor.name) + ": element " +
                                                std::to_string(element) + " is " + text +
                                                NameOf(type) + ", expected weights bf16 or f32");
  }
}

void WeightReader::ConvertElements(const Window& window, int64_t begin, int64_t count, DType type,
                                   std::byte* destination) {
  ScanElements(window, begin, count, type, [&](int64_t first, int64_t piece) {
    return Convert(window.At(first), window.type, piece, type,
                   destination + (first - begin) * static_cast<int64_t>(SizeOf(type)));
  });
}

void WeightReader::ReadNumbers(const WeightPart& part, int64_t row, std::byte* destination) {
  ReadPart(part, row, DType::kF32, [&](const Window& window) {
    const int64_t place = window.first - part.first_row * row;
    ConvertElements(window, window.first, window.count, DType::kF32,
                    destination + place * static_cast<int64_t>(sizeof(float)));
  });
}

void WeightReader::Pack(const Window& window, int64_t first, int64_t rows, int64_t first_row,
                        const PackedWeight& weight, void* destination) {
  PackArgs args;
  args.destination = destination;
  args.type = weight.type;
  args.n = weight.n;
  args.k = weight.k;
  const DType stored = window.type;
  const int64_t begin = first * weight.k;
  if (IsQuantised(weight.type) && !IsQuantised(stored)) {
    ScanElements(window, begin, rows * weight.k, weight.type, [&](int64_t from, int64_t count) {
      return FirstBeyond(window.At(from), stored, count, LargestWeight(weight.type));
    });
  }
  if (stored == weight.type || weight.type == DType::kF32 || IsQuantised(weight.type) ||
      (stored == DType::kF32 && weight.type == DType::kBF16)) {
    args.source = window.At(begin);
    args.source_type = stored;
    args.num_rows = rows;
    args.first_row = first_row;
    ops_.pack(executor_, args);
    return;
  }
  // Convert to a type that packing accepts.
  args.source_type = weight.type == DType::kF16 ? DType::kF16 : DType::kF32;
  const int64_t rows_at_once = std::clamp<int64_t>(kStageElements / weight.k, 1, rows);
  stage_.resize(std::max(stage_.size(), static_cast<size_t>(rows_at_once * weight.k)));
  for (int64_t row = 0; row < rows; row += rows_at_once) {
    args.num_rows = std::min(rows_at_once, rows - row);
    args.first_row = first_row + row;
    args.source = stage_.data();
    ConvertElements(window, begin + row * weight.k, args.num_rows * weight.k, args.source_type,
                    reinterpret_cast<std::byte*>(stage_.data()));
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

std::vector<PackedWeight> WeightReader::Alike(const std::vector<WeightPart>& parts, int64_t k) {
  const DType type = TypeOf(parts, k);
  std::vector<PackedWeight> weights;
  weights.reserve(parts.size());
  for (const WeightPart& part : parts) weights.push_back(Packed({part}, k, type));
  return weights;
}

PackedWeight WeightReader::Exact(const std::vector<WeightPart>& parts, int64_t k) {
  return Packed(parts, k, DType::kF32);
}

PackedWeight WeightReader::Packed(const std::vector<WeightPart>& parts, int64_t k, DType type) {
  PackedWeight weight;
  weight.type = type;
  weight.k = k;
  for (const WeightPart& part : parts) {
    read_.insert(part.name);
    TensorOf(part, k);
    weight.n += part.rows;
  }
  const std::string recipe =
      "weight " + std::string(NameOf(type)) + " of " + std::to_string(k) + " inputs" + Names(parts);
  weight.data = Block(recipe, ops_.packed_bytes(type, weight.n, k), [&](std::byte* block) {
    int64_t row = 0;
    for (const WeightPart& part : parts) {
      ReadPart(part, k, type, [&](const Window& window) {
        ForEachRun(part, window.first / k - part.first_row, window.count / k,
                   [&](int64_t from, int64_t rows, int64_t to) {
                     Pack(window, part.first_row + from, rows, row + to, weight, block);
                   });
      });
      row += part.rows;
    }
    ops_.compress(executor_, {block, type, weight.n, k});
  });
  return weight;
}

const float* WeightReader::Vector(const std::vector<WeightPart>& parts, float plus) {
  int64_t size = 0;
  for (const WeightPart& part : parts) {
    size += part.rows;
    if (part.name.empty()) continue;
    read_.insert(part.name);
    if (part.vector_cols == 0) {
      checkpoint_.Get(part.name, std::array{part.all_rows()});
    } else {
      checkpoint_.Get(part.name, std::array{part.all_rows() / part.vector_cols, part.vector_cols});
    }
  }
  const size_t bytes = static_cast<size_t>(size) * sizeof(float);
  const std::string recipe = (plus == 0.0f ? "vector" : "vector plus " + std::to_string(plus));
  return reinterpret_cast<const float*>(Block(recipe + Names(parts), bytes, [&](std::byte* to) {
    auto* const numbers = reinterpret_cast<float*>(to);
    for (const WeightPart& part : parts) {
      if (!part.name.empty()) {
        ReadNumbers(part, 1, to);
        Reorder(part, reinterpret_cast<float*>(to));
      }
      to += part.rows * static_cast<int64_t>(sizeof(float));
    }
    if (plus == 0.0f) return;
    for (int64_t i = 0; i < size; ++i) numbers[i] += plus;
  }));
}

Matrix WeightReader::Table(std::string_view name, int64_t rows, int64_t cols) {
  read_.emplace(name);
  checkpoint_.Get(name, std::array{rows, cols});
  const WeightPart part = {std::string(name), rows};
  const size_t bytes = static_cast<size_t>(rows * cols) * sizeof(float);
  std::byte* data =
      Block("table" + Names({part}), bytes, [&](std::byte* to) { ReadNumbers(part, cols, to); });
  return {data, DType::kF32, rows, cols, cols};
}

const float* WeightReader::Constants(std::span<const float> values) {
  const uint64_t hash = HashBytes(std::as_bytes(values), Executor());
  return reinterpret_cast<const float*>(
      Block("constants of hash " + std::to_string(hash), values.size_bytes(),
            [&](std::byte* to) { std::memcpy(to, values.data(), values.size_bytes()); }));
}

void WeightReader::RequireCopy(std::string_view name, std::string_view original) {
  const Tensor* copy = checkpoint_.Find(name);
  if (copy == nullptr) return;
  read_.emplace(name);
  if (mode_ == Mode::kCheck) {
    plan_.recipes.append(name).append(" equals ").append(original).append("\n");
  }
  if (mode_ != Mode::kPack) return;
  const Tensor& first = *checkpoint_.Find(original);
  bool same =
      copy->type == first.type && copy->type_name == first.type_name && copy->shape == first.shape;
  // Whole rows, because a computed tensor is read in rows.
  const uint64_t row_bytes = std::max<uint64_t>(
      first.num_bytes / std::max<uint64_t>(first.shape.empty() ? 1 : first.shape.front(), 1), 1);
  const uint64_t piece = std::max<uint64_t>(kWindowBytes / 2 / row_bytes, 1) * row_bytes;
  buffer_.resize(std::max<size_t>(buffer_.size(), 2 * std::min(piece, first.num_bytes)));
  for (uint64_t begin = 0; same && begin < first.num_bytes; begin += piece) {
    const size_t count = std::min<uint64_t>(piece, first.num_bytes - begin);
    const std::span<std::byte> one = std::span(buffer_).first(count);
    const std::span<std::byte> other = std::span(buffer_).subspan(count, count);
    checkpoint_.Read(*copy, begin, one, executor_);
    checkpoint_.Read(first, begin, other, executor_);
    same = std::memcmp(one.data(), other.data(), count) == 0;
  }
  if (!same) {
    throw BackendError(LS_INVALID_ARGUMENT, checkpoint_.FileOf(*copy) + ": tensor " + Quoted(name) +
                                                " must equal " + Quoted(original) +
                                                ", which the config ties it to");
  }
}

bool WeightReader::IsFillingBias(const Tensor& tensor) {
  constexpr std::string_view kEnd = ".bias";
  const std::string_view name = tensor.name;
  if (!name.ends_with(kEnd) || !tensor.type || tensor.shape.size() != 1) return false;
  const std::string weight = std::string(name.substr(0, name.size() - kEnd.size())) + ".weight";
  const Tensor* const matrix = checkpoint_.Find(weight);
  if (matrix == nullptr || matrix->shape.size() != 2 || !read_.contains(weight) ||
      checkpoint_.RecipeOf(*matrix).empty()) {
    return false;
  }
  const uint64_t most = kWindowBytes;
  for (uint64_t begin = 0; begin < tensor.num_bytes; begin += most) {
    buffer_.resize(std::max<size_t>(buffer_.size(), std::min(most, tensor.num_bytes)));
    const auto window = std::span(buffer_).first(std::min(most, tensor.num_bytes - begin));
    checkpoint_.Read(tensor, begin, window, executor_);
    if (std::any_of(window.begin(), window.end(), [](std::byte b) { return b != std::byte{0}; })) {
      return false;
    }
  }
  return true;
}

void WeightReader::RefuseUnread(std::span<const std::string_view> ignored) {
  for (const auto& [name, tensor] : checkpoint_.tensors()) {
    if (read_.contains(name) || IsHarmlessTensor(name)) continue;
    const std::string_view unread = name;
    if (std::any_of(ignored.begin(), ignored.end(),
                    [unread](std::string_view begin) { return unread.starts_with(begin); })) {
      continue;
    }
    // Only the first pass looks at them: it throws before the others begin.
    if (mode_ != Mode::kCheck || IsFillingBias(*tensor)) continue;
    throw BackendError(LS_UNIMPLEMENTED,
                       checkpoint_.FileOf(*tensor) + ": tensor " + Quoted(name) +
                           " is not read by this model, and leaving it out may change the "
                           "mathematics");
  }
}

WeightTotals WeightReader::totals() const {
  uint64_t fingerprint = hashes_.size();
  for (const auto& [name, hash] : hashes_) {
    fingerprint = HashAppend(HashAppend(fingerprint, name), hash);
  }
  return {num_parameters_, fingerprint};
}

}  // namespace longstream
