// The parts that the tests of attention share: histories of random queries, keys and values, steps
// cut from them, and the properties that attention is tested for over each view of keys.
#ifndef LONGSTREAM_TESTS_KERNELS_ATTENTION_FIXTURE_H_
#define LONGSTREAM_TESTS_KERNELS_ATTENTION_FIXTURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/kernels/cache_fixture.h"
#include "tests/kernels/op_test.h"

namespace longstream {

struct AttentionShape {
  int32_t num_heads = 1;
  int32_t num_kv_heads = 1;
  int32_t head_dim = 8;
  int32_t value_slices = 1;

  int32_t num_out_heads() const { return num_heads * value_slices; }
};

std::string NameOf(const AttentionShape& shape, DType type);

// Every row of one sequence, whether or not a step has come to it.
struct AttentionHistory {
  AttentionHistory(int64_t tokens, const AttentionShape& shape, DType type, Random& random);

  OwnedMatrix q;       // [tokens, H * D]
  OwnedMatrix q_far;   // [tokens, H * D]
  OwnedMatrix k;       // [tokens, H_kv * D] of the pages' type, f32 where that is int8
  OwnedMatrix k_near;  // [tokens, H_kv * D] of the rings' type
  OwnedMatrix v;       // [tokens, H_kv * value_slices * D] as k
};

// A sequence's part of a step: which history, and which of its rows.
struct AttentionEntry {
  int64_t history = 0;
  TestSequence rows;
};

// A step's batch and the rows of its histories, side by side.
struct AttentionStep {
  // `gap`: more elements between two rows of k, k_near and v.
  AttentionStep(const std::vector<AttentionHistory>& histories,
                const std::vector<AttentionEntry>& entries, const std::vector<TestPlace>& places,
                int64_t gap = 0);

  TestBatch batch;
  OwnedMatrix q, q_far, k, k_near, v;
};

// The tests of one view of keys derive from it and say how the op is run.
class AttentionTest : public OpTest {
 protected:
  // Histories of `tokens` tokens each, at scattered places.
  void MakeHistories(int64_t count, int64_t tokens, const AttentionShape& shape, DType type,
                     int32_t page_tokens = 16);

  // Runs the op on caches that hold what the entries' rows may read and NaN elsewhere.
  virtual OwnedMatrix Run(const OpTable& table, const Executor& executor,
                          const std::vector<AttentionEntry>& entries) = 0;

  // The arguments of a call over `keys` with scale(), softcap_ and, over rings, window_.
  AttentionArgs Args(const KeyView& keys, const AttentionStep& step, const OwnedMatrix& out) const;
  // Runs the op with Args, with AlibiSlopes where alibi_ is set, and with the workspace that it
  // needs.
  OwnedMatrix RunOver(const KeyView& keys, const AttentionStep& step, const OpTable& table,
                      const Executor& executor) const;
  // Neither the library nor the reference serves the call. REQUIRES: args.out holds NaN
  void ExpectRefused(const AttentionArgs& args) const;

  // Compares with the reference. Where the library rounds queries, the histories' are rounded from
  // then on.
  void ExpectMatch(const std::vector<AttentionEntry>& entries, const std::string& what);
  // Decode rows and prefill pieces of all lengths and positions up to 300, in one batch, for heads
  // of several shapes.
  void ExpectMatchInMixedBatch(const std::string& what);
  // Over int8 pages, where the op is tested with them: queries, keys and values whose integers are
  // the largest and whose products have one sign, for the widest heads and for blocks of as many
  // keys as there are. What sums of integers must hold.
  void ExpectMatchOfLargestIntegers();
  // Every entry of the mixed batch has the same bits alone.
  void ExpectSameBitsAlone();
  // The mixed batch has the same bits on 1, 2 and 3 threads.
  void ExpectSameBitsOnAnyThreads();
  // A prefill of 300 tokens has the same bits however it is cut.
  void ExpectSameBitsInPieces();
  // Values of several slices, among them as many as a task computes together: the reference, and
  // the same bits in any batch, on one thread or two, and in pieces.
  void ExpectSlicesOfValues(const std::string& what);
  // The mixed batch with caps of several sizes; and that its rows have the same bits alone, and a
  // prefill in pieces.
  void ExpectMatchAndSameBitsWithSoftcap();

  // Caches of the current histories for a step.
  OwnedPages Pages(const std::vector<AttentionEntry>& entries, bool near_keys = false) const;
  // Holds only the last window - 1 positions before each entry.
  OwnedRings Rings(const std::vector<AttentionEntry>& entries, int32_t window, int32_t slots,
                   bool near_keys) const;
  // And kI8 where the op is tested with it.
  std::vector<DType> AndInt8(std::vector<DType> types) const;
  float scale() const;
  // ALiBi's for H heads: [1, H], m_h = 2^(-8 h / H).
  OwnedMatrix AlibiSlopes() const;

  // Types of caches that the op is tested with.
  std::vector<DType> types_ = {DType::kF32, DType::kF16, DType::kBF16};
  AttentionShape shape_;
  DType type_ = DType::kF32;
  int32_t page_tokens_ = 16;
  std::vector<AttentionHistory> histories_;
  std::vector<TestPlace> places_;
  bool alibi_ = false;    // the op is run with AlibiSlopes
  float softcap_ = 0.0f;  // ... and with this cap
  int32_t window_ = 64;   // of rings: the tokens that a row sees, or those that are near
  int32_t slack_ = 0;     // slots of a ring beyond the window
  int64_t row_gap_ = 0;   // between two rows of the step's keys and values
  size_t next_pair_ = 0;
  Random random_{1};

 private:
  void ExpectSameBitsAlone(const AttentionShape& shape, DType type);
  void ExpectSameBitsInPieces(const AttentionShape& shape, DType type);
  void RoundQueries(const std::vector<AttentionEntry>& entries);
  double Tolerance(bool is_decode) const;
  double Int8Rounding() const;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_KERNELS_ATTENTION_FIXTURE_H_
