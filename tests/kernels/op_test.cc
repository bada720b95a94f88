// The fixtures of all op tests.
#include "tests/kernels/op_test.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "kernels/core/quantise.h"
#include "kernels/core/thread_pool.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace longstream {
namespace {

constexpr size_t kGuardBytes = 64;
constexpr std::byte kUnwritten{0xff};
constexpr std::align_val_t kAlignment{64};
constexpr int64_t kGapElements = 3;

// A byte of a guard. Read as an element of two or four bytes, a guard is NaN in every type, so a
// result shows that it was computed from a guard. As f32 and bf16 it is a signalling NaN. No
// operation returns a signalling NaN, so writing back such a result changes the guard and shows
// too.
std::byte GuardAt(const std::byte* at) {
  return reinterpret_cast<uintptr_t>(at) % 2 == 0 ? std::byte{0xa5} : std::byte{0x7f};
}

void FillGuard(std::byte* guard) {
  for (std::byte* at = guard; at < guard + kGuardBytes; ++at) *at = GuardAt(at);
}

// Between Forbid and Allow, AddressSanitizer ends the program if it reads or writes a byte of the
// guard.
#if defined(__SANITIZE_ADDRESS__)
void Forbid(const std::byte* guard) { __asan_poison_memory_region(guard, kGuardBytes); }
void Allow(const std::byte* guard) { __asan_unpoison_memory_region(guard, kGuardBytes); }
#else
void Forbid(const std::byte*) {}
void Allow(const std::byte*) {}
#endif

float ElementOf(const Matrix& matrix, int64_t row, int64_t col) {
  const auto* data = static_cast<const std::byte*>(matrix.data);
  const int64_t offset = (row * matrix.stride + col) * static_cast<int64_t>(SizeOf(matrix.type));
  return LoadElement(matrix.type, data + offset);
}

std::string At(const std::string& what, int64_t row, int64_t col) {
  return what + " at [" + std::to_string(row) + ", " + std::to_string(col) + "]";
}

// The sign of an element in FlatRows and FlatWeight: 1 or -1.
float FlatSign(int64_t row, int64_t i, int64_t period) {
  return (row + i / period) % 2 == 0 ? 1.0f : -1.0f;
}

}  // namespace

float LoadElement(DType type, const std::byte* from) {
  if (type == DType::kF32) {
    float value;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, from, sizeof(bits));
  return type == DType::kBF16 ? ToF32(BF16{bits}) : ToF32(F16{bits});
}

void StoreElement(DType type, float value, std::byte* to) {
  if (type == DType::kF32) {
    std::memcpy(to, &value, sizeof(value));
    return;
  }
  const uint16_t bits = type == DType::kBF16 ? ToBF16(value).bits : ToF16(value).bits;
  std::memcpy(to, &bits, sizeof(bits));
}

float RoundTo(DType type, float value) {
  std::byte element[sizeof(float)];
  StoreElement(type, value, element);
  return LoadElement(type, element);
}

const float* Random::Table() {
  static const std::array<float, kTable> table = [] {
    std::array<float, kTable> normals{};
    std::mt19937_64 engine(1);  // always the same; NOLINT(bugprone-random-generator-seed)
    std::normal_distribution<float> normal(0.0f, std::sqrt(0.5f));
    for (float& value : normals) value = normal(engine);
    return normals;
  }();
  return table.data();
}

std::vector<float> Random::Normals(int64_t count, float scale) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = scale * Normal();
  return values;
}

Buffer::Buffer(size_t size) { Allocate(size); }

Buffer::~Buffer() {
  if (allocation_ == nullptr) return;
  Allow(allocation_);
  Allow(data_ + size_);
  CheckGuards();
  ::operator delete(allocation_, kAlignment);
}

Buffer::Buffer(Buffer&& other) noexcept
    : allocation_(std::exchange(other.allocation_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(allocation_, other.allocation_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Buffer::Buffer(const Buffer& other) {
  Allocate(other.size_);
  std::memcpy(data_, other.data_, size_);
}

void Buffer::Allocate(size_t size) {
  size_ = size;
  allocation_ = static_cast<std::byte*>(::operator new(size + 2 * kGuardBytes, kAlignment));
  data_ = allocation_ + kGuardBytes;
  FillGuard(allocation_);
  std::memset(data_, static_cast<int>(kUnwritten), size);
  FillGuard(data_ + size);
  Forbid(allocation_);
  Forbid(data_ + size);
}

void Buffer::CheckGuards() const {
  for (size_t i = 0; i < kGuardBytes; ++i) {
    const std::byte *before = allocation_ + i, *behind = data_ + size_ + i;
    if (*before != GuardAt(before)) ADD_FAILURE() << "written before a buffer of " << size_ << " B";
    if (*behind != GuardAt(behind)) ADD_FAILURE() << "written behind a buffer of " << size_ << " B";
  }
}

OwnedMatrix::OwnedMatrix(int64_t rows, int64_t cols, DType type)
    : buffer_(static_cast<size_t>(rows * (cols + kGapElements)) * SizeOf(type)),
      view_{buffer_.data(), type, rows, cols, cols + kGapElements} {}

OwnedMatrix::OwnedMatrix(int64_t rows, int64_t cols, Random& random, float scale, DType type)
    : OwnedMatrix(rows, cols, type) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) set(r, c, scale * random.Normal());
  }
}

OwnedMatrix::OwnedMatrix(const OwnedMatrix& other) : buffer_(other.buffer_), view_(other.view_) {
  view_.data = buffer_.data();
}

std::byte* OwnedMatrix::element(int64_t row, int64_t col) const {
  return buffer_.data() + static_cast<size_t>(row * view_.stride + col) * SizeOf(view_.type);
}

float OwnedMatrix::at(int64_t row, int64_t col) const {
  return LoadElement(view_.type, element(row, col));
}

void OwnedMatrix::set(int64_t row, int64_t col, float value) {
  StoreElement(view_.type, value, element(row, col));
}

void OwnedMatrix::CheckGaps() const {
  const size_t gap_bytes = kGapElements * SizeOf(view_.type);
  for (int64_t r = 0; r < rows(); ++r) {
    const std::byte* gap = element(r, cols());
    for (size_t i = 0; i < gap_bytes; ++i) {
      if (gap[i] != kUnwritten) ADD_FAILURE() << "written behind row " << r;
    }
  }
}

OwnedWeight::OwnedWeight(int64_t n, int64_t k, DType type, Random& random)
    : OwnedWeight(OwnedMatrix(n, k, random, 1.0f / std::sqrt(static_cast<float>(k)),
                              IsQuantised(type) ? DType::kF32 : type),
                  type) {}

OwnedWeight::OwnedWeight(OwnedMatrix source, DType type)
    : type_(type),
      source_(std::move(source)),
      rows_(static_cast<size_t>(source_.rows() * source_.cols()) * SizeOf(source_type())) {
  const size_t row_bytes = static_cast<size_t>(source_.cols()) * SizeOf(source_type());
  for (int64_t r = 0; r < source_.rows(); ++r) {
    std::memcpy(rows_.data() + static_cast<size_t>(r) * row_bytes, source_.view().Rows(r, 1).data,
                row_bytes);
  }
}

PackedWeight OwnedWeight::Pack(const OpTable& ops) {
  const Matrix& view = source_.view();
  Buffer& packed = packed_.emplace_back(ops.packed_bytes(type_, view.rows, view.cols));
  std::memset(packed.data(), 0, packed.size());
  ops.pack({}, {.source = rows_.data(),
                .source_type = view.type,
                .num_rows = view.rows,
                .first_row = 0,
                .destination = packed.data(),
                .type = type_,
                .n = view.rows,
                .k = view.cols});
  ops.compress({}, {packed.data(), type_, view.rows, view.cols});
  return {packed.data(), type_, view.rows, view.cols};
}

OwnedMatrix FlatRows(int64_t rows, int64_t k, int64_t period) {
  OwnedMatrix x(rows, k);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < k; ++i) x.set(r, i, FlatSign(r, i, period) / static_cast<float>(k));
  }
  return x;
}

OwnedWeight FlatWeight(int64_t n, int64_t k, DType type, int64_t period) {
  // 127 / 128 and 7 / 8 are exact. An int4 group stores 7, its largest number, as the byte 15. It
  // gets 7 only if it also holds a number that becomes -8.
  const float largest = type == DType::kI8 ? 127.0f / 128 : 7.0f / 8;
  OwnedMatrix source(n, k);
  for (int64_t r = 0; r < n; ++r) {
    for (int64_t i = 0; i < k; ++i) source.set(r, i, FlatSign(r, i, period) * largest);
    if (type == DType::kI8) continue;
    for (int64_t i = r % kGroupInputs; i < k; i += kGroupInputs) {
      source.set(r, i, -FlatSign(r, 0, period));
    }
  }
  return {std::move(source), type};
}

double FlatTolerance(int64_t k) { return static_cast<double>(k + 8) * kEps; }

OwnedStream::OwnedStream(size_t workspace_bytes, const Executor& executor)
    : workspace_(workspace_bytes) {
  stream_.executor = executor;
  stream_.workspace = workspace_.data();
  stream_.workspace_bytes = workspace_bytes;
}

double DotTolerance(int64_t k) { return 4 * static_cast<double>(k + 8) * kEps; }

double RowRoundingTolerance(DType weight_type, int64_t k) {
  // A bf16 |h| below 4 has steps of 2^-6. The steps of an int8 h are 1/127 of the largest |h|,
  // which is below 16, because h is a product of two normal numbers. |w| is below 4 / sqrt(k).
  const double largest_w = 4 / std::sqrt(static_cast<double>(k));
  if (IsQuantised(weight_type)) return 16.0 / 127 * largest_w;
  return weight_type == DType::kBF16 ? 0x1p-6 * largest_w : 0.0;
}

Executor ExecutorOf(uint32_t num_threads) {
  static std::mutex mutex;
  static std::map<uint32_t, std::unique_ptr<ThreadPool>> pools;
  std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<ThreadPool>& pool = pools[num_threads];
  if (pool == nullptr) pool = std::make_unique<ThreadPool>(num_threads);
  return pool->AsExecutor();
}

void ExpectNear(const Matrix& actual, const Matrix& expected, double absolute, double relative,
                const std::string& what) {
  ASSERT_EQ(actual.rows, expected.rows) << what;
  ASSERT_EQ(actual.cols, expected.cols) << what;
  for (int64_t r = 0; r < actual.rows; ++r) {
    for (int64_t c = 0; c < actual.cols; ++c) {
      const double a = ElementOf(actual, r, c);
      const double e = ElementOf(expected, r, c);
      const bool same = a == e || (std::isnan(a) && std::isnan(e));
      const bool near = std::abs(a - e) <= absolute + relative * std::abs(e);
      ASSERT_TRUE(same || near) << At(what, r, c) << ": " << a << " instead of " << e << ", off by "
                                << std::abs(a - e) << ", allowed "
                                << absolute + relative * std::abs(e);
    }
  }
}

void ExpectSameBits(const Matrix& actual, const Matrix& expected, const std::string& what) {
  ASSERT_EQ(actual.rows, expected.rows) << what;
  ASSERT_EQ(actual.cols, expected.cols) << what;
  for (int64_t r = 0; r < actual.rows; ++r) {
    for (int64_t c = 0; c < actual.cols; ++c) {
      const float a = ElementOf(actual, r, c);
      const float e = ElementOf(expected, r, c);
      ASSERT_EQ(std::bit_cast<uint32_t>(a), std::bit_cast<uint32_t>(e))
          << At(what, r, c) << ": " << a << " and " << e;
    }
  }
}

}  // namespace longstream
