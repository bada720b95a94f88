// The versions of models that were replaced, and whose sessions go on with later versions.
#ifndef LONGSTREAM_SERVICE_SERVING_ENGINES_REPLACED_VERSIONS_H_
#define LONGSTREAM_SERVICE_SERVING_ENGINES_REPLACED_VERSIONS_H_

#include <algorithm>
#include <cstddef>
#include <deque>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "service/serving/log/turn_codec.h"

namespace longstream {

// An operator has replaced a version and moved its sessions. Some of them are only in the store at
// that moment, and are read when the version is gone. Remembers the latest versions. Thread-safe.
class ReplacedVersions {
 public:
  static constexpr size_t kMost = 1024;

  // `model`: the name of the model.
  void Add(const std::string& model, const ModelIdentity& version) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (Has(model, version)) return;
    versions_.push_back({model, version});
    if (versions_.size() > kMost) versions_.pop_front();
  }
  // Whether the sessions of this version go on with a later one.
  bool Moves(const std::string& model, const ModelIdentity& version) const
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return Has(model, version);
  }

 private:
  struct Version {
    std::string model;
    ModelIdentity identity;
  };
  bool Has(const std::string& model, const ModelIdentity& version) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return std::any_of(versions_.begin(), versions_.end(), [&](const Version& known) {
      return known.model == model && known.identity.HasCachesOf(version);
    });
  }

  mutable absl::Mutex mutex_;
  std::deque<Version> versions_ ABSL_GUARDED_BY(mutex_);  // the oldest first
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_ENGINES_REPLACED_VERSIONS_H_
