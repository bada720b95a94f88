// Where cuBLASLt comes from.
#ifndef LONGSTREAM_KERNELS_CUDA_CUBLASLT_CUBLASLT_LIBRARY_H_
#define LONGSTREAM_KERNELS_CUDA_CUBLASLT_CUBLASLT_LIBRARY_H_

#include <string>

namespace longstream::cuda {

// Loads cuBLASLt, once per process. "", or why it cannot be loaded. Its functions, which
// cublaslt_library.cc defines, fail where it could not. Thread-safe.
const std::string& LoadCublasLt();

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_CUBLASLT_CUBLASLT_LIBRARY_H_
