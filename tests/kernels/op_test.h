// Fixtures of all op tests: random data in guarded buffers, packed weights, streams, and
// comparisons whose messages name the op, the library and the index.
//
// A test of an op runs on every library that its program is linked with (ops_under_test.h). In this
// folder these are the CPU ops for every instruction set of the processor; in tests/simt they are
// the CUDA ops. A test compares the library with the reference:
//
//   class EmbedTest : public OpTest {};
//   LONGSTREAM_INSTANTIATE_OP_TEST(EmbedTest);
//   TEST_P(EmbedTest, MatchesTheReference) { ... ops().embed(...); reference().embed(...); ... }
#ifndef LONGSTREAM_TESTS_KERNELS_OP_TEST_H_
#define LONGSTREAM_TESTS_KERNELS_OP_TEST_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"
#include "kernels/ops/op_table.h"
#include "kernels/reference/reference_ops.h"
#include "tests/kernels/ops_under_test.h"

namespace longstream {

// The relative rounding error of one f32 operation.
inline constexpr double kEps = 0x1p-24;

// Reads or writes an element of `type`. Writing rounds to nearest, ties to even.
float LoadElement(DType type, const std::byte* from);
void StoreElement(DType type, float value, std::byte* to);
// `value` rounded to `type` (to nearest, ties to even), as f32.
float RoundTo(DType type, float value);

// Sizes that are no multiple of any register, panel or tile, and a few that are.
inline constexpr int64_t kOddSizes[] = {1, 2, 7, 16, 31, 32, 33, 65, 129};

// The types that a weight may be packed as.
inline constexpr DType kWeightTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kI8,
                                         DType::kI4};

// A random bit generator in the sense of the standard library (SplitMix64: Steele et al. 2014). It
// gives 64 bits at a time.
class RandomBits {
 public:
  using result_type = uint64_t;
  explicit RandomBits(uint64_t seed) : state_(seed) {}

  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return UINT64_MAX; }
  uint64_t operator()() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t bits = state_;
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
    return bits ^ bits >> 31;
  }

 private:
  uint64_t state_;
};

// Gives random numbers from a fixed seed. It is fast, because tests fill buffers with millions of
// them.
class Random {
 public:
  explicit Random(uint64_t seed) : bits_(seed) {}

  // A number of N(0, 1), as the sum of two numbers of a table. There are 2^23 different sums.
  float Normal() {
    const uint64_t bits = bits_();
    return normals_[bits % kTable] + normals_[bits / kTable % kTable];
  }
  // An integer of the uniform distribution on [low, high], both included.
  int64_t Integer(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(bits_);
  }
  std::vector<float> Normals(int64_t count, float scale = 1.0f);

 private:
  static constexpr size_t kTable = 4096;  // numbers; 16 KiB stay in a first-level cache
  static const float* Table();

  RandomBits bits_;
  const float* normals_ = Table();  // numbers of N(0, 1/2)
};

// Bytes, 64-byte aligned, between two guards. The destructor reports a change of a guard.
// AddressSanitizer ends the program at a read or write of a guard. The bytes are filled with 0xff
// (a NaN in every type), so a read of bytes that nobody wrote shows in the results. The guards are
// NaN too.
class Buffer {
 public:
  explicit Buffer(size_t size = 0);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer& other);
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  void Allocate(size_t size);
  void CheckGuards() const;

  std::byte* allocation_ = nullptr;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// A matrix that owns its elements. Its stride exceeds its number of columns. The gaps between its
// rows must stay untouched (CheckGaps).
class OwnedMatrix {
 public:
  OwnedMatrix() = default;
  OwnedMatrix(OwnedMatrix&&) noexcept = default;
  OwnedMatrix& operator=(OwnedMatrix&&) noexcept = default;
  // A copy with elements of its own.
  OwnedMatrix(const OwnedMatrix& other);
  OwnedMatrix& operator=(const OwnedMatrix&) = delete;
  // Elements are NaN.
  OwnedMatrix(int64_t rows, int64_t cols, DType type = DType::kF32);
  // Elements are scale * N(0, 1), rounded to type.
  OwnedMatrix(int64_t rows, int64_t cols, Random& random, float scale = 1.0f,
              DType type = DType::kF32);

  const Matrix& view() const { return view_; }
  int64_t rows() const { return view_.rows; }
  int64_t cols() const { return view_.cols; }
  float at(int64_t row, int64_t col) const;
  void set(int64_t row, int64_t col, float value);
  // Reports a write to a gap between rows.
  void CheckGaps() const;

 private:
  std::byte* element(int64_t row, int64_t col) const;

  Buffer buffer_;
  Matrix view_;
};

// A weight, packed for one kernel library at a time.
class OwnedWeight {
 public:
  // Takes the elements of `source` [n, k]. The type of `source` is `type`, or f32 for int8 and
  // int4.
  OwnedWeight(OwnedMatrix source, DType type);
  // Elements are N(0, 1) / sqrt(k), rounded to `type`, or to f32 for int8 and int4.
  OwnedWeight(int64_t n, int64_t k, DType type, Random& random);

  // Packs the weight for `ops` and compresses it. The view is valid until the weight is destroyed.
  PackedWeight Pack(const OpTable& ops);
  float at(int64_t row, int64_t col) const { return source_.at(row, col); }
  // The elements [n, k] without gaps, of type source_type().
  const void* source() const { return rows_.data(); }
  DType source_type() const { return source_.view().type; }

 private:
  DType type_;
  OwnedMatrix source_;
  Buffer rows_;
  std::vector<Buffer> packed_;
};

// Rows and a weight that give the largest sums of integers. All integers are the largest of their
// types, and the products of a sum all have one sign (with int4, all but one of each group). Signs
// change every `period` inputs and from row to row. The magnitudes of outputs are at most 1.
OwnedMatrix FlatRows(int64_t rows, int64_t k, int64_t period);
OwnedWeight FlatWeight(int64_t n, int64_t k, DType type, int64_t period);
// The allowed error of such an output, whatever the order of its sum.
double FlatTolerance(int64_t k);

// A stream with a guarded workspace of exactly the size that the op states.
class OwnedStream {
 public:
  explicit OwnedStream(size_t workspace_bytes, const Executor& executor = {});

  Stream& operator*() { return stream_; }
  Stream* operator->() { return &stream_; }

 private:
  Buffer workspace_;
  Stream stream_;
};

// The allowed error of an f32 sum of k products h[i] w[i], with h ~ N(0, 1) and w as in
// OwnedWeight. The sum itself may have an error of 4 sqrt(k) eps sum |h w|; random rounding errors
// exceed this with a probability of at most 1e-3 (Higham and Mary 2019). The few operations around
// the sum may add eps.
double DotTolerance(int64_t k);
// The error that one h[i] adds to DotTolerance if the library and the reference round it to two
// neighbouring numbers. They are bf16 or int8 numbers, as the type of the weight says. This can
// happen near the middle between the two numbers, and only to an h that is computed (normalised or
// gated).
double RowRoundingTolerance(DType weight_type, int64_t k);

// An executor over a pool of `num_threads` threads. The pools live as long as the process.
Executor ExecutorOf(uint32_t num_threads);

// Fails unless |actual - expected| <= absolute + relative * |expected| for every element; NaN
// equals only NaN. The message names `what` and the first index at which this does not hold.
void ExpectNear(const Matrix& actual, const Matrix& expected, double absolute, double relative,
                const std::string& what);
// Fails unless all elements have the same bits. The message names `what` and the first index that
// differs.
void ExpectSameBits(const Matrix& actual, const Matrix& expected, const std::string& what);

// The base of the tests of one op. The test's parameter names a library.
class OpTest : public testing::TestWithParam<std::string> {
 protected:
  const OpTable& ops() const { return OpsUnderTest(GetParam()); }
  LibraryTraits traits() const { return TraitsUnderTest(GetParam()); }
  const OpTable& reference() const { return ReferenceOps(); }
  // The thread counts on which an op must give the same bits. Interpreted libraries have one
  // thread.
  std::vector<uint32_t> ThreadCounts() const {
    return traits().interpreted ? std::vector<uint32_t>{1} : std::vector<uint32_t>{1, 2, 3};
  }
};

#define LONGSTREAM_INSTANTIATE_OP_TEST(Test)                                   \
  INSTANTIATE_TEST_SUITE_P(Library, Test, testing::ValuesIn(NamesUnderTest()), \
                           [](const auto& param_info) { return param_info.param; })

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_KERNELS_OP_TEST_H_
