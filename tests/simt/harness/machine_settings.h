// The fake machine of a process that cannot set TheMachine() itself: one that has loaded a plugin
// of the harness.
//
// LONGSTREAM_SIMT_MACHINE is a list of name=value, separated by commas:
//   driver      the CUDA version that the driver serves, as 13000; 0: there is no driver
//   devices     how many there are
//   memory      bytes of a device
//   capability  its compute capability, as 90
//   shared      bytes of shared memory for a block
//   taken       1: another process has it for itself
// The last four are of every device, or of device N as memory:N; later ones count. What the list
// does not name is as it is without it. A word it does not know ends the process.
#ifndef LONGSTREAM_TESTS_SIMT_HARNESS_MACHINE_SETTINGS_H_
#define LONGSTREAM_TESTS_SIMT_HARNESS_MACHINE_SETTINGS_H_

#include "tests/simt/harness/runtime.h"

namespace longstream::simt {

// Reads the variable; where it is not set the machine stays as it is. Called whenever devices are
// looked for, so that it can change while a process runs: memory that "another" takes, say.
void ReadMachineSettings(Machine& machine);

}  // namespace longstream::simt

#endif  // LONGSTREAM_TESTS_SIMT_HARNESS_MACHINE_SETTINGS_H_
