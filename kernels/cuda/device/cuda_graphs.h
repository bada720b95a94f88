// Records the work of a stream as CUDA graphs, each of which one call then starts.
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

// The graphs of one stream, by key. The first work of a key runs without a graph. So things that
// happen only once (such as loading a kernel) happen there, and work that never comes again costs
// no graph. The second work of a key is recorded. A step of 40 layers is about 400 nodes and 1 MB.
// If there are kMaxGraphs, the least recently used one is dropped.
//
// If recording fails, it is tried once more with kernels that do not overlap, and overlap stays
// off. If that fails too, recording is given up: all later work runs without graphs. Not
// thread-safe.
class CudaGraphs {
 public:
  static constexpr size_t kMaxGraphs = 48;

  // overlap: the device can start a kernel before the previous one has ended (overlap.cuh).
  // records: whether any graph is recorded.
  CudaGraphs(cudaStream_t stream, bool overlap, bool records)
      : stream_(stream), overlap_(overlap), records_(records) {}
  ~CudaGraphs() { Clear(); }
  CudaGraphs(const CudaGraphs&) = delete;
  CudaGraphs& operator=(const CudaGraphs&) = delete;

  // Whether the kernels of the stream's ops may overlap now: Stream::overlaps.
  bool overlap() const { return overlap_; }
  // See Device::Repeat. `work` must read overlap() each time. *warning is set when overlap or
  // recording has just been given up.
  OpStatus Repeat(uint64_t key, const std::function<OpStatus()>& work, std::string* warning);
  // Waits for the stream.
  void Clear();

 private:
  struct Entry {
    cudaGraphExec_t graph = nullptr;  // nullptr: the key has come once
    uint64_t last_use = 0;
  };

  // Records work(), without overlap if necessary. Returns false if that fails. *warning is as in
  // Repeat.
  bool RecordAtAll(const std::function<OpStatus()>& work, cudaGraphExec_t* graph,
                   std::string* warning);
  // Records work() and makes it *graph. Returns "", or what failed.
  std::string Record(const std::function<OpStatus()>& work, cudaGraphExec_t* graph);
  // Makes room for one more graph.
  void Evict();

  // A handle; NOLINTNEXTLINE(misc-misplaced-const)
  const cudaStream_t stream_;
  std::map<uint64_t, Entry> entries_;
  uint64_t uses_ = 0;
  bool overlap_;
  bool records_;
};

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_DEVICE_CUDA_GRAPHS_H_
