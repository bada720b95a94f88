// Records, starts and evicts graphs.
#include "kernels/cuda/device/cuda_graphs.h"

#include <algorithm>

namespace longstream::cuda {

OpStatus CudaGraphs::Repeat(uint64_t key, const std::function<OpStatus()>& work,
                            std::string* warning) {
  if (!records_) return work();
  auto found = entries_.find(key);
  if (found == entries_.end()) {
    Evict();
    entries_[key].last_use = ++uses_;
    return work();
  }
  Entry& entry = found->second;
  entry.last_use = ++uses_;
  if (entry.graph == nullptr && !RecordAtAll(work, &entry.graph, warning)) return work();
  return cudaGraphLaunch(entry.graph, stream_) == cudaSuccess ? OpStatus::kOk
                                                              : OpStatus::kDeviceError;
}

bool CudaGraphs::RecordAtAll(const std::function<OpStatus()>& work, cudaGraphExec_t* graph,
                             std::string* warning) {
  std::string why = Record(work, graph);
  if (why.empty()) return true;
  if (overlap_) {
    overlap_ = false;
    const std::string why_at_all = Record(work, graph);
    if (why_at_all.empty()) {
      *warning = "kernels do not overlap, decoding will be slower: " + why;
      return true;
    }
    overlap_ = true;  // recording fails without overlap too, so overlap was not the reason
    why = why_at_all;
  }
  *warning = "CUDA graphs are not used, decoding will be slower: " + why;
  records_ = false;
  return false;
}

std::string CudaGraphs::Record(const std::function<OpStatus()>& work, cudaGraphExec_t* graph) {
  // Captures the calls of this thread only: other models may allocate memory meanwhile.
  cudaError_t error = cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal);
  if (error != cudaSuccess) {
    cudaGetLastError();  // clears the error, which the next launch would report again
    return std::string("recording cannot begin: ") + cudaGetErrorString(error);
  }
  const OpStatus status = work();
  cudaGraph_t recorded = nullptr;
  error = cudaStreamEndCapture(stream_, &recorded);
  if (error == cudaSuccess && status == OpStatus::kOk) {
    error = cudaGraphInstantiate(graph, recorded, 0);
  }
  if (recorded != nullptr) cudaGraphDestroy(recorded);
  if (error == cudaSuccess && status == OpStatus::kOk) return "";
  cudaGetLastError();
  *graph = nullptr;
  return error == cudaSuccess ? "an op cannot be recorded"
                              : std::string("recording failed: ") + cudaGetErrorString(error);
}

void CudaGraphs::Evict() {
  if (entries_.size() < kMaxGraphs) return;
  const auto oldest = std::min_element(
      entries_.begin(), entries_.end(),
      [](const auto& a, const auto& b) { return a.second.last_use < b.second.last_use; });
  if (oldest->second.graph != nullptr) {
    cudaStreamSynchronize(stream_);  // the graph may be running
    cudaGraphExecDestroy(oldest->second.graph);
  }
  entries_.erase(oldest);
}

void CudaGraphs::Clear() {
  if (entries_.empty()) return;
  cudaStreamSynchronize(stream_);
  for (const auto& [key, entry] : entries_) {
    if (entry.graph != nullptr) cudaGraphExecDestroy(entry.graph);
  }
  entries_.clear();
}

}  // namespace longstream::cuda
