// A matrix product with operations before and after it: every projection of a mixer, both halves of
// an MLP, and the language-model head.
//
//   h[r, :] = (Norm(x[r, :]) + addend[addend_rows[r], :]) * sigmoid(gate[r, :])     or * silu(...)
//   y[r, :] = h[r, :] W^T + bias
//
//   out[r, :]  = scale * y[r, :]                             a projection
//   out[r, :] += scale * y[r, :]                             a branch; out is the residual stream
//   out[r, :]  = act(y[r, :])                                the first half of an MLP
//   out[r, :]  = act(y[r, :]) * (h[r, :] W_up^T + up_bias)   of a gated MLP (Shazeer 2020, SwiGLU)
//
// Each output of a product is one sum over the k inputs, in an order that is the same for every
// number of rows and threads. A library may use another order for decode rows (rows of generated
// tokens) than for prefill rows.
#ifndef LONGSTREAM_KERNELS_OPS_GEMM_LINEAR_H_
#define LONGSTREAM_KERNELS_OPS_GEMM_LINEAR_H_

#include <cstddef>
#include <cstdint>

#include "kernels/core/matrix.h"
#include "kernels/core/norm.h"
#include "kernels/core/stream.h"
#include "kernels/ops/gemm/activation.h"

namespace longstream {

struct LinearArgs;
using LinearFunction = void (*)(Stream& stream, const LinearArgs& args);

// Bytes that hold R rows of k numbers in any form. The largest form is f32, padded to 128 numbers.
constexpr size_t PreparedBytes(int64_t rows, int64_t k) {
  return static_cast<size_t>(rows) * ((static_cast<size_t>(k) + 127) / 128 * 128 * 4);
}

// Bytes of workspace for R rows of k inputs: the rows in the form that the weight multiplies and,
// with a second weight (LinearArgs::up), one product [R, up_n].
constexpr size_t LinearWorkspace(int64_t rows, int64_t k, int64_t up_n = 0) {
  return PreparedBytes(rows, k) + PreparedBytes(rows, up_n);
}

// Rows of f32, and the operations on them before the product.
struct LinearRows {
  Matrix x;                              // [R, k] f32; not modified
  Norm norm{};                           // size k; disabled: x is used as it is
  Matrix addend{};                       // [*, k] f32, e.g. chunk embeddings; data nullptr: none
  const int32_t* addend_rows = nullptr;  // [R] device
  Matrix gate{};                         // [R, k] logits; data nullptr: no gate
  bool silu_gate = false;                // multiply with silu(gate), not sigmoid(gate)
};

// The rows of a product together with its weight. The caller names rows of f32, or uses the rows
// that an earlier call has prepared for one weight, which LinearFor returns. A prepared input
// contains its weight and allows no operations before the product. So prepared rows cannot meet
// another weight.
class LinearInput {
 public:
  LinearInput() = default;  // a product without outputs
  LinearInput(const LinearRows& rows, const PackedWeight& weight) : rows_(rows), weight_(weight) {}

  const PackedWeight& weight() const { return weight_; }  // [n, k]

  // For kernel libraries only. Prepared rows are at rows().x.data, in the form that the library has
  // written. If a library prepares nothing, the rows there are f32 without gaps.
  const LinearRows& rows() const { return rows_; }
  bool is_prepared() const { return is_prepared_; }

 private:
  friend LinearInput LinearFor(const PackedWeight& reader, int64_t rows, void* memory,
                               LinearFunction linear, Stream& stream, LinearArgs args);

  LinearRows rows_;
  PackedWeight weight_;
  bool is_prepared_ = false;
};

// The output of a product: rows of f32, or rows that LinearFor prepares for their reader.
class LinearOutput {
 public:
  LinearOutput() = default;
  LinearOutput(const Matrix& f32) : rows_(f32) {}  // NOLINT(google-explicit-constructor)

  // [R, n]. Without a reader, the rows of the output are f32. With one, the library may write the
  // rows in the form that the product with the reader takes. They may then lie anywhere in the
  // PreparedBytes(R, n) bytes at rows().data, and the stride is n.
  const Matrix& rows() const { return rows_; }
  const PackedWeight& reader() const { return reader_; }  // data nullptr: none, write rows of f32

 private:
  friend LinearInput LinearFor(const PackedWeight& reader, int64_t rows, void* memory,
                               LinearFunction linear, Stream& stream, LinearArgs args);

  Matrix rows_;
  PackedWeight reader_;
};

// The op fails the stream with kUnsupported if IsServed() is false. It also does so if the library
// needs the workspace and the workspace is smaller than LinearWorkspace(R, k, up.n).
struct LinearArgs {
  LinearInput in;
  const float* bias = nullptr;  // [n] f32 or nullptr
  Activation activation = Activation::kNone;
  PackedWeight up{};               // [n, k], of the type of in.weight(); n 0: none
  const float* up_bias = nullptr;  // [n]; with `up`, both biases are given or neither
  float scale = 1.0f;
  bool accumulate = false;      // add to `out`
  int64_t num_decode_rows = 0;  // rows [0, num_decode_rows) of the R rows are decode rows
  LinearOutput out;             // has R rows; does not alias the input

  // Whether models use this combination of arguments. scale and accumulate are used only without an
  // activation, and `up` only with one. Prepared rows have as many numbers as their reader has
  // inputs, and they are not added to `out`.
  bool IsServed() const {
    const PackedWeight& reader = out.reader();
    if (reader.data != nullptr && (accumulate || reader.k != in.weight().n)) return false;
    if (activation == Activation::kNone) return up.n == 0;
    return scale == 1.0f && !accumulate && (up.n == 0 || up.type == in.weight().type);
  }
};

// Calls `linear` with `args`, whose `out` is ignored. Returns the product as the input of a later
// call that multiplies it with `reader`. So a library writes the rows only once, in the form that
// the later call reads. memory: PreparedBytes(rows, reader.k) bytes, 64-byte aligned. The returned
// input is valid until that memory is written again.
inline LinearInput LinearFor(const PackedWeight& reader, int64_t rows, void* memory,
                             LinearFunction linear, Stream& stream, LinearArgs args) {
  LinearInput prepared({.x = {memory, DType::kF32, rows, reader.k, reader.k}}, reader);
  prepared.is_prepared_ = true;
  args.out.rows_ = prepared.rows_.x;
  args.out.reader_ = reader;
  linear(stream, args);
  return prepared;
}

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_GEMM_LINEAR_H_
