// Tensors whose elements are computed from stored tensors while they are read.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_COMPUTED_TENSOR_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_COMPUTED_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "backends/checkpoint/tensor_file.h"
#include "kernels/core/executor.h"
#include "kernels/core/quantise.h"

namespace longstream {

// Is part of the recipes of integers and of floats of 8 bits. Raise it when their decoding, or the
// rounding to groups, changes for any stored bytes: then weights that were packed before are not
// used. (The key of packed weights has a hash of decoded blocks of GGUF files, so those need none.)
inline constexpr int kDecoderVersion = 1;

// A tensor that a file does not store as an array of elements: the weight of a quantised
// projection, rows in another order, one matrix of a stack of matrices. Readers see the name, the
// type and the shape of the tensor that the model asks for, and read whole rows.
//
// A row is one index of the first dimension. A vector's rows have one element each.
//
// Borrows the files that it reads. Immutable; safe to read from several threads.
class ComputedTensor {
 public:
  virtual ~ComputedTensor() = default;
  ComputedTensor(const ComputedTensor&) = delete;
  ComputedTensor& operator=(const ComputedTensor&) = delete;

  const Tensor& tensor() const { return tensor_; }

  // The path of the file that holds the first stored part, for error sentences.
  virtual const std::string& path() const = 0;

  // Says how the elements are computed from the stored tensors, in one line. Two tensors of one
  // file that have the same name, shape and recipe have the same elements, so the key of packed
  // weights contains it.
  virtual std::string recipe() const = 0;

  // Computes rows [first, first + rows) as elements of tensor().type, on all threads. `to` holds
  // `rows` rows. Uses memory for the stored bytes of these rows at most. LS_INVALID_ARGUMENT: a
  // stored value is invalid; the sentence names the file, the stored tensor and the value.
  // LS_DATA_LOSS: the file cannot be read.
  virtual void ReadRows(int64_t first, int64_t rows, std::byte* to,
                        const Executor& executor) const = 0;

  // Does the same for groups [rows, NumGroups(columns)] of the type tensor().groups. REQUIRES: the
  // tensor is a matrix and tensor().groups is set.
  virtual void ReadGroups(int64_t first, int64_t rows, WeightGroup* to,
                          const Executor& executor) const;

 protected:
  // LS_INVALID_ARGUMENT: the elements' bytes exceed 63 bits. `path`: of the file, for the sentence.
  ComputedTensor(Tensor tensor, const std::string& path);

 private:
  Tensor tensor_;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_COMPUTED_TENSOR_H_
