// The golden cases: checkpoints with logits from an independent implementation (tests/golden).
#ifndef LONGSTREAM_TESTS_BACKENDS_GOLDEN_GOLDEN_CASE_H_
#define LONGSTREAM_TESTS_BACKENDS_GOLDEN_GOLDEN_CASE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/runtime/model.h"
#include "kernels/core/device.h"
#include "kernels/ops/op_table.h"

namespace longstream {

// Names of the checkpoints in tests/golden, in order.
std::vector<std::string> GoldenDirectories();
// Names of the cases in the table of tests/golden/README.md, in order.
std::vector<std::string> GoldenCasesOfReadme();

struct GoldenCase {
  std::string name;
  std::vector<int32_t> tokens;  // the prompt
  std::vector<int32_t> rows;    // [R], indices into the prompt
  std::vector<float> logits;    // [R, V], after each of these rows
  std::vector<int32_t> greedy;  // the tokens that greedy decoding appends
};

GoldenCase ReadGoldenCase(const std::string& name);
// Reads the arrays of a golden.safetensors at this path.
GoldenCase ReadGoldenFile(const std::string& name, const std::string& path);
// The path of the directory tests/golden.
const std::string& GoldenRoot();

// The backend that names a checkpoint its own (a fit of 100). Throws std::runtime_error if none
// does.
const BackendDefinition& BestBackend(const std::string& directory);

// Whether a case has mixtures of experts, which not every kernel library serves.
bool HasExperts(const std::string& name);

// Opens the checkpoint at a path with this backend; `options`: a JSON object. Otherwise as
// OpenGoldenCase.
std::unique_ptr<Model> OpenCheckpoint(const BackendDefinition& backend, const std::string& path,
                                      const std::string& options, const OpTable& ops,
                                      Device& device = HostMemory());

// Opens a case's checkpoint with the backend that serves it, the case's overrides, and `options`:
// members of a JSON object, separated by commas. `device`, which holds the model's memory, must
// outlive the model.
std::unique_ptr<Model> OpenGoldenCase(const std::string& name, const std::string& options,
                                      const OpTable& ops, Device& device = HostMemory());

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BACKENDS_GOLDEN_GOLDEN_CASE_H_
