// The keys that seal and open files, and the file that holds them.
#ifndef LONGSTREAM_SERVICE_SEALING_SEALING_KEYS_H_
#define LONGSTREAM_SERVICE_SEALING_SEALING_KEYS_H_

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longstream {

inline constexpr size_t kSealingKeyBytes = 32;
inline constexpr size_t kMaxKeyIdBytes = 16;

struct SealingKey {
  std::string id;
  std::array<unsigned char, kSealingKeyBytes> bytes = {};
};

// At least one key. The first one seals, all of them open. The keys are overwritten in memory when
// the object goes. Thread-safe, because nothing changes.
class SealingKeys {
 public:
  // Reads a key file: each line has an id (1 to 16 letters, digits, '-', '_' or '.'), spaces, and
  // 64 hexadecimal digits. Empty lines, and lines that begin with '#', have no key.
  //
  // `named_by`: the key of the configuration, or the flag, that names the file. The errors name it,
  // the file and the line, and never repeat a key. UNAVAILABLE: the file cannot be
  // read. FAILED_PRECONDITION: it is no regular file, or others than its owner and its group may
  // read it, or others than its owner may write to it. INVALID_ARGUMENT: a line is wrong, two keys
  // have one id, or there is no key.
  static absl::StatusOr<std::shared_ptr<const SealingKeys>> Read(const std::string& path,
                                                                 std::string_view named_by);
  // The same for the text of a file. Errors begin with `origin`.
  static absl::StatusOr<std::shared_ptr<const SealingKeys>> Parse(std::string_view text,
                                                                  std::string_view origin);

  ~SealingKeys();
  SealingKeys(const SealingKeys&) = delete;
  SealingKeys& operator=(const SealingKeys&) = delete;

  const SealingKey& first() const { return keys_.front(); }
  // nullptr: there is no key with this id.
  const SealingKey* Find(std::string_view id) const;

 private:
  SealingKeys() = default;

  std::vector<SealingKey> keys_;
};

enum class Compression { kNone, kZstd };

// How files are sealed.
struct Sealing {
  std::shared_ptr<const SealingKeys> keys;  // null: files are not sealed, and not compressed
  Compression compression = Compression::kNone;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SEALING_SEALING_KEYS_H_
