// Checks that a launch keeps the limits of a device.
#ifndef LONGSTREAM_TESTS_SIMT_HARNESS_LAUNCH_LIMITS_H_
#define LONGSTREAM_TESTS_SIMT_HARNESS_LAUNCH_LIMITS_H_

#include <string>

#include "tests/simt/harness/block.h"

namespace longstream::simt {

// Ends the process with the sentence.
[[noreturn]] void Fail(const std::string& sentence);

std::string NameOf(const uint3& index);

// Ends the process if a device could not run the launch.
void CheckLaunch(const Launch& launch);

}  // namespace longstream::simt

#endif  // LONGSTREAM_TESTS_SIMT_HARNESS_LAUNCH_LIMITS_H_
