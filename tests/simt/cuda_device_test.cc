// The CUDA device (kernels/cuda/device/cuda_device.cc, cuda_graphs.cc) on the harness's runtime:
// how it is found, the errors if it is not, its queue, and its graphs.
#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/caches/device_memory.h"
#include "backends/errors/error.h"
#include "kernels/core/device.h"
#include "kernels/cuda/device/cuda_graphs.h"
#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/overlap.cuh"
#include "tests/simt/harness/runtime.h"

namespace longstream {
namespace {

using simt::TheMachine;

class CudaDeviceTest : public testing::Test {
 protected:
  CudaDeviceTest() {
    TheMachine() = {};
    unsetenv("CUDA_VISIBLE_DEVICES");
  }
  ~CudaDeviceTest() override { TheMachine() = {}; }
};

__global__ void AddKernel(int* to, const int* from) {
  cuda::BeginKernel();
  *to += *from;
}

// --- how the device is found (the table of docs/cuda.md)

void ExpectMissing(const char* name, const std::string& why, bool unknown) {
  const OpenedDevice opened = OpenDevice(name);
  EXPECT_EQ(opened.device, nullptr);
  EXPECT_EQ(opened.why, why);
  EXPECT_EQ(opened.unknown, unknown);
}

TEST_F(CudaDeviceTest, IsFoundByNumber) {
  TheMachine().devices.resize(2);
  for (const char* name : {"cuda", "cuda:0", "cuda:1"}) {
    const OpenedDevice opened = OpenDevice(name);
    EXPECT_NE(opened.device, nullptr) << name;
    EXPECT_EQ(opened.name, name == std::string("cuda") ? "cuda:0" : name);
  }
  ExpectMissing("cuda:2", "there is no device 'cuda:2' here, the last one is cuda:1", true);
  for (const char* name : {"cpu", "cuda:", "cuda:x", "cuda:1x", "cuda:-1", "gpu"}) {
    ExpectMissing(
        name, std::string("there is no device '") + name + "' here, expected 'cuda' or 'cuda:N'",
        true);
  }
}

TEST_F(CudaDeviceTest, NoDriverOrDevice) {
  TheMachine().devices.clear();
  const struct {
    int driver_version;
    const char* visible_devices;
    std::string why;
  } machines[] = {
      {0, "", "the NVIDIA driver is not installed; install it, or use device cpu"},
      {12040, "", "the NVIDIA driver serves CUDA 12.4, expected at least 13.0; update the driver"},
      {13000, "", "the NVIDIA driver finds none; use device cpu"},
      {13000, "7", "CUDA_VISIBLE_DEVICES is '7', which names none"},
  };
  for (const auto& machine : machines) {
    TheMachine().driver_version = machine.driver_version;
    if (*machine.visible_devices != 0) setenv("CUDA_VISIBLE_DEVICES", machine.visible_devices, 1);
    ExpectMissing("cuda:0", "no CUDA device: " + machine.why, true);
  }
}

TEST_F(CudaDeviceTest, OnlyWhatTheKernelsWereCompiledFor) {
  const struct {
    int major, minor;
    size_t shared_bytes;
    std::string why;  // why the device is refused; "": it serves
  } devices[] = {
      {7, 5, 232448, "compute capability 7.5, expected 8.x or 9.0"},
      {8, 0, 166912, ""},
      {8, 6, 101376, "101376 bytes of shared memory for a block, expected at least 166912"},
      {8, 7, 166912, ""},
      {9, 0, 232448, ""},
      {9, 1, 232448, "compute capability 9.1, expected 8.x or 9.0"},
      {10, 0, 232448, "compute capability 10.0, expected 8.x or 9.0"},
  };
  for (const auto& device : devices) {
    TheMachine().devices[0].major = device.major;
    TheMachine().devices[0].minor = device.minor;
    TheMachine().devices[0].sharedMemPerBlockOptin = device.shared_bytes;
    if (device.why.empty()) {
      EXPECT_NE(OpenDevice("cuda").device, nullptr) << device.major << '.' << device.minor;
    } else {
      ExpectMissing("cuda", "cuda:0: SIMT harness has " + device.why + "; use device cpu", false);
    }
  }
}

// The device that ChooseDevice chooses for "cuda".
std::string NameOfChosen() { return OpenDevice("cuda").name; }

TEST_F(CudaDeviceTest, OfSeveralTheOneWithTheMostFreeMemory) {
  auto& devices = TheMachine().devices;
  devices.resize(4);
  EXPECT_EQ(NameOfChosen(), "cuda:0");  // all have the same free memory
  devices[2].memory_bytes = devices[3].memory_bytes = size_t{300} << 20;
  EXPECT_EQ(NameOfChosen(), "cuda:2");
  const OpenedDevice taker = OpenDevice("cuda:2");
  const DeviceMemory some(*taker.device, 256, "some");
  EXPECT_EQ(NameOfChosen(), "cuda:3");
  const DeviceMemory more(*taker.device, size_t{200} << 20, "more");
  EXPECT_EQ(taker.device->free_bytes(), (size_t{100} << 20) - 256);
  EXPECT_EQ(NameOfChosen(), "cuda:3");
  EXPECT_EQ(OpenDevice("cuda:1").name, "cuda:1");
}

TEST_F(CudaDeviceTest, OfSeveralOneThatCanBeUsed) {
  auto& devices = TheMachine().devices;
  devices.resize(4);
  for (size_t i = 0; i < devices.size(); ++i) devices[i].memory_bytes = (200 - i) << 20;
  devices[0].major = 7;
  devices[0].minor = 5;
  devices[1].is_taken = true;
  devices[2].sharedMemPerBlockOptin = 101376;
  EXPECT_EQ(NameOfChosen(), "cuda:3");
  // A device that is named by its number is not replaced by another.
  ExpectMissing("cuda:0",
                "cuda:0: SIMT harness has compute capability 7.5, expected 8.x or 9.0; use device "
                "cpu",
                false);
  devices[2] = devices[0];
  devices[3] = devices[1];
  ExpectMissing("cuda",
                "cuda:0, cuda:2: SIMT harness has compute capability 7.5, expected 8.x or 9.0; "
                "cuda:1, cuda:3: CUDA-capable device(s) is/are busy or unavailable; use device cpu",
                false);
  devices[1] = devices[0];  // the only device left refuses to be used
  ExpectMissing("cuda", "cuda:3: CUDA-capable device(s) is/are busy or unavailable", false);
}

// A context takes some hundred MB of a GPU, which other programs may want.
TEST_F(CudaDeviceTest, OnlyTheChosenDeviceKeepsAContext) {
  TheMachine().devices.resize(4);
  const OpenedDevice first = OpenDevice("cuda:3");
  TheMachine().devices[1].memory_bytes *= 2;
  EXPECT_EQ(NameOfChosen(), "cuda:1");
  EXPECT_THAT(TheMachine().contexts,
              testing::ElementsAre(testing::Pair(1, 1), testing::Pair(3, 1)));
}

// Kernels are launched on the device of their stream, whichever device is current.
TEST_F(CudaDeviceTest, SeveralDevicesAtATime) {
  TheMachine().devices.resize(2);
  const std::unique_ptr<Device> first = OpenDevice("cuda:0").device;
  const std::unique_ptr<Device> second = OpenDevice("cuda:1").device;
  int one = 1;
  int sum = 0;
  for (Device* device : {first.get(), second.get()}) {
    Stream stream = device->MakeStream({}, nullptr, 0);
    cuda::Launch(stream, {1, 1}, AddKernel, &sum, &one);
    EXPECT_EQ(stream.status, OpStatus::kOk);
    EXPECT_EQ(device->Synchronize(), OpStatus::kOk);
  }
  EXPECT_EQ(sum, 2);
  Stream stream = first->MakeStream({}, nullptr, 0);
  second->MakeStream({}, nullptr, 0);
  cuda::Launch(stream, {1, 1}, AddKernel, &sum, &one);
  EXPECT_EQ(stream.status, OpStatus::kDeviceError);
}

TEST_F(CudaDeviceTest, NoCublasLt) {
  TheMachine().cublaslt_problem = "libcublasLt.so.13: not found; install it";
  ExpectMissing(
      "cuda", "cuda:0: cuBLASLt cannot be loaded: libcublasLt.so.13: not found; install it", false);
}

// --- overlap

// A stream has overlap and wgmma if its device has them and no variable turns them off.
TEST_F(CudaDeviceTest, StreamsHaveWhatTheDeviceHas) {
  for (const auto& [variable, member] : {std::pair("LONGSTREAM_CUDA_OVERLAP", &Stream::overlaps),
                                         {"LONGSTREAM_CUDA_WGMMA", &Stream::wgmma}}) {
    const auto has = [member = member] {
      return OpenDevice("cuda").device->MakeStream({}, nullptr, 0).*member;
    };
    TheMachine().devices[0].major = 9;
    EXPECT_TRUE(has()) << variable;
    setenv(variable, "0", 1);
    EXPECT_FALSE(has()) << variable;
    unsetenv(variable);
    TheMachine().devices[0].major = 8;
    EXPECT_FALSE(has()) << variable;
  }
}

__global__ void TellOverlapKernel(int* overlaps, const int* before) {
  const int early = *before;
  cuda::BeginKernel();
  *overlaps = early != *before;
}

TEST_F(CudaDeviceTest, ALaunchOverlapsWhereItsStreamDoes) {
  const std::unique_ptr<Device> device = OpenDevice("cuda").device;
  int before = 1;
  int found[] = {-1, -1};
  for (const bool overlaps : {false, true}) {
    Stream stream = device->MakeStream({}, nullptr, 0);
    stream.overlaps = overlaps;
    cuda::Launch(stream, {1, 1}, AddKernel, &before, &before);
    cuda::Launch(stream, {1, 1}, TellOverlapKernel, &found[overlaps ? 1 : 0], &before);
    EXPECT_EQ(device->Synchronize(), OpStatus::kOk);
  }
  EXPECT_EQ(found[0], 0);
  EXPECT_EQ(found[1], 1);
}

// --- memory

TEST_F(CudaDeviceTest, TooLittleMemoryIsSaidWithBytes) {
  TheMachine().devices[0].memory_bytes = 1 << 20;
  const std::unique_ptr<Device> device = OpenDevice("cuda").device;
  EXPECT_EQ(device->free_bytes(), uint64_t{1} << 20);
  const DeviceMemory half(*device, 1 << 19, "half");
  try {
    const DeviceMemory more(*device, 600000, "pages of keys");
    ADD_FAILURE() << "no error";
  } catch (const BackendError& error) {
    EXPECT_EQ(error.code(), LS_RESOURCE_EXHAUSTED);
    EXPECT_STREQ(error.what(), "pages of keys: the device has no 600000 bytes, 524288 are free");
  }
  EXPECT_EQ(device->Synchronize(), OpStatus::kOk);  // the caller got the error already
}

TEST_F(CudaDeviceTest, MemoryIsZeroedAndCopied) {
  const std::unique_ptr<Device> device = OpenDevice("cuda").device;
  const DeviceMemory first(*device, 8, "first");
  const DeviceMemory second(*device, 8, "second");
  const int64_t given = 42;
  int64_t zeros = 1;
  int64_t copied = 1;
  device->Download(&zeros, second.data(), 8);
  device->Upload(first.data(), &given, 8);
  device->Copy(second.data(), first.data(), 8);
  device->Download(&copied, second.data(), 8);
  EXPECT_EQ(zeros, 1);
  EXPECT_EQ(device->Synchronize(), OpStatus::kOk);
  EXPECT_EQ(zeros, 0);
  EXPECT_EQ(copied, 42);
}

// --- events

TEST_F(CudaDeviceTest, AnEventIsOfWhatStandsBeforeIt) {
  const std::unique_ptr<Device> device = OpenDevice("cuda").device;
  const auto first = device->MakeEvent();
  const auto second = device->MakeEvent();
  const int64_t given[] = {1, 2};
  int64_t found[] = {0, 0};
  const DeviceMemory memory(*device, 16, "both");
  device->Upload(memory.data(), given, 16);
  device->Download(&found[0], memory.data(), 8);
  first->Record();
  device->Download(&found[1], memory.data() + 8, 8);
  second->Record();
  EXPECT_EQ(first->Wait(), OpStatus::kOk);
  EXPECT_EQ(found[0], 1);
  EXPECT_EQ(found[1], 0);
  EXPECT_EQ(second->Wait(), OpStatus::kOk);
  EXPECT_EQ(found[1], 2);
}

// A failure belongs to the step that caused it, not to the step in flight before it.
TEST_F(CudaDeviceTest, AFailureIsOfTheEventBehindIt) {
  const std::unique_ptr<Device> device = OpenDevice("cuda").device;
  const auto before = device->MakeEvent();
  const auto after = device->MakeEvent();
  before->Record();
  TheMachine().devices.clear();
  after->Record();
  TheMachine().devices.resize(1);
  EXPECT_EQ(before->Wait(), OpStatus::kOk);
  EXPECT_EQ(after->Wait(), OpStatus::kDeviceError);
  EXPECT_EQ(device->Synchronize(), OpStatus::kOk);  // the event has reported the failure
}

TEST_F(CudaDeviceTest, AFailureThatStaysIsTheLossOfTheDevice) {
  const std::unique_ptr<Device> device = OpenDevice("cuda").device;
  const auto event = device->MakeEvent();
  TheMachine().devices.clear();
  event->Record();
  EXPECT_EQ(event->Wait(), OpStatus::kDeviceLost);
  EXPECT_EQ(device->Synchronize(), OpStatus::kDeviceLost);
  TheMachine().devices.resize(1);
  EXPECT_EQ(device->Synchronize(), OpStatus::kOk);
}

// --- graphs

class CudaGraphsTest : public CudaDeviceTest {
 protected:
  CudaGraphsTest() {
    device_->OnWarning([this](const std::string& sentence) { warnings_.push_back(sentence); });
  }

  // Adds from_ to to_ as work with the given key, which becomes a graph when it is repeated.
  OpStatus Add(uint64_t key) {
    return device_->Repeat(key, [this] {
      ++calls_;
      Stream stream = device_->MakeStream({}, nullptr, 0);
      cuda::Launch(stream, {1, 1}, AddKernel, &to_, &from_);
      return stream.status;
    });
  }

  // Adds five times, with keys of which some repeat. Expects five additions and one warning.
  void ExpectFiveWithWarning(const std::string& warning) {
    for (uint64_t key : {7, 7, 8, 8, 7}) EXPECT_EQ(Add(key), OpStatus::kOk);
    EXPECT_EQ(device_->Synchronize(), OpStatus::kOk);
    EXPECT_EQ(to_, 5);
    EXPECT_THAT(warnings_, testing::ElementsAre(
                               "cuda:0: " + warning +
                               ", decoding will be slower: recording failed: operation failed due "
                               "to a previous error during capture"));
  }

  const std::unique_ptr<Device> device_ = OpenDevice("cuda").device;
  std::vector<std::string> warnings_;
  int from_ = 1;
  int to_ = 0;
  int calls_ = 0;
};

TEST_F(CudaGraphsTest, TheSecondTimeIsRecordedAndTheThirdRepeated) {
  for (int time = 0; time < 5; ++time) EXPECT_EQ(Add(7), OpStatus::kOk);
  EXPECT_EQ(calls_, 2);
  EXPECT_EQ(TheMachine().graph_launches, 4u);
  EXPECT_EQ(TheMachine().num_graphs, 1u);
  from_ = 10;  // a graph reads it only when it runs
  EXPECT_EQ(device_->Synchronize(), OpStatus::kOk);
  EXPECT_EQ(to_, 50);
}

TEST_F(CudaGraphsTest, WorkIsForgottenWhenItsMemoryGoes) {
  for (int time = 0; time < 3; ++time) Add(7);
  device_->ForgetWork();
  EXPECT_EQ(to_, 3);  // the work has been waited for
  EXPECT_EQ(TheMachine().num_graphs, 0u);
  Add(7);
  EXPECT_EQ(calls_, 3);
}

TEST_F(CudaGraphsTest, TheOneUnusedForLongestMakesRoom) {
  for (uint64_t key = 0; key <= cuda::CudaGraphs::kMaxGraphs; ++key) {
    Add(key);
    Add(key);
    Add(0);
  }
  EXPECT_EQ(TheMachine().num_graphs, cuda::CudaGraphs::kMaxGraphs);
  const int calls = calls_;
  Add(0);
  EXPECT_EQ(calls_, calls);
  Add(1);
  EXPECT_EQ(calls_, calls + 1);
}

TEST_F(CudaGraphsTest, WithoutGraphsWorkIsDoneAllTheSame) {
  TheMachine().can_record = false;
  ExpectFiveWithWarning("CUDA graphs are not used");
}

TEST_F(CudaGraphsTest, WithoutOverlapTheyAreRecordedAllTheSame) {
  TheMachine().can_record_overlaps = false;
  EXPECT_TRUE(device_->MakeStream({}, nullptr, 0).overlaps);
  ExpectFiveWithWarning("kernels do not overlap");
  EXPECT_FALSE(device_->MakeStream({}, nullptr, 0).overlaps);
  EXPECT_EQ(TheMachine().num_graphs, 2u);
}

// Work that waits for the device cannot be recorded.
TEST_F(CudaGraphsTest, AnOpThatDoesMoreThanLaunchIsNotRecorded) {
  const auto work = [] {
    void* memory = nullptr;
    const bool ok = cudaMalloc(&memory, 8) == cudaSuccess && cudaFree(memory) == cudaSuccess;
    return ok ? OpStatus::kOk : OpStatus::kDeviceError;
  };
  for (int time = 0; time < 3; ++time) EXPECT_EQ(device_->Repeat(1, work), OpStatus::kOk);
  EXPECT_EQ(warnings_.size(), 1u);
}

}  // namespace
}  // namespace longstream
