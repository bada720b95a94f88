# Enables CUDA if its compiler is found.
include(CheckLanguage)
check_language(CUDA)
set(found OFF)
if(CMAKE_CUDA_COMPILER AND NOT LONGSTREAM_SANITIZE)
  set(found ON)
endif()
option(LONGSTREAM_CUDA "Build the CUDA kernels and plugins (needs nvcc)" ${found})

if(LONGSTREAM_CUDA)
  # The instructions wgmma and setmaxnreg need the architecture 90a; 90 does not have them.
  set(LONGSTREAM_CUDA_ARCHITECTURES "80-real;90a-real" CACHE STRING
      "Value for CMAKE_CUDA_ARCHITECTURES; give one of the two to build for one kind of GPU")
  set(CMAKE_CUDA_ARCHITECTURES "${LONGSTREAM_CUDA_ARCHITECTURES}")
  enable_language(CUDA)
  # CMake 3.25 does not know the option for C++20 in CUDA.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  find_package(CUDAToolkit REQUIRED)
  set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
  # -lineinfo gives line numbers to profilers and compute-sanitizer. --expt-relaxed-constexpr lets
  # kernels call constexpr functions of kernels/core.
  set(LONGSTREAM_CUDA_OPTIONS
    --expt-relaxed-constexpr --extended-lambda -lineinfo
    -Xcompiler=-Wall,-Wextra,-Wno-unused-parameter)
  if(LONGSTREAM_WARNINGS_AS_ERRORS)
    list(APPEND LONGSTREAM_CUDA_OPTIONS --Werror all-warnings)
  endif()
endif()
