// Files of the system whose lines are a word and a number, such as /proc/meminfo.
#ifndef LONGSTREAM_KERNELS_CORE_LIMITS_NUMBERED_LINES_H_
#define LONGSTREAM_KERNELS_CORE_LIMITS_NUMBERED_LINES_H_

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>

namespace longstream {

// Adds the numbers of the lines that begin with one of these words. nullopt: there is no such line.
inline std::optional<uint64_t> SumOfNumbers(const std::string& file,
                                            std::span<const std::string_view> words) {
  std::ifstream lines(file);
  std::optional<uint64_t> sum;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream text(line);
    std::string word;
    uint64_t number = 0;
    if (!(text >> word >> number)) continue;
    if (std::find(words.begin(), words.end(), word) == words.end()) continue;
    sum = sum.value_or(0) + number;
  }
  return sum;
}

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_LIMITS_NUMBERED_LINES_H_
