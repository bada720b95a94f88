// A file with the token that this process shows to servers.
#ifndef LONGSTREAM_SERVICE_SECURITY_TOKEN_FILE_H_
#define LONGSTREAM_SERVICE_SECURITY_TOKEN_FILE_H_

#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace longstream {

// The token in the contents of the file `path`. INVALID_ARGUMENT: the file is not one line of 16 to
// 4096 printable characters without spaces. The message does not repeat it.
absl::StatusOr<std::string> TokenIn(const std::string& contents, const std::string& path);
// Errors are those of ReadFiles and TokenIn. Only the owner of the file may use it.
absl::StatusOr<std::string> ReadTokenFile(const std::string& path);

// The token that calls use now. Thread-safe.
class CurrentToken {
 public:
  explicit CurrentToken(std::string token) : token_(std::move(token)) {}

  std::string Get() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return token_;
  }
  void Set(std::string token) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    token_ = std::move(token);
  }

 private:
  mutable absl::Mutex mutex_;
  std::string token_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SECURITY_TOKEN_FILE_H_
