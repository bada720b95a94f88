// Results as text, one per line. The text keeps every bit.
#ifndef LONGSTREAM_TESTS_CONFORMANCE_BITS_TRACE_H_
#define LONGSTREAM_TESTS_CONFORMANCE_BITS_TRACE_H_

#include <cstdint>
#include <span>
#include <string>

#include "tests/conformance/model.h"

namespace longstream::conformance {

// Collects the lines of results. Not thread-safe.
class Trace {
 public:
  // `label` names the call of the workload that gave the result.
  void AddInfo(const ls_model_info& info);
  void AddOutput(const std::string& label, const Output& output);
  void AddBytes(const std::string& label, const Sequence& sequence);
  void AddSnapshot(const std::string& label, const std::string& snapshot);
  void AddNumber(const std::string& label, uint64_t number);

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace longstream::conformance

#endif  // LONGSTREAM_TESTS_CONFORMANCE_BITS_TRACE_H_
