// Bounds the time and the memory that a template takes. A template comes with the model and may be
// faulty or malicious.
#ifndef LONGSTREAM_SERVICE_JINJA_VALUES_METER_H_
#define LONGSTREAM_SERVICE_JINJA_VALUES_METER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "service/jinja/values/error.h"

namespace longstream::chat {

struct RenderLimits {
  // A step is an expression, a statement, a list element or 64 bytes of text. This many steps take
  // one or two seconds.
  uint64_t max_steps = 20'000'000;
  // The sum of the bytes of all texts and lists that the rendering makes, including the result.
  uint64_t max_bytes = 256u << 20;
};

class Meter {
 public:
  explicit Meter(const RenderLimits& limits) : limits_(limits) {}

  void Step(uint64_t count = 1) {
    steps_ += count;
    if (steps_ > limits_.max_steps) {
      Fail("the template takes more than " + std::to_string(limits_.max_steps) + " steps");
    }
  }
  // Counts the reading of a text of `bytes` bytes.
  void Read(size_t bytes) { Step(bytes / 64); }
  // Counts the making of a text of `bytes` bytes.
  void Make(size_t bytes) {
    bytes_ += bytes;
    if (bytes_ > limits_.max_bytes) {
      Fail("the template makes more than " + std::to_string(limits_.max_bytes) + " bytes of text");
    }
    Read(bytes);
  }
  // Counts the making or copying of a list of `elements` elements.
  void MakeList(size_t elements) {
    constexpr size_t kBytesOfElement = 48;
    Step(elements);
    if (elements > limits_.max_bytes / kBytesOfElement) elements = limits_.max_bytes;
    Make(elements * kBytesOfElement);
  }

 private:
  const RenderLimits limits_;
  uint64_t steps_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_VALUES_METER_H_
