// Notes the kernels that a program has executed. executed_kernels.py compares them with the
// compiled kernels.
#ifndef LONGSTREAM_TESTS_SIMT_HARNESS_EXECUTED_KERNELS_H_
#define LONGSTREAM_TESTS_SIMT_HARNESS_EXECUTED_KERNELS_H_

namespace longstream::simt {

// Appends a kernel's distance from the program's first byte, in hexadecimal, to the file that
// LONGSTREAM_SIMT_EXECUTED names; once in each process. Does nothing if the variable is unset.
// REQUIRES: no other thread is in this function.
void NoteExecuted(const void* kernel);

}  // namespace longstream::simt

#endif  // LONGSTREAM_TESTS_SIMT_HARNESS_EXECUTED_KERNELS_H_
