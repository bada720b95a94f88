// Reads the key file without leaving copies of keys in memory.
#include "service/sealing/sealing_keys.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace longstream {
namespace {

constexpr off_t kMaxFileBytes = off_t{64} << 10;
constexpr size_t kMaxKeys = 100;

bool IsIdCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
}

// A key file, and the key of the configuration or the flag that names it.
struct KeyFile {
  std::string path;
  std::string named_by;
};

absl::Status SystemError(const char* what, const KeyFile& file) {
  return absl::UnavailableError(
      absl::StrCat(file.named_by, ": cannot ", what, " ", file.path, ": ", std::strerror(errno)));
}

// Checks that nobody but the owner, and readers of the group, can use the file.
absl::Status CheckMode(const struct stat& found, const KeyFile& file) {
  if (!S_ISREG(found.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(file.named_by, ": ", file.path, " is not a regular file"));
  }
  if ((found.st_mode & (S_IWGRP | S_IRWXO)) != 0) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s: the mode of %s is %03o, so others may read or change it; run `chmod 600 %s`",
        file.named_by, file.path, found.st_mode & 0777, file.path));
  }
  if (found.st_size > kMaxFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat(file.named_by, ": ", file.path, " has ",
                                                   found.st_size, " bytes; the limit is ",
                                                   kMaxFileBytes));
  }
  return absl::OkStatus();
}

// Reads the whole file into a text of the file's size.
absl::Status ReadAll(int descriptor, const KeyFile& file, std::string* text) {
  struct stat found {};
  if (fstat(descriptor, &found) != 0) return SystemError("read the mode of", file);
  if (absl::Status status = CheckMode(found, file); !status.ok()) return status;
  text->resize(static_cast<size_t>(found.st_size));
  size_t filled = 0;
  while (filled < text->size()) {
    const ssize_t got = read(descriptor, text->data() + filled, text->size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError("read", file);
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  text->resize(filled);
  return absl::OkStatus();
}

// Takes the text up to `end` off the front of *text, with the character `end`.
std::string_view TakeUntil(char end, std::string_view* text) {
  const size_t at = std::min(text->find(end), text->size());
  const std::string_view taken = text->substr(0, at);
  text->remove_prefix(std::min(at + 1, text->size()));
  return taken;
}

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r";
  const size_t begin = std::min(text.find_first_not_of(kSpaces), text.size());
  const size_t last = text.find_last_not_of(kSpaces);
  return last == std::string_view::npos ? std::string_view() : text.substr(begin, last + 1 - begin);
}

// Reads one line. Returns an error without its place.
absl::Status ParseLine(std::string_view line, SealingKey* key) {
  const size_t id_size = std::min(line.find_first_of(" \t"), line.size());
  const std::string_view id = line.substr(0, id_size);
  const std::string_view digits = Trim(line.substr(id_size));
  if (id.empty() || id.size() > kMaxKeyIdBytes ||
      !std::all_of(id.begin(), id.end(), IsIdCharacter)) {
    return absl::InvalidArgumentError(
        "expected an id of 1 to 16 letters, digits, '-', '_' or '.', and 64 hexadecimal digits");
  }
  size_t size = 0;
  const bool is_key = digits.size() == 2 * kSealingKeyBytes &&
                      sodium_hex2bin(key->bytes.data(), key->bytes.size(), digits.data(),
                                     digits.size(), nullptr, &size, nullptr) == 0 &&
                      size == kSealingKeyBytes;
  if (!is_key) {
    return absl::InvalidArgumentError(
        absl::StrCat("the key '", std::string(id), "' does not have 64 hexadecimal digits"));
  }
  key->id = id;
  return absl::OkStatus();
}

}  // namespace

SealingKeys::~SealingKeys() {
  for (SealingKey& key : keys_) sodium_memzero(key.bytes.data(), key.bytes.size());
}

const SealingKey* SealingKeys::Find(std::string_view id) const {
  const auto found =
      std::find_if(keys_.begin(), keys_.end(), [&](const SealingKey& key) { return key.id == id; });
  return found == keys_.end() ? nullptr : &*found;
}

absl::StatusOr<std::shared_ptr<const SealingKeys>> SealingKeys::Parse(std::string_view text,
                                                                      std::string_view origin) {
  if (sodium_init() < 0) return absl::InternalError("libsodium cannot be used");
  std::shared_ptr<SealingKeys> keys(new SealingKeys);
  keys->keys_.reserve(kMaxKeys);  // so that no copy of a key is left behind
  const std::string place(origin);
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = Trim(TakeUntil('\n', &text));
    if (line.empty() || line.front() == '#') continue;
    if (keys->keys_.size() == kMaxKeys) {
      return absl::InvalidArgumentError(
          absl::StrCat(place, ": line ", number, ": there are more than ", kMaxKeys, " keys"));
    }
    SealingKey& key = keys->keys_.emplace_back();
    absl::Status status = ParseLine(line, &key);
    if (status.ok() && keys->Find(key.id) != &key) {
      status = absl::InvalidArgumentError(absl::StrCat("two keys have the id '", key.id, "'"));
    }
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(place, ": line ", number, ": ", status.message()));
    }
  }
  if (keys->keys_.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(place, " has no key; expected lines with an id and 64 hexadecimal digits"));
  }
  return keys;
}

absl::StatusOr<std::shared_ptr<const SealingKeys>> SealingKeys::Read(const std::string& path,
                                                                     std::string_view named_by) {
  const KeyFile file{path, std::string(named_by)};
  // A pipe must not hold up the start.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return SystemError("open", file);
  std::string text;
  const absl::Status status = ReadAll(descriptor, file, &text);
  close(descriptor);
  absl::StatusOr<std::shared_ptr<const SealingKeys>> keys =
      status.ok() ? Parse(text, absl::StrCat(file.named_by, ": ", path))
                  : absl::StatusOr<std::shared_ptr<const SealingKeys>>(status);
  sodium_memzero(text.data(), text.size());
  return keys;
}

}  // namespace longstream
