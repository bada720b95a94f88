// Loads cuBLASLt.
#ifndef LONGSTREAM_KERNELS_CUDA_CUBLASLT_CUBLASLT_LIBRARY_H_
#define LONGSTREAM_KERNELS_CUDA_CUBLASLT_CUBLASLT_LIBRARY_H_

#include <string>

namespace longstream::cuda {

// Loads cuBLASLt, once per process. Returns "", or why it cannot be loaded. If it cannot be loaded,
// the functions of cuBLASLt (defined in cublaslt_library.cc) fail. Thread-safe.
const std::string& LoadCublasLt();

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_CUBLASLT_CUBLASLT_LIBRARY_H_
