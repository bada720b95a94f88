// Collects the messages.
#include "client/compare/command/compared_text.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace longstream::client {

void ComparedText::Add(const v1::CompareResponse& response) {
  if (response.has_started()) {
    started = response.started();
    ends.resize(static_cast<size_t>(started.arms_size()));
    for (v1::CompareArmEnd& end : ends) end.set_code(-1);
  }
  rows.insert(rows.end(), response.rows().rows().begin(), response.rows().rows().end());
  if (response.has_arm_end() && response.arm_end().arm() < ends.size()) {
    ends[response.arm_end().arm()] = response.arm_end();
  }
  if (response.has_finish()) finish = response.finish();
}

bool ComparedText::is_forced() const {
  return std::none_of(ends.begin(), ends.end(), [](const v1::CompareArmEnd& end) {
    return end.usage().generated_tokens() > 0;
  });
}

double BitsPerByte(const v1::CompareArmEnd& end) {
  const bool generates = end.usage().generated_tokens() > 0;
  if (end.code() != 0 || generates || end.text_bytes() == 0)
    return std::numeric_limits<double>::quiet_NaN();
  return -end.sum_log_prob() / std::log(2.0) / static_cast<double>(end.text_bytes());
}

}  // namespace longstream::client
