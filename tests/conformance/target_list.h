// Many targets of the kit in one process, several at a time. On a GPU this is much faster than a
// process for each: processes share a GPU in turns, and each makes a context of its own.
#ifndef LONGSTREAM_TESTS_CONFORMANCE_TARGET_LIST_H_
#define LONGSTREAM_TESTS_CONFORMANCE_TARGET_LIST_H_

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "tests/conformance/kit.h"

namespace longstream::conformance {

// Reads the arguments of longstream-conformance for one target. Returns "", or what is wrong.
std::string ParseTarget(const std::vector<std::string>& arguments, Target* target);

// Reads a file with one target a line: its arguments, divided by tabs. Returns "", or what is
// wrong.
std::string ReadTargets(const std::string& path, std::vector<Target>* targets);

// Runs the targets in `num_threads` threads. When a target ends, prints its output, its seconds and
// how many targets have ended. Returns the number of failed checks of all targets.
int RunTargets(const std::vector<Target>& targets, uint32_t num_threads, std::ostream& out);

}  // namespace longstream::conformance

#endif  // LONGSTREAM_TESTS_CONFORMANCE_TARGET_LIST_H_
