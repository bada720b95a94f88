/* The backend ABI as a C program finds it in an installed Longstream. */
#include <backends/api/backend.h>

uint32_t AbiMajor(const ls_backend* backend) { return backend->abi_major; }
