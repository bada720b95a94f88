// In place of a directory of segments where there is none.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_NO_DIRECTORY_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_NO_DIRECTORY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "service/sessions/store/segments/segment_directory.h"

namespace longstream::store {

// Has no files. Create is RESOURCE_EXHAUSTED, so a snapshot with a long segment is given up.
class NoDirectory final : public SegmentDirectory {
 public:
  absl::StatusOr<std::unique_ptr<OutputFile>> Create(const std::string& /*name*/) override {
    return absl::ResourceExhaustedError(
        "store: there is no directory for segments of 64 KiB and more; name one with "
        "store.segments");
  }
  absl::StatusOr<std::unique_ptr<InputFile>> Open(const std::string& name) override {
    return absl::NotFoundError("store: there is no directory for the segment " + name);
  }
  absl::Status Remove(const std::string& /*name*/) override { return absl::OkStatus(); }
  absl::Status Sync() override { return absl::OkStatus(); }
  absl::StatusOr<std::vector<std::string>> List() override { return std::vector<std::string>(); }
  absl::StatusOr<DiskRoom> Room() override { return DiskRoom{}; }
};

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_NO_DIRECTORY_H_
