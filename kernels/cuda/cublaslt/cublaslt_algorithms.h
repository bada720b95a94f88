// cuBLASLt as a source of algorithms, and its description of a product.
#ifndef LONGSTREAM_KERNELS_CUDA_CUBLASLT_CUBLASLT_ALGORITHMS_H_
#define LONGSTREAM_KERNELS_CUDA_CUBLASLT_CUBLASLT_ALGORITHMS_H_

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "kernels/cuda/cublaslt/algorithm_choice.h"

namespace longstream::cuda {

// The alignment in bytes of every weight and every prepared row (weight.cuh).
inline constexpr uint32_t kOperandAlignment = 16;

inline bool Ok(cublasStatus_t status) { return status == CUBLAS_STATUS_SUCCESS; }

// The operands of a product as cuBLASLt, which is column-major, describes them: out^T [n, rows] =
// op_T(W^T [k, n]) rows^T [k, rows]. The object holds cuBLASLt's descriptions itself, without an
// allocation.
class ProductDescription {
 public:
  ProductDescription(const ProductShape& shape, int64_t num_rows);

  bool ok() const { return ok_; }
  cublasLtMatmulDesc_t operation() { return &operation_; }
  cublasLtMatrixLayout_t weight() { return &weight_; }
  cublasLtMatrixLayout_t rows() { return &rows_; }
  cublasLtMatrixLayout_t out() { return &out_; }

 private:
  cublasLtMatmulDescOpaque_t operation_;
  cublasLtMatrixLayoutOpaque_t weight_;
  cublasLtMatrixLayoutOpaque_t rows_;
  cublasLtMatrixLayoutOpaque_t out_;
  bool ok_ = false;
};

cublasLtMatmulAlgo_t ToCublasLt(const Algorithm& algorithm);

// Measures products with an existing weight. While the object lives, it has its own GPU memory for
// rows and results. If the GPU has no memory to spare, nothing can be measured. The values of the
// operands hardly change the time. REQUIRES: the handle's device is current; `stream` is not being
// captured.
class CublasLtAlgorithms final : public AlgorithmSource {
 public:
  CublasLtAlgorithms(cublasLtHandle_t handle, const void* weight, cudaStream_t stream);
  ~CublasLtAlgorithms() override;

  std::vector<Algorithm> Propose(const ProductShape& shape, int64_t rows, size_t most) override;
  bool SumsInOneSequence(const Algorithm& algorithm) override;
  bool Serves(const ProductShape& shape, int64_t rows, const Algorithm& algorithm) override;
  double Seconds(const ProductShape& shape, int64_t rows, const Algorithm& algorithm) override;

 private:
  // The milliseconds of one product that runs after the caches were filled with other data;
  // negative if it failed.
  float ColdMilliseconds(const ProductShape& shape, int64_t rows,
                         const cublasLtMatmulAlgo_t& algorithm);
  bool Reserve(size_t size);

  // Handles; NOLINTBEGIN(misc-misplaced-const)
  const cublasLtHandle_t handle_;
  const void* const weight_;
  const cudaStream_t stream_;
  // NOLINTEND(misc-misplaced-const)
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
  std::byte* memory_ = nullptr;
  size_t memory_size_ = 0;
};

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_CUBLASLT_CUBLASLT_ALGORITHMS_H_
