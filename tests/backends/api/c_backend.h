/* A table filled by a C source, for a C++ test to call through. */
#ifndef LONGSTREAM_TESTS_BACKENDS_API_C_BACKEND_H_
#define LONGSTREAM_TESTS_BACKENDS_API_C_BACKEND_H_

#include "backends/api/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Only its identification and probe are filled in. Static, never freed. */
const ls_backend* CBackend(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* LONGSTREAM_TESTS_BACKENDS_API_C_BACKEND_H_ */
