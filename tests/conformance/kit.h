// The conformance kit: runs every check of the backend ABI against one plugin and one model.
#ifndef LONGSTREAM_TESTS_CONFORMANCE_KIT_H_
#define LONGSTREAM_TESTS_CONFORMANCE_KIT_H_

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "backends/api/backend.h"
#include "tests/conformance/model.h"
#include "tests/conformance/report.h"
#include "tests/conformance/test_host.h"

namespace longstream::conformance {

// Pseudo-random token ids below `vocabulary`, the same for the same seed; a shorter list is a
// prefix of a longer one.
std::vector<int32_t> PseudoRandomTokens(uint64_t seed, size_t count, uint32_t vocabulary);

struct Target {
  std::string plugin;       // path of the shared library
  std::string model;        // model directory
  std::string options;      // JSON for model_open
  std::string other_model;  // a model of the same backend with other weights, or ""
  // Of the checks that open the model, those whose names begin like one of these; empty: all. That
  // none fits is a failure.
  std::vector<std::string> only;
  // How far logits of differently cut prefills may lie apart, in standard deviations of a row's
  // logits. f32 sums in another order differ by some 1e-6 after a few layers: a defect is larger.
  // Where activations or caches are rounded to 16 bits such a difference may tip a rounding, by
  // 2^-8 of the value: some 1e-2 in a small model. A token lost long ago may do less than that, so
  // that such a model is to be checked in f32 as well.
  double tolerance = 1e-3;
};

// Prints one line per check and a summary to `out`; returns the number of failures.
int RunConformance(const Target& target, std::ostream& out);

// What a check works with. The lengths fit the model: several grid lines, longer than any window.
class Kit {
 public:
  // Opens the model once to learn its sizes; throws CheckFailed where that fails.
  Kit(const ls_backend& backend, const Target& target);

  const ls_backend& backend() const { return backend_; }
  const Target& target() const { return target_; }
  const TestHost& host() const { return host_; }

  uint32_t vocabulary() const { return vocabulary_; }
  uint32_t grid() const { return grid_; }
  uint32_t page_tokens() const { return page_tokens_; }
  uint64_t context_limit() const { return context_limit_; }
  // Tokens of a long prompt. Tail() more tokens fit after it.
  uint32_t prompt() const { return prompt_; }
  uint32_t tail() const { return 2 * grid_ + 24; }

  bool Has(uint64_t capabilities) const {
    return (backend_.capabilities & capabilities) == capabilities;
  }
  // Ends the check as not applicable unless the plugin has the capability.
  void Need(uint64_t capability, const char* name) const;

  // The model with the target's options, batches large enough for several long prompts.
  OpenOptions Defaults() const;
  Model Open() const { return Open(Defaults()); }
  Model Open(const OpenOptions& options) const;

  // PseudoRandomTokens of the model's vocabulary.
  std::vector<int32_t> Tokens(uint64_t seed, size_t count) const {
    return PseudoRandomTokens(seed, count, vocabulary_);
  }

 private:
  const ls_backend& backend_;
  const Target target_;
  TestHost host_;
  uint32_t vocabulary_ = 0;
  uint32_t grid_ = 0;
  uint32_t page_tokens_ = 0;
  uint64_t context_limit_ = 0;
  uint32_t prompt_ = 0;
  uint64_t device_budget_ = 0;
};

// What every check finds out in the end: whether the plugin misused the host.
void ExpectNoMisuse(Check& check, const TestHost& host);

}  // namespace longstream::conformance

#endif  // LONGSTREAM_TESTS_CONFORMANCE_KIT_H_
