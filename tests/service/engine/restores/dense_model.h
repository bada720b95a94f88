// The demo model with full attention.
#ifndef LONGSTREAM_TESTS_SERVICE_ENGINE_RESTORES_DENSE_MODEL_H_
#define LONGSTREAM_TESTS_SERVICE_ENGINE_RESTORES_DENSE_MODEL_H_

#include "tests/service/engine/engine_fixture.h"

namespace longstream {

inline const TestModel kDense{LONGSTREAM_BINARY_DIR "/plugins/dense.cpu.so",
                              LONGSTREAM_SOURCE_DIR "/models/demo/dense"};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_ENGINE_RESTORES_DENSE_MODEL_H_
