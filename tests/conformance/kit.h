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

// Pseudo-random token ids below `vocabulary`. The same seed gives the same ids, and a shorter list
// is a prefix of a longer one.
std::vector<int32_t> PseudoRandomTokens(uint64_t seed, size_t count, uint32_t vocabulary);

struct Target {
  std::string plugin;       // path of the shared library
  std::string model;        // model directory
  std::string options;      // JSON for model_open
  std::string other_model;  // a model of the same backend with other weights, or ""
  // Prefixes of names: of the checks that open the model, only checks whose names begin with one of
  // them run. Empty: all run. It is a failure if no name begins with any of them.
  std::vector<std::string> only;
  // The largest accepted difference between the logits of prefills with different cuts: the root of
  // the mean square over the vocabulary and the prompts, in standard deviations of a row's logits.
  // In f32, sums in another order differ by about 1e-6 after a few layers, and a defect causes a
  // larger difference. If activations or caches have 16 bits, such a difference may change how a
  // value is rounded. That changes the value by 2^-8 of itself, and logits by 1e-2 to 3e-2 in a
  // small model. A token lost long ago may change logits by less than that, so check such a model
  // in f32 as well.
  double tolerance = 3e-4;
  // The number of prompts that the checks with that tolerance compute. In a small model with random
  // weights, rounding changes the logits of one prompt ten times as much as those of another.
  uint32_t prompts = 4;
  // Whether this is the only target of the process at this time. If not, checks of what the process
  // has, such as its threads and open files, do not run.
  bool is_alone = true;
};

// Prints one line per check and a summary to `out`; returns the number of failures.
int RunConformance(const Target& target, std::ostream& out);

// Gives the checks the plugin, the model and suitable lengths. A prompt crosses several grid lines
// and is longer than any window.
class Kit {
 public:
  // Opens the model once to learn its sizes. Throws CheckFailed if that fails.
  Kit(const ls_backend& backend, const Target& target);

  const ls_backend& backend() const { return backend_; }
  const Target& target() const { return target_; }
  const TestHost& host() const { return host_; }

  uint32_t vocabulary() const { return vocabulary_; }
  uint32_t grid() const { return grid_; }
  uint32_t page_tokens() const { return page_tokens_; }
  uint64_t context_limit() const { return context_limit_; }
  // The number of tokens of a long prompt. tail() more tokens fit after it.
  uint32_t prompt() const { return prompt_; }
  uint32_t tail() const { return 2 * grid_ + 24; }

  // Whether the backend runs on a device other than the host.
  bool IsOnDevice() const;
  bool Has(uint64_t capabilities) const {
    return (backend_.capabilities & capabilities) == capabilities;
  }
  // Ends the check as not applicable unless the plugin has the capability.
  void Need(uint64_t capability, const char* name) const;

  // The target's options, with batches that are large enough for several long prompts.
  OpenOptions Defaults() const;
  Model Open() const { return Open(Defaults()); }
  Model Open(const OpenOptions& options) const;

  // PseudoRandomTokens for the model's vocabulary.
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

// Notes a failure if the plugin has misused the host. Every check ends with this.
void ExpectNoMisuse(Check& check, const TestHost& host);

}  // namespace longstream::conformance

#endif  // LONGSTREAM_TESTS_CONFORMANCE_KIT_H_
