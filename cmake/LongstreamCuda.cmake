# CUDA, where its compiler is found. CMake 3.25 has no CUDA 20 of its own.
include(CheckLanguage)
check_language(CUDA)
set(found OFF)
if(CMAKE_CUDA_COMPILER AND NOT LONGSTREAM_SANITIZE)
  set(found ON)
endif()
option(LONGSTREAM_CUDA "Build the CUDA kernels and plugins (needs nvcc)" ${found})

if(LONGSTREAM_CUDA)
  # Plain 90 would forbid wgmma and setmaxnreg.
  set(LONGSTREAM_CUDA_ARCHITECTURES "80-real;90a-real" CACHE STRING
      "What CMAKE_CUDA_ARCHITECTURES becomes: one of the two where only one GPU counts")
  set(CMAKE_CUDA_ARCHITECTURES "${LONGSTREAM_CUDA_ARCHITECTURES}")
  enable_language(CUDA)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  find_package(CUDAToolkit REQUIRED)
  set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
  # Line numbers for profilers and compute-sanitizer; kernels/core is constexpr C++.
  set(LONGSTREAM_CUDA_OPTIONS
    --expt-relaxed-constexpr --extended-lambda -lineinfo
    -Xcompiler=-Wall,-Wextra,-Wno-unused-parameter)
  if(LONGSTREAM_WARNINGS_AS_ERRORS)
    list(APPEND LONGSTREAM_CUDA_OPTIONS --Werror all-warnings)
  endif()
endif()
