// Shared by tests of the installed server: the program, and a model that loads at once.
#ifndef LONGSTREAM_TESTS_E2E_MINIMAL_SERVER_H_
#define LONGSTREAM_TESTS_E2E_MINIMAL_SERVER_H_

#include <string>

#include "tests/temporary_directory.h"

namespace longstream {

inline constexpr char kServerBinary[] = LONGSTREAM_BINARY_DIR "/bin/longstream-server";
// The file for LD_PRELOAD that limits the threads of a process.
inline constexpr char kLimitedThreads[] = LONGSTREAM_BINARY_DIR "/test_plugins/limited_threads.so";

// The directory of a model of the minimal backend. Tests may write further files into it.
class MinimalModelDirectory : public TemporaryDirectory {
 public:
  MinimalModelDirectory() { Write("config.json", R"({"model_type": "minimal"})"); }

  // The value of --model that serves the model as "m". `options`: further keys, such as
  // ",options.step_delay_us=20000".
  std::string Flag(const std::string& options = "") const { return "m=" + string() + options; }
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_E2E_MINIMAL_SERVER_H_
