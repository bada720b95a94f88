// Which kernels a program has executed: what executed_kernels.py holds against those compiled.
#ifndef LONGSTREAM_TESTS_SIMT_HARNESS_EXECUTED_KERNELS_H_
#define LONGSTREAM_TESTS_SIMT_HARNESS_EXECUTED_KERNELS_H_

namespace longstream::simt {

// Appends the kernel's distance from the program's first byte, in hexadecimal, to the file that
// LONGSTREAM_SIMT_EXECUTED names, once in each process; nothing where it is unset. REQUIRES: no
// other thread is in here.
void NoteExecuted(const void* kernel);

}  // namespace longstream::simt

#endif  // LONGSTREAM_TESTS_SIMT_HARNESS_EXECUTED_KERNELS_H_
