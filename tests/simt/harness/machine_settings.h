// Sets the fake machine of a process that cannot change TheMachine() itself, because the harness is
// in a plugin that it has loaded.
//
// LONGSTREAM_SIMT_MACHINE is a list of name=value, separated by commas:
//   driver      the CUDA version that the driver serves, as 13000; 0: there is no driver
//   devices     the number of devices
//   memory      bytes of a device
//   capability  its compute capability, as 90
//   shared      bytes of shared memory for a block
// The last three apply to every device or, written as memory:N, to device N; later ones override
// earlier ones. Settings that the list does not name keep their defaults. An unknown word ends the
// process.
#ifndef LONGSTREAM_TESTS_SIMT_HARNESS_MACHINE_SETTINGS_H_
#define LONGSTREAM_TESTS_SIMT_HARNESS_MACHINE_SETTINGS_H_

#include "tests/simt/harness/runtime.h"

namespace longstream::simt {

// Reads the variable; if it is not set the machine stays as it is. It is called whenever devices
// are searched, so the variable can change while a process runs: for example, "another process"
// takes memory.
void ReadMachineSettings(Machine& machine);

}  // namespace longstream::simt

#endif  // LONGSTREAM_TESTS_SIMT_HARNESS_MACHINE_SETTINGS_H_
