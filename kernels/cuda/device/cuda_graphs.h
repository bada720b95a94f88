// Work of a stream as CUDA graphs: recorded once, then started by one call.
#ifndef LONGSTREAM_KERNELS_CUDA_DEVICE_CUDA_GRAPHS_H_
#define LONGSTREAM_KERNELS_CUDA_DEVICE_CUDA_GRAPHS_H_

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
// Where recording fails, it is tried once more with kernels that do not overlap, and so they stay.
// If that fails too, it was the last attempt: from then on work runs as it is. Not thread-safe.
class CudaGraphs {
 public:
  static constexpr size_t kMaxGraphs = 48;

  // overlap: the device can start a kernel before the one before it has ended (overlap.cuh).
  CudaGraphs(cudaStream_t stream, bool overlap) : stream_(stream), overlap_(overlap) {}
  ~CudaGraphs() { Clear(); }
  CudaGraphs(const CudaGraphs&) = delete;
  CudaGraphs& operator=(const CudaGraphs&) = delete;

  // What the stream's ops are to do now: Stream::overlaps.
  bool overlap() const { return overlap_; }
  // As Device::Repeat; `work` asks for overlap() anew each time. *warning is set where overlap or
  // recording has just been given up.
  OpStatus Repeat(uint64_t key, const std::function<OpStatus()>& work, std::string* warning);
  // Waits for the stream.
  void Clear();

 private:
  struct Entry {
    cudaGraphExec_t graph = nullptr;  // nullptr: the key has come once
    uint64_t last_use = 0;
  };

  // Records work(), if need be without overlap. False where that fails. *warning as Repeat has it.
  bool RecordAtAll(const std::function<OpStatus()>& work, cudaGraphExec_t* graph,
                   std::string* warning);
  // Records work() and makes *graph of it. "", or what failed.
  std::string Record(const std::function<OpStatus()>& work, cudaGraphExec_t* graph);
  // Makes room for one more.
  void Evict();

  // A handle; NOLINTNEXTLINE(misc-misplaced-const)
  const cudaStream_t stream_;
  std::map<uint64_t, Entry> entries_;
  uint64_t uses_ = 0;
  bool overlap_;
  bool records_ = true;
};

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_DEVICE_CUDA_GRAPHS_H_
