// Loading, timed.
#include "tests/bench/model/load_times.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <vector>

#include "backends/packing/load_weights.h"
#include "kernels/ops/op_table.h"

namespace longstream {
namespace {

std::vector<std::filesystem::path> FilesOf(const std::string& directory,
                                           const std::string& extension) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() == extension) files.push_back(entry.path());
  }
  return files;
}

void RemovePacked(const std::string& directory) {
  for (const auto& file : FilesOf(directory, ".packed")) std::filesystem::remove(file);
}

// Drops the system's cached copies of the files, which must be on the disk.
void DropFromMemory(const std::string& directory) {
  for (const char* extension : {".packed", ".safetensors"}) {
    for (const auto& file : FilesOf(directory, extension)) {
      const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
      fsync(fd);
      posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
      close(fd);
    }
  }
}

double Median(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
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
    const auto begin = std::chrono::steady_clock::now();
    const ModelWeights loaded =
        LoadWeights(spec, Checkpoint(directory), options, DeviceOps(), executor, HostMemory(),
                    [&said](const std::string& sentence) { said = sentence; });
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    if (said.find(expected) == std::string::npos) throw std::runtime_error(said);
    times.weight_bytes = loaded.bytes;
    return seconds.count();
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
