#include "service/sessions/store/segments.h"

#include "absl/strings/escaping.h"

namespace longstream::store {

std::string SegmentKey::ToString() const {
  return absl::BytesToHexString({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace longstream::store
