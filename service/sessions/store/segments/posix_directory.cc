// The system's files.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "service/sessions/store/segments/segment_directory.h"

namespace longstream::store {
namespace {

// A status of errno.
absl::Status SystemError(const char* what, const std::string& path) {
  const int error = errno;
  const std::string message = absl::StrCat("store: ", what, " ", path, ": ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT) return absl::ResourceExhaustedError(message);
  return absl::UnavailableError(message);
}

// A name may come from a damaged row. It must not lead out of the directory.
absl::Status CheckName(const std::string& name) {
  const bool is_name = !name.empty() && name != "." && name != ".." &&
                       name.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
  if (is_name) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("store: '", absl::Utf8SafeCHexEscape(name),
                                          "' is not the name of a segment's file"));
}

// An open file or directory.
class Descriptor {
 public:
  Descriptor(std::string path, int flags)
      : path_(std::move(path)), descriptor_(open(path_.c_str(), flags | O_CLOEXEC, 0600)) {}
  ~Descriptor() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }
  absl::Status Error(const char* what) const { return SystemError(what, path_); }
  absl::Status Sync() const { return fsync(descriptor_) == 0 ? absl::OkStatus() : Error("fsync"); }

 private:
  const std::string path_;
  const int descriptor_;
};

class PosixOutputFile final : public OutputFile {
 public:
  explicit PosixOutputFile(std::unique_ptr<Descriptor> file) : file_(std::move(file)) {}

  absl::Status Append(std::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = write(file_->get(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return file_->Error("write");
      bytes.remove_prefix(static_cast<size_t>(written));
    }
    return absl::OkStatus();
  }
  absl::Status Sync() override { return file_->Sync(); }

 private:
  const std::unique_ptr<Descriptor> file_;
};

class PosixInputFile final : public InputFile {
 public:
  explicit PosixInputFile(std::unique_ptr<Descriptor> file) : file_(std::move(file)) {}

  absl::StatusOr<FileInfo> Info() override {
    struct stat found {};
    if (fstat(file_->get(), &found) != 0) return file_->Error("read the size of");
    return FileInfo{.bytes = static_cast<uint64_t>(found.st_size),
                    .write_time = absl::TimeFromTimespec(found.st_mtim)};
  }
  absl::StatusOr<size_t> Read(absl::Span<char> buffer) override {
    size_t filled = 0;
    while (filled < buffer.size()) {
      const ssize_t got = read(file_->get(), buffer.data() + filled, buffer.size() - filled);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return file_->Error("read");
      if (got == 0) break;
      filled += static_cast<size_t>(got);
    }
    return filled;
  }

 private:
  const std::unique_ptr<Descriptor> file_;
};

class PosixDirectory final : public SegmentDirectory {
 public:
  explicit PosixDirectory(std::string path) : path_(std::move(path)) {}

  absl::StatusOr<std::unique_ptr<OutputFile>> Create(const std::string& name) override {
    if (absl::Status status = CheckName(name); !status.ok()) return status;
    constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;
    auto file = std::make_unique<Descriptor>(Path(name), kFlags);
    if (!file->is_open() && errno == ENOENT) {
      if (absl::Status made = Make(); !made.ok()) return made;
      file = std::make_unique<Descriptor>(Path(name), kFlags);
    }
    if (!file->is_open()) return file->Error("make");
    return std::make_unique<PosixOutputFile>(std::move(file));
  }

  absl::StatusOr<std::unique_ptr<InputFile>> Open(const std::string& name) override {
    if (absl::Status status = CheckName(name); !status.ok()) return status;
    auto file = std::make_unique<Descriptor>(Path(name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (!file->is_open() && errno == ENOENT) {
      return absl::NotFoundError(absl::StrCat("store: there is no file ", Path(name)));
    }
    if (!file->is_open() && errno == ELOOP) {
      return absl::DataLossError(absl::StrCat("store: ", Path(name), " is a link"));
    }
    if (!file->is_open()) return file->Error("open");
    return std::make_unique<PosixInputFile>(std::move(file));
  }

  absl::Status Remove(const std::string& name) override {
    if (absl::Status status = CheckName(name); !status.ok()) return status;
    if (unlink(Path(name).c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
    return SystemError("remove", Path(name));
  }

  absl::Status Sync() override {
    const Descriptor directory(path_, O_RDONLY | O_DIRECTORY);
    return directory.is_open() ? directory.Sync() : directory.Error("open");
  }

  absl::StatusOr<std::vector<std::string>> List() override {
    std::vector<std::string> names;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(path_, error), end; !error && entry != end;
         entry.increment(error)) {
      if (entry->is_regular_file(error)) names.push_back(entry->path().filename().string());
    }
    if (!error || error == std::errc::no_such_file_or_directory) return names;
    return absl::UnavailableError(
        absl::StrCat("store: list the files of ", path_, ": ", error.message()));
  }

  absl::StatusOr<DiskRoom> Room() override {
    struct statvfs found {};
    // The directory may not have been made yet.
    if (statvfs(path_.c_str(), &found) != 0 && statvfs(Above().c_str(), &found) != 0) {
      return SystemError("read the free space of", path_);
    }
    return DiskRoom{.capacity = found.f_blocks * found.f_frsize,
                    .free = found.f_bavail * found.f_frsize};
  }

 private:
  std::string Path(const std::string& name) const { return absl::StrCat(path_, "/", name); }
  std::string Above() const { return std::filesystem::path(path_).parent_path().string(); }

  // Makes the directory and its name durable.
  absl::Status Make() {
    if (mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST) {
      return SystemError("make the directory", path_);
    }
    const Descriptor above(Above(), O_RDONLY | O_DIRECTORY);
    return above.is_open() ? above.Sync() : above.Error("open");
  }

  const std::string path_;
};

}  // namespace

std::unique_ptr<SegmentDirectory> NewPosixDirectory(std::string path) {
  return std::make_unique<PosixDirectory>(std::move(path));
}

}  // namespace longstream::store
