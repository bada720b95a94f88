// What a device does not take of a launch.
#ifndef LONGSTREAM_TESTS_SIMT_HARNESS_LAUNCH_LIMITS_H_
#define LONGSTREAM_TESTS_SIMT_HARNESS_LAUNCH_LIMITS_H_

#include <string>

#include "tests/simt/harness/block.h"

namespace longstream::simt {

// Ends the process with the sentence.
[[noreturn]] void Fail(const std::string& sentence);

std::string NameOf(const uint3& index);

// Ends the process where a device could not do it.
void CheckLaunch(const Launch& launch);

}  // namespace longstream::simt

#endif  // LONGSTREAM_TESTS_SIMT_HARNESS_LAUNCH_LIMITS_H_
