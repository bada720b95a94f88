// The fixture of the tests of attention: histories of random queries, keys and values; steps that
// are cut from them; and the properties that each view of keys is tested for.
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

// All rows of one sequence: those of past steps and those of future steps.
struct AttentionHistory {
  AttentionHistory(int64_t tokens, const AttentionShape& shape, DType type, Random& random);

  OwnedMatrix q;       // [tokens, H * D]
  OwnedMatrix q_far;   // [tokens, H * D]
  OwnedMatrix k;       // [tokens, H_kv * D] of the pages' type, but f32 for int8 pages
  OwnedMatrix k_near;  // [tokens, H_kv * D] of the rings' type
  OwnedMatrix v;       // [tokens, H_kv * value_slices * D] of the type of k
};

// A sequence's part of a step: an index of a history, and some of the history's rows.
struct AttentionEntry {
  int64_t history = 0;
  TestSequence rows;
};

// The batch of a step, with the rows of all its entries one after the other.
struct AttentionStep {
  // `gap`: additional elements between two rows of k, k_near and v.
  AttentionStep(const std::vector<AttentionHistory>& histories,
                const std::vector<AttentionEntry>& entries, const std::vector<TestPlace>& places,
                int64_t gap = 0);

  TestBatch batch;
  OwnedMatrix q, q_far, k, k_near, v;
};

// The base of the tests of each view of keys. A derived class says how to run the op.
class AttentionTest : public OpTest {
 protected:
  // Makes histories of `tokens` tokens each, whose caches lie at scattered places.
  void MakeHistories(int64_t count, int64_t tokens, const AttentionShape& shape, DType type,
                     int32_t page_tokens = 16);

  // Runs the op. The caches hold the keys and values that the entries may read; all other elements
  // of the caches are NaN.
  virtual OwnedMatrix Run(const OpTable& table, const Executor& executor,
                          const std::vector<AttentionEntry>& entries) = 0;

  // The arguments of a call over `keys`. They have scale() and softcap_ and, over rings, window_.
  AttentionArgs Args(const KeyView& keys, const AttentionStep& step, const OwnedMatrix& out) const;
  // Runs the op with Args, with AlibiSlopes if alibi_ is set, and with the workspace that the op
  // needs.
  OwnedMatrix RunOver(const KeyView& keys, const AttentionStep& step, const OpTable& table,
                      const Executor& executor) const;
  // Expects that the library and the reference both refuse the call. REQUIRES: args.out holds NaN
  void ExpectRefused(const AttentionArgs& args) const;

  // Compares the library with the reference. If the library rounds queries, this rounds the queries
  // of the histories first, and they stay rounded.
  void ExpectMatch(const std::vector<AttentionEntry>& entries, const std::string& what);
  // Compares the library with the reference in one batch of decode rows and prefill pieces. The
  // pieces have many lengths and positions up to 300. Heads have several shapes.
  void ExpectMatchInMixedBatch(const std::string& what);
  // Compares the library with the reference over int8 pages, if the library serves them. All
  // integers of queries, keys and values are the largest of their types, and all products of a sum
  // have one sign. The heads are the widest, and the blocks of keys are whole. So sums of integers
  // reach their largest size.
  void ExpectMatchOfLargestIntegers();
  // Expects each entry of the mixed batch to have the same bits when it is computed alone.
  void ExpectSameBitsAlone();
  // Expects the mixed batch to have the same bits on 1, 2 and 3 threads.
  void ExpectSameBitsOnAnyThreads();
  // Expects a prefill of 300 tokens to have the same bits however it is cut.
  void ExpectSameBitsInPieces();
  // Tests values of several slices, up to as many as a task computes together. Compares them with
  // the reference. Expects the same bits in any batch, on one thread or two, and in pieces.
  void ExpectSlicesOfValues(const std::string& what);
  // Compares the mixed batch with the reference under several caps. Expects rows to have the same
  // bits alone, and a prefill to have the same bits in pieces.
  void ExpectMatchAndSameBitsWithSoftcap();

  // The pages of the current histories for a step.
  OwnedPages Pages(const std::vector<AttentionEntry>& entries, bool near_keys = false) const;
  // The rings for a step. They hold only the last window - 1 positions before each entry.
  OwnedRings Rings(const std::vector<AttentionEntry>& entries, int32_t window, int32_t slots,
                   bool near_keys) const;
  // `types` and, if the op is tested with int8 pages, kI8.
  std::vector<DType> AndInt8(std::vector<DType> types) const;
  float scale() const;
  // The slopes of ALiBi for H heads: [1, H], m_h = 2^(-8 h / H) for h = 1 ... H.
  OwnedMatrix AlibiSlopes() const;

  // The types of caches that the op is tested with.
  std::vector<DType> types_ = {DType::kF32, DType::kF16, DType::kBF16};
  AttentionShape shape_;
  DType type_ = DType::kF32;
  int32_t page_tokens_ = 16;
  std::vector<AttentionHistory> histories_;
  std::vector<TestPlace> places_;
  bool alibi_ = false;          // the op is run with AlibiSlopes
  float softcap_ = 0.0f;        // the cap of the scores; 0: none
  bool has_near_keys_ = false;  // bf16 keys of a ring beside pages of any type
  int32_t window_ = 64;         // tokens that a row sees (rings) or near tokens
  int32_t slack_ = 0;           // slots of a ring beyond the window
  int64_t row_gap_ = 0;  // additional elements between two rows of the step's keys and values
  size_t next_pair_ = 0;
  size_t mixed_batches_ = 0;
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
