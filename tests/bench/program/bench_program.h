// The frame of the benchmark programs of the service.
#ifndef LONGSTREAM_TESTS_BENCH_PROGRAM_BENCH_PROGRAM_H_
#define LONGSTREAM_TESTS_BENCH_PROGRAM_BENCH_PROGRAM_H_

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longstream {

// Throws the message of an error.
inline void Check(const absl::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

template <typename T>
T Take(absl::StatusOr<T> value) {
  Check(value.status());
  return *std::move(value);
}

// Parses the options of the program `name`, and runs it. Returns its exit code: that of `run`, 2
// for wrong usage, and 1, with a message, for an exception.
template <typename Run>
int RunProgram(const char* name, CLI::App& app, int argc, char** argv, const Run& run) {
  try {
    app.parse(argc, argv);
    return run();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return 1;
  }
}

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BENCH_PROGRAM_BENCH_PROGRAM_H_
