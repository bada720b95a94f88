// Lists of names that a template may or may not use.
#ifndef LONGSTREAM_SERVICE_JINJA_VALUES_NAMES_H_
#define LONGSTREAM_SERVICE_JINJA_VALUES_NAMES_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace longstream::chat {

template <size_t N>
bool Has(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_VALUES_NAMES_H_
