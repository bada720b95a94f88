// Defines the functions of cuBLASLt that are used here. Each calls the function of the same name in
// the library. A plugin that was linked with the library could not be loaded on a machine without
// it, and so could not tell the user what to install.
#include "kernels/cuda/cublaslt/cublaslt_library.h"

#include <cublasLt.h>
#include <dlfcn.h>

namespace longstream::cuda {
namespace {

#define LONGSTREAM_TEXT_OF(value) LONGSTREAM_TEXT_OF_EXPANDED(value)
#define LONGSTREAM_TEXT_OF_EXPANDED(value) #value
constexpr const char* kName = "libcublasLt.so." LONGSTREAM_TEXT_OF(CUBLAS_VER_MAJOR);

struct Library {
  void* handle = nullptr;
  std::string why;

  // The library stays loaded. A process loads it once for all plugins.
  Library() {
    const std::string in_toolkit = std::string("/usr/local/cuda/lib64/") + kName;
    for (const char* file : {kName, in_toolkit.c_str()}) {
      handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
      if (handle != nullptr) return;
      if (why.empty()) why = dlerror();
    }
  }
};

const Library& TheLibrary() {
  static const Library library;
  return library;
}

// The library's function for which kStub stands; nullptr if the library has none.
template <auto* kStub>
decltype(kStub) Function(const char* name) {
  const Library& library = TheLibrary();
  if (library.handle == nullptr) return nullptr;
  return reinterpret_cast<decltype(kStub)>(dlsym(library.handle, name));
}

template <auto* kStub, typename... Arguments>
cublasStatus_t Call(const char* name, Arguments... arguments) {
  static auto* const function = Function<kStub>(name);
  return function == nullptr ? CUBLAS_STATUS_NOT_INITIALIZED : function(arguments...);
}

}  // namespace

const std::string& LoadCublasLt() {
  static const std::string why =
      TheLibrary().handle != nullptr
          ? ""
          : TheLibrary().why + "; install the cuBLAS of CUDA " LONGSTREAM_TEXT_OF(
                                   CUBLAS_VER_MAJOR) " or name its directory in LD_LIBRARY_PATH";
  return why;
}

}  // namespace longstream::cuda

using longstream::cuda::Call;

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* light_handle) {
  return Call<cublasLtCreate>("cublasLtCreate", light_handle);
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t light_handle) {
  return Call<cublasLtDestroy>("cublasLtDestroy", light_handle);
}

size_t cublasLtGetVersion(void) {
  static auto* const function =
      longstream::cuda::Function<cublasLtGetVersion>("cublasLtGetVersion");
  return function == nullptr ? 0 : function();
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t light_handle, cublasLtMatmulDesc_t compute_desc,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_desc,
                              const void* b, cublasLtMatrixLayout_t b_desc, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_desc, void* d,
                              cublasLtMatrixLayout_t d_desc, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, size_t workspace_size_in_bytes,
                              cudaStream_t stream) {
  return Call<cublasLtMatmul>("cublasLtMatmul", light_handle, compute_desc, alpha, a, a_desc, b,
                              b_desc, beta, c, c_desc, d, d_desc, algo, workspace,
                              workspace_size_in_bytes, stream);
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t light_handle,
                                       cublasLtMatmulDesc_t operation_desc,
                                       cublasLtMatrixLayout_t a_desc, cublasLtMatrixLayout_t b_desc,
                                       cublasLtMatrixLayout_t c_desc, cublasLtMatrixLayout_t d_desc,
                                       const cublasLtMatmulAlgo_t* algo,
                                       cublasLtMatmulHeuristicResult_t* result) {
  return Call<cublasLtMatmulAlgoCheck>("cublasLtMatmulAlgoCheck", light_handle, operation_desc,
                                       a_desc, b_desc, c_desc, d_desc, algo, result);
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attr,
                                                    void* buf, size_t size_in_bytes,
                                                    size_t* size_written) {
  return Call<cublasLtMatmulAlgoConfigGetAttribute>("cublasLtMatmulAlgoConfigGetAttribute", algo,
                                                    attr, buf, size_in_bytes, size_written);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t light_handle, cublasLtMatmulDesc_t operation_desc,
    cublasLtMatrixLayout_t a_desc, cublasLtMatrixLayout_t b_desc, cublasLtMatrixLayout_t c_desc,
    cublasLtMatrixLayout_t d_desc, cublasLtMatmulPreference_t preference, int requested_algo_count,
    cublasLtMatmulHeuristicResult_t heuristic_results_array[], int* return_algo_count) {
  return Call<cublasLtMatmulAlgoGetHeuristic>(
      "cublasLtMatmulAlgoGetHeuristic", light_handle, operation_desc, a_desc, b_desc, c_desc,
      d_desc, preference, requested_algo_count, heuristic_results_array, return_algo_count);
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t matmul_desc, size_t size,
                                               cublasComputeType_t compute_type,
                                               cudaDataType_t scale_type) {
  return Call<cublasLtMatmulDescInit_internal>("cublasLtMatmulDescInit_internal", matmul_desc, size,
                                               compute_type, scale_type);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t matmul_desc,
                                              cublasLtMatmulDescAttributes_t attr, const void* buf,
                                              size_t size_in_bytes) {
  return Call<cublasLtMatmulDescSetAttribute>("cublasLtMatmulDescSetAttribute", matmul_desc, attr,
                                              buf, size_in_bytes);
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t pref, size_t size) {
  return Call<cublasLtMatmulPreferenceInit_internal>("cublasLtMatmulPreferenceInit_internal", pref,
                                                     size);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref,
                                                    cublasLtMatmulPreferenceAttributes_t attr,
                                                    const void* buf, size_t size_in_bytes) {
  return Call<cublasLtMatmulPreferenceSetAttribute>("cublasLtMatmulPreferenceSetAttribute", pref,
                                                    attr, buf, size_in_bytes);
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t mat_layout, size_t size,
                                                 cudaDataType type, uint64_t rows, uint64_t cols,
                                                 int64_t ld) {
  return Call<cublasLtMatrixLayoutInit_internal>("cublasLtMatrixLayoutInit_internal", mat_layout,
                                                 size, type, rows, cols, ld);
}

}  // extern "C"
