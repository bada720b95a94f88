// Tests the replacement of the CUDA runtime: work is done when the host waits for it, and a graph
// computes with the values that memory holds when it runs.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

namespace longstream {
namespace {

__global__ void Add(int* to, const int* from, int scale) {
  simt::AwaitEarlierKernels();
  *to += scale * *from;
}
__global__ void AddWhatWas(int* to, const int* from, int scale) {
  const int value = *from;
  simt::AwaitEarlierKernels();
  *to += scale * value;
}
__global__ void AddAtOnce(int* to, const int* from, int scale) {
  *to += scale * *from;
  simt::AwaitEarlierKernels();
}

cudaStream_t MakeStream() {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  return stream;
}

using AddKernel = void(int* to, const int* from, int scale);

cudaError_t Launch(cudaStream_t stream, bool overlaps, AddKernel* kernel, int* to, const int* from,
                   int scale) {
  cudaLaunchAttribute overlap = {cudaLaunchAttributeProgrammaticStreamSerialization, {1}};
  cudaLaunchConfig_t config;
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = overlaps ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, to, from, scale);
}

void LaunchAdd(cudaStream_t stream, int* to, const int* from, int scale) {
  ASSERT_EQ(Launch(stream, false, Add, to, from, scale), cudaSuccess);
}
void LaunchEarly(cudaStream_t stream, AddKernel* kernel, int* to, const int* from, int scale) {
  ASSERT_EQ(Launch(stream, true, kernel, to, from, scale), cudaSuccess);
}

class RuntimeTest : public testing::Test {
 protected:
  ~RuntimeTest() override { cudaStreamDestroy(stream_); }

  // Records what work() does on the stream, and returns it as a graph.
  template <typename Work>
  cudaGraphExec_t Record(const Work& work) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    EXPECT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    work();
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    cudaGraphDestroy(graph);
    return executable;
  }

  const cudaStream_t stream_ = MakeStream();
  int from_ = 3;
  int to_ = 0;
};

TEST_F(RuntimeTest, WorkIsDoneWhenItIsWaitedFor) {
  LaunchAdd(stream_, &to_, &from_, 2);
  EXPECT_EQ(to_, 0);
  from_ = 5;  // too early: nobody has waited, so the work reads 5
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(to_, 10);
}

TEST_F(RuntimeTest, AnEventIsReachedWithoutWhatStandsBehindIt) {
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  LaunchAdd(stream_, &to_, &from_, 1);
  EXPECT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
  LaunchAdd(stream_, &to_, &from_, 10);
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(to_, 3);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(to_, 33);
  cudaEventDestroy(event);
}

TEST_F(RuntimeTest, AGraphKeepsArgumentsAndReadsMemoryAnew) {
  int scale = 2;
  const cudaGraphExec_t executable = Record([&] { LaunchAdd(stream_, &to_, &from_, scale); });
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(to_, 0);  // recorded, not yet done

  scale = 100;
  from_ = 7;
  EXPECT_EQ(cudaGraphLaunch(executable, stream_), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(executable, stream_), cudaSuccess);
  EXPECT_EQ(to_, 0);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(to_, 28);
  cudaGraphExecDestroy(executable);
}

TEST_F(RuntimeTest, WaitingSpoilsARecording) {
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  LaunchAdd(stream_, &to_, &from_, 1);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(graph, nullptr);
}

// --- kernels that may overlap

// from_ is 3; a kernel before the tested one makes it 13.
class OverlapTest : public RuntimeTest {
 protected:
  int Synchronized(const int& value) {
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    return value;
  }

  const int ten_ = 10;
  int other_ = 0;
};

TEST_F(OverlapTest, WhatIsReadBeforeTheWaitIsOld) {
  LaunchEarly(stream_, Add, &from_, &ten_, 1);
  LaunchEarly(stream_, AddWhatWas, &to_, &from_, 1);
  EXPECT_EQ(Synchronized(to_), 3);
  LaunchEarly(stream_, Add, &to_, &from_, 1);
  EXPECT_EQ(Synchronized(to_), 16);
}

TEST_F(OverlapTest, AlsoBehindAKernelBetween) {
  LaunchEarly(stream_, Add, &from_, &ten_, 1);
  LaunchEarly(stream_, Add, &other_, &ten_, 1);
  LaunchEarly(stream_, AddWhatWas, &to_, &from_, 1);
  EXPECT_EQ(Synchronized(to_), 3);
  EXPECT_EQ(other_, 10);
}

TEST_F(OverlapTest, WhatIsWrittenBeforeTheWaitIsReadByTheKernelBefore) {
  LaunchEarly(stream_, Add, &to_, &from_, 1);
  LaunchEarly(stream_, AddAtOnce, &from_, &ten_, 1);
  EXPECT_EQ(Synchronized(to_), 13);
}

TEST_F(OverlapTest, NothingOverlapsThatMayNot) {
  LaunchEarly(stream_, Add, &from_, &ten_, 1);
  EXPECT_EQ(Launch(stream_, false, AddWhatWas, &to_, &from_, 1), cudaSuccess);
  LaunchEarly(stream_, AddWhatWas, &other_, &from_, 1);
  EXPECT_EQ(Synchronized(to_), 13);
  EXPECT_EQ(other_, 13);
}

TEST_F(OverlapTest, NothingOverlapsWithACopy) {
  EXPECT_EQ(cudaMemcpyAsync(&from_, &ten_, sizeof(ten_), cudaMemcpyDefault, stream_), cudaSuccess);
  LaunchEarly(stream_, AddWhatWas, &to_, &from_, 1);
  EXPECT_EQ(Synchronized(to_), 10);
}

TEST_F(OverlapTest, KernelsOfAGraphOverlapWithEachOther) {
  const cudaGraphExec_t executable = Record([this] {
    LaunchEarly(stream_, AddWhatWas, &to_, &from_, 1);
    LaunchEarly(stream_, AddWhatWas, &other_, &to_, 1);
  });
  LaunchEarly(stream_, Add, &from_, &ten_, 1);
  EXPECT_EQ(cudaGraphLaunch(executable, stream_), cudaSuccess);
  EXPECT_EQ(Synchronized(to_), 13);  // the graph did not overlap with earlier work
  EXPECT_EQ(other_, 0);
  cudaGraphExecDestroy(executable);
}

TEST_F(OverlapTest, OldDevicesKnowNothingOfIt) {
  simt::TheMachine().devices[0].major = 8;
  EXPECT_EQ(Launch(stream_, true, Add, &to_, &from_, 1), cudaErrorNotSupported);
  EXPECT_EQ(Launch(stream_, false, Add, &to_, &from_, 1), cudaSuccess);
  simt::TheMachine().devices[0].major = 9;
}

// --- memory

TEST_F(RuntimeTest, MemoryIsFilledAndLimited) {
  simt::Machine& machine = simt::TheMachine();
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, machine.devices[0].memory_bytes + 1), cudaErrorMemoryAllocation);
  ASSERT_EQ(cudaMalloc(&memory, 1000), cudaSuccess);
  EXPECT_EQ(simt::FreeBytes(0), machine.devices[0].memory_bytes - 1024);
  EXPECT_EQ(static_cast<unsigned char*>(memory)[999], 0xff);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(simt::FreeBytes(0), machine.devices[0].memory_bytes);
}

}  // namespace
}  // namespace longstream
