// Notes which kernels were executed.
#include "tests/simt/harness/executed_kernels.h"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

// The program's first byte in memory; the linker defines it.
extern "C" const char __ehdr_start;

namespace longstream::simt {

void NoteExecuted(const void* kernel) {
  static const char* const path = std::getenv("LONGSTREAM_SIMT_EXECUTED");
  static std::set<const void*> noted;
  if (path == nullptr || !noted.insert(kernel).second) return;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::app)
      << std::hex
      << reinterpret_cast<uintptr_t>(kernel) - reinterpret_cast<uintptr_t>(&__ehdr_start) << '\n';
}

}  // namespace longstream::simt
