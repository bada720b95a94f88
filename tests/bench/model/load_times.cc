// Loads a checkpoint several times and measures the seconds.
#include "tests/bench/model/load_times.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <vector>

#include "backends/packing/load_weights.h"
#include "kernels/ops/op_table.h"
#include "tests/bench/timing.h"

namespace longstream {
namespace {

std::vector<std::filesystem::path> FilesOf(const std::string& directory) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    files.push_back(entry.path());
  }
  return files;
}

void RemovePacked(const std::string& directory) {
  for (const auto& file : FilesOf(directory)) {
    if (file.extension() == ".packed") std::filesystem::remove(file);
  }
}

// Writes the files to the disk and drops the system's copies in memory.
void DropFromMemory(const std::string& directory) {
  for (const auto& file : FilesOf(directory)) {
    const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
  }
}

}  // namespace

LoadTimes MeasureLoading(const ModelSpec& spec, const std::string& directory, DType weights,
                         int rounds, const Executor& executor) {
  LoadTimes times;
  // Loads once. The last sentence of the log must contain `expected`.
  const auto load = [&](const std::string& packed_cache, const std::string& expected) {
    const LoadOptions options(("{\"weights\": \"" + std::string(NameOf(weights)) +
                               "\", \"packed_cache\": \"" + packed_cache + "\"}")
                                  .c_str());
    std::string said;
    const double begin = Seconds();
    const ModelWeights loaded =
        LoadWeights(spec, Checkpoint(directory), options, DeviceOps(), executor, HostMemory(),
                    [&said](int /*level*/, const std::string& sentence) { said = sentence; });
    const double seconds = Seconds() - begin;
    if (said.find(expected) == std::string::npos) throw std::runtime_error(said);
    times.weight_bytes = loaded.bytes;
    return seconds;
  };
  std::vector<double> packed, first, second, cold;
  for (int round = 0; round < rounds; ++round) {
    RemovePacked(directory);
    packed.push_back(load("off", ""));
    first.push_back(load(directory, "are written"));
    second.push_back(load(directory, "are used"));
    DropFromMemory(directory);
    cold.push_back(load(directory, "are used"));
  }
  RemovePacked(directory);
  times.packed = Median(packed);
  times.first = Median(first);
  times.second = Median(second);
  times.second_cold = Median(cold);
  return times;
}

std::string LoadHeader() {
  return "weights       bytes  packed anew  first start  second start  second, from the disk";
}

std::string LoadLine(DType weights, const LoadTimes& times) {
  char line[128];
  std::snprintf(line, sizeof(line), "%-7s %8.1f MB %10.2f s %10.2f s %11.2f s %20.2f s",
                NameOf(weights), static_cast<double>(times.weight_bytes) * 1e-6, times.packed,
                times.first, times.second, times.second_cold);
  return line;
}

}  // namespace longstream
