// Tests a machine without cuBLASLt: the error message, and what the library's functions return. In
// this program dlopen finds nothing (linked with --wrap=dlopen).
#include "kernels/cuda/cublaslt/cublaslt_library.h"

#include <cublasLt.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

extern "C" {
void* __real_dlopen(const char* file, int mode);
void* __wrap_dlopen(const char* file, int mode) {
  const std::string missing = "/nowhere/" + std::string(file);
  return __real_dlopen(missing.c_str(), mode);
}
}

namespace longstream::cuda {
namespace {

TEST(CublasLtLibraryTest, SaysWhatIsMissingAndWhatToDo) {
  const std::string version = std::to_string(CUBLAS_VER_MAJOR);
  EXPECT_THAT(LoadCublasLt(),
              testing::AllOf(testing::StartsWith("/nowhere/libcublasLt.so." + version + ": "),
                             testing::EndsWith("; install the cuBLAS of CUDA " + version +
                                               " or name its directory in LD_LIBRARY_PATH")));
  cublasLtHandle_t handle = nullptr;
  EXPECT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_NOT_INITIALIZED);
}

}  // namespace
}  // namespace longstream::cuda
