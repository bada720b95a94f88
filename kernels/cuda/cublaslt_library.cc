// The functions of cuBLASLt that are used here, each calling the one of its name in the library. A
// plugin linked with the library itself could not be loaded where that is missing, and so could not
// say what to do.
#include "kernels/cuda/cublaslt_library.h"

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

  // It stays loaded: the process has it once, however many plugins use it.
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

// The function of the library that kStub stands for.
template <auto* kStub, typename... Arguments>
cublasStatus_t Call(const char* name, Arguments... arguments) {
  static auto* const function = [name]() -> decltype(kStub) {
    const Library& library = TheLibrary();
    if (library.handle == nullptr) return nullptr;
    return reinterpret_cast<decltype(kStub)>(dlsym(library.handle, name));
  }();
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

cublasStatus_t cublasLtCreate(cublasLtHandle_t* lightHandle) {
  return Call<cublasLtCreate>("cublasLtCreate", lightHandle);
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t lightHandle) {
  return Call<cublasLtDestroy>("cublasLtDestroy", lightHandle);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t computeDesc,
                              const void* alpha, const void* A, cublasLtMatrixLayout_t Adesc,
                              const void* B, cublasLtMatrixLayout_t Bdesc, const void* beta,
                              const void* C, cublasLtMatrixLayout_t Cdesc, void* D,
                              cublasLtMatrixLayout_t Ddesc, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, size_t workspaceSizeInBytes, cudaStream_t stream) {
  return Call<cublasLtMatmul>("cublasLtMatmul", lightHandle, computeDesc, alpha, A, Adesc, B, Bdesc,
                              beta, C, Cdesc, D, Ddesc, algo, workspace, workspaceSizeInBytes,
                              stream);
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t lightHandle,
                                       cublasLtMatmulDesc_t operationDesc,
                                       cublasLtMatrixLayout_t Adesc, cublasLtMatrixLayout_t Bdesc,
                                       cublasLtMatrixLayout_t Cdesc, cublasLtMatrixLayout_t Ddesc,
                                       const cublasLtMatmulAlgo_t* algo,
                                       cublasLtMatmulHeuristicResult_t* result) {
  return Call<cublasLtMatmulAlgoCheck>("cublasLtMatmulAlgoCheck", lightHandle, operationDesc, Adesc,
                                       Bdesc, Cdesc, Ddesc, algo, result);
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attr,
                                                    void* buf, size_t sizeInBytes,
                                                    size_t* sizeWritten) {
  return Call<cublasLtMatmulAlgoConfigGetAttribute>("cublasLtMatmulAlgoConfigGetAttribute", algo,
                                                    attr, buf, sizeInBytes, sizeWritten);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t operationDesc, cublasLtMatrixLayout_t Adesc,
    cublasLtMatrixLayout_t Bdesc, cublasLtMatrixLayout_t Cdesc, cublasLtMatrixLayout_t Ddesc,
    cublasLtMatmulPreference_t preference, int requestedAlgoCount,
    cublasLtMatmulHeuristicResult_t heuristicResultsArray[], int* returnAlgoCount) {
  return Call<cublasLtMatmulAlgoGetHeuristic>(
      "cublasLtMatmulAlgoGetHeuristic", lightHandle, operationDesc, Adesc, Bdesc, Cdesc, Ddesc,
      preference, requestedAlgoCount, heuristicResultsArray, returnAlgoCount);
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t matmulDesc, size_t size,
                                               cublasComputeType_t computeType,
                                               cudaDataType_t scaleType) {
  return Call<cublasLtMatmulDescInit_internal>("cublasLtMatmulDescInit_internal", matmulDesc, size,
                                               computeType, scaleType);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t matmulDesc,
                                              cublasLtMatmulDescAttributes_t attr, const void* buf,
                                              size_t sizeInBytes) {
  return Call<cublasLtMatmulDescSetAttribute>("cublasLtMatmulDescSetAttribute", matmulDesc, attr,
                                              buf, sizeInBytes);
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t pref, size_t size) {
  return Call<cublasLtMatmulPreferenceInit_internal>("cublasLtMatmulPreferenceInit_internal", pref,
                                                     size);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref,
                                                    cublasLtMatmulPreferenceAttributes_t attr,
                                                    const void* buf, size_t sizeInBytes) {
  return Call<cublasLtMatmulPreferenceSetAttribute>("cublasLtMatmulPreferenceSetAttribute", pref,
                                                    attr, buf, sizeInBytes);
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t matLayout, size_t size,
                                                 cudaDataType type, uint64_t rows, uint64_t cols,
                                                 int64_t ld) {
  return Call<cublasLtMatrixLayoutInit_internal>("cublasLtMatrixLayoutInit_internal", matLayout,
                                                 size, type, rows, cols, ld);
}

}  // extern "C"
