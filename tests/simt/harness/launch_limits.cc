// Checks the sizes of blocks, grids and shared memory.
#include "tests/simt/harness/launch_limits.h"

#include <cstdio>
#include <cstdlib>
#include <map>

namespace longstream::simt {
namespace {

constexpr unsigned kMaxThreads = 1024;
constexpr unsigned kMaxGridYZ = 65535;
// The limit of sm_80. No other architecture that the kernels are compiled for has a smaller one.
constexpr size_t kMaxSharedBytes = 163 << 10;
constexpr size_t kDefaultSharedBytes = 48 << 10;

// The kernels that may have more than kDefaultSharedBytes of shared memory.
std::map<const void*, size_t>& AllowedSharedBytes() {
  static std::map<const void*, size_t> allowed;
  return allowed;
}

}  // namespace

void Fail(const std::string& sentence) {
  std::fprintf(stderr, "simt: %s\n", sentence.c_str());
  std::abort();
}

std::string NameOf(const uint3& index) {
  return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " +
         std::to_string(index.z) + ")";
}

void CheckLaunch(const Launch& launch) {
  const dim3& block = launch.block;
  const unsigned threads = block.x * block.y * block.z;
  if (threads == 0 || threads > kMaxThreads) {
    Fail("a block of " + std::to_string(threads) + " threads; 1 to 1024 are possible");
  }
  if (launch.grid.x == 0 || launch.grid.y == 0 || launch.grid.z == 0 ||
      launch.grid.x > 0x7fffffffu || launch.grid.y > kMaxGridYZ || launch.grid.z > kMaxGridYZ) {
    Fail("a grid of " + NameOf({launch.grid.x, launch.grid.y, launch.grid.z}) + " blocks");
  }
  const auto found = AllowedSharedBytes().find(launch.kernel);
  const size_t allowed = found == AllowedSharedBytes().end() ? kDefaultSharedBytes : found->second;
  if (launch.shared_bytes > allowed) {
    Fail(std::to_string(launch.shared_bytes) + " bytes of shared memory; the kernel may have " +
         std::to_string(allowed));
  }
}

void AllowSharedBytes(const void* kernel, size_t bytes) {
  if (bytes > kMaxSharedBytes) {
    Fail(std::to_string(bytes) + " bytes of shared memory; a block has at most 166912");
  }
  AllowedSharedBytes()[kernel] = bytes;  // the last call counts
}

}  // namespace longstream::simt
