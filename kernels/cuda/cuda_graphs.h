// Work of a stream as CUDA graphs: recorded once, then started by one call.
#ifndef LONGSTREAM_KERNELS_CUDA_CUDA_GRAPHS_H_
#define LONGSTREAM_KERNELS_CUDA_CUDA_GRAPHS_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "kernels/core/stream.h"

namespace longstream::cuda {

// The graphs of one stream, by key. The first work of a key runs as it is, so that what happens
// once only (a kernel that is loaded) happens there, and what never comes again costs no graph; the
// second is recorded. A 40-layer step is about 400 nodes and 1 MB: beyond kMaxGraphs the one that
// was not used for longest goes.
//
// A failure to record is the last attempt: from then on work runs as it is. Not thread-safe.
class CudaGraphs {
 public:
  static constexpr size_t kMaxGraphs = 48;

  explicit CudaGraphs(cudaStream_t stream) : stream_(stream) {}
  ~CudaGraphs() { Clear(); }
  CudaGraphs(const CudaGraphs&) = delete;
  CudaGraphs& operator=(const CudaGraphs&) = delete;

  // As Device::Repeat. *warning is set where recording has just been given up.
  OpStatus Repeat(uint64_t key, const std::function<OpStatus()>& work, std::string* warning);
  // Waits for the stream.
  void Clear();

 private:
  struct Entry {
    cudaGraphExec_t graph = nullptr;  // nullptr: the key has come once
    uint64_t last_use = 0;
  };

  // Records work() and makes *graph of it. "", or what failed.
  std::string Record(const std::function<OpStatus()>& work, cudaGraphExec_t* graph);
  // Makes room for one more.
  void Evict();

  // A handle; NOLINTNEXTLINE(misc-misplaced-const)
  const cudaStream_t stream_;
  std::map<uint64_t, Entry> entries_;
  uint64_t uses_ = 0;
  bool records_ = true;
};

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_CUDA_GRAPHS_H_
