// The directory's contents, and the views of it that a store opens.
#include "tests/service/sessions/store/faulty_directory.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace longstream::store {

class FaultyDirectory::Output final : public OutputFile {
 public:
  Output(FaultyDirectory* disk, std::shared_ptr<File> file) : disk_(disk), file_(std::move(file)) {}

  absl::Status Append(std::string_view bytes) override { return disk_->AppendTo(*file_, bytes); }
  absl::Status Sync() override { return disk_->SyncFile(*file_); }

 private:
  FaultyDirectory* const disk_;
  const std::shared_ptr<File> file_;
};

class FaultyDirectory::Input final : public InputFile {
 public:
  Input(FaultyDirectory* disk, std::string name, std::shared_ptr<File> file)
      : disk_(disk), name_(std::move(name)), file_(std::move(file)) {}

  absl::StatusOr<FileInfo> Info() override {
    const std::lock_guard lock(disk_->mutex_);
    return FileInfo{.bytes = file_->now.size(), .write_time = file_->write_time};
  }
  absl::StatusOr<size_t> Read(absl::Span<char> buffer) override {
    if (absl::Status failed = disk_->WaitToRead(name_); !failed.ok()) return failed;
    const std::lock_guard lock(disk_->mutex_);
    const size_t size = std::min(buffer.size(), file_->now.size() - position_);
    std::memcpy(buffer.data(), file_->now.data() + position_, size);
    position_ += size;
    return size;
  }

 private:
  FaultyDirectory* const disk_;
  const std::string name_;
  const std::shared_ptr<File> file_;
  size_t position_ = 0;
};

class FaultyDirectory::DirectoryView final : public SegmentDirectory {
 public:
  explicit DirectoryView(FaultyDirectory* disk) : disk_(disk) {}

  absl::StatusOr<std::unique_ptr<OutputFile>> Create(const std::string& name) override {
    absl::StatusOr<std::shared_ptr<File>> file = disk_->Create(name);
    if (!file.ok()) return file.status();
    return std::make_unique<Output>(disk_, *std::move(file));
  }
  absl::StatusOr<std::unique_ptr<InputFile>> Open(const std::string& name) override {
    if (absl::Status failed = disk_->WaitToRead(name); !failed.ok()) return failed;
    absl::StatusOr<std::shared_ptr<File>> file = disk_->Find(name);
    if (!file.ok()) return file.status();
    return std::make_unique<Input>(disk_, name, *std::move(file));
  }
  absl::Status Remove(const std::string& name) override { return disk_->Remove(name); }
  absl::Status Sync() override { return disk_->Sync(); }
  absl::StatusOr<std::vector<std::string>> List() override {
    std::vector<std::string> names;
    for (const auto& [name, bytes] : disk_->Files()) names.push_back(name);
    return names;
  }
  absl::StatusOr<DiskRoom> Room() override {
    const std::lock_guard lock(disk_->mutex_);
    return disk_->room_;
  }

 private:
  FaultyDirectory* const disk_;
};

std::unique_ptr<SegmentDirectory> FaultyDirectory::View() {
  return std::make_unique<DirectoryView>(this);
}

uint64_t FaultyDirectory::num_operations() const {
  const std::lock_guard lock(mutex_);
  return operations_;
}

void FaultyDirectory::FailAfter(uint64_t after) {
  const std::lock_guard lock(mutex_);
  fail_after_ = operations_ + after;
}

void FaultyDirectory::SetFull(bool full) {
  const std::lock_guard lock(mutex_);
  full_ = full;
}

void FaultyDirectory::SetFsyncFails(bool of_files, bool of_directory) {
  const std::lock_guard lock(mutex_);
  file_fsync_fails_ = of_files;
  directory_fsync_fails_ = of_directory;
}

void FaultyDirectory::SetRoom(DiskRoom room) {
  const std::lock_guard lock(mutex_);
  room_ = room;
}

void FaultyDirectory::SetBeforeRead(BeforeRead before_read) {
  const std::lock_guard lock(mutex_);
  before_read_ = before_read ? std::make_shared<const BeforeRead>(std::move(before_read)) : nullptr;
}

void FaultyDirectory::SetBeforeCreate(std::function<void()> before_create) {
  const std::lock_guard lock(mutex_);
  before_create_ = std::make_shared<const std::function<void()>>(std::move(before_create));
}

absl::Status FaultyDirectory::WaitToRead(const std::string& name) const {
  std::shared_ptr<const BeforeRead> before_read;
  {
    const std::lock_guard lock(mutex_);
    before_read = before_read_;
  }
  return before_read == nullptr ? absl::OkStatus() : (*before_read)(name);
}

void FaultyDirectory::LosePower(std::mt19937_64& random) {
  const std::lock_guard lock(mutex_);
  std::shuffle(uncertain_names_.begin(), uncertain_names_.end(), random);
  for (const Naming& naming : uncertain_names_) {
    if (random() % 2 == 0) Apply(naming, &durable_names_);
  }
  uncertain_names_.clear();
  names_ = durable_names_;
  for (auto& [name, file] : names_) {
    std::shuffle(file->uncertain.begin(), file->uncertain.end(), random);
    for (Write& write : file->uncertain) {
      const uint64_t fate = random() % 4;
      if (fate == 0) continue;                                                 // lost
      if (fate == 1) write.bytes.resize(random() % (write.bytes.size() + 1));  // torn
      Apply(write, &file->durable);
    }
    file->uncertain.clear();
    file->now = file->durable;
  }
  fail_after_ = UINT64_MAX;
  full_ = file_fsync_fails_ = directory_fsync_fails_ = false;
}

std::map<std::string, std::string> FaultyDirectory::Files() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::string> files;
  for (const auto& [name, file] : names_) files[name] = file->now;
  return files;
}

void FaultyDirectory::Put(const std::string& name, std::string bytes, absl::Time write_time) {
  const std::lock_guard lock(mutex_);
  names_[name] = durable_names_[name] = std::make_shared<File>(File{bytes, bytes, {}, write_time});
}

void FaultyDirectory::Erase(const std::string& name) {
  const std::lock_guard lock(mutex_);
  names_.erase(name);
  durable_names_.erase(name);
}

absl::StatusOr<std::shared_ptr<FaultyDirectory::File>> FaultyDirectory::Create(
    const std::string& name) {
  std::shared_ptr<const std::function<void()>> before_create;
  {
    const std::lock_guard lock(mutex_);
    before_create = before_create_;
  }
  if (before_create != nullptr && *before_create) (*before_create)();
  const std::lock_guard lock(mutex_);
  if (absl::Status failed = Count(); !failed.ok()) return failed;
  if (full_) return absl::ResourceExhaustedError("faulty directory: full");
  if (names_.contains(name)) return absl::UnavailableError("faulty directory: the file exists");
  auto file = std::make_shared<File>(File{"", "", {}, absl::Now()});
  uncertain_names_.push_back({name, file});
  Apply(uncertain_names_.back(), &names_);
  return file;
}

absl::StatusOr<std::shared_ptr<FaultyDirectory::File>> FaultyDirectory::Find(
    const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = names_.find(name);
  if (found != names_.end()) return found->second;
  return absl::NotFoundError(absl::StrCat("faulty directory: there is no ", name));
}

absl::Status FaultyDirectory::Remove(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (absl::Status failed = Count(); !failed.ok()) return failed;
  uncertain_names_.push_back({name, nullptr});
  Apply(uncertain_names_.back(), &names_);
  return absl::OkStatus();
}

absl::Status FaultyDirectory::Sync() {
  const std::lock_guard lock(mutex_);
  if (absl::Status failed = Count(); !failed.ok()) return failed;
  const std::vector<Naming> namings = std::exchange(uncertain_names_, {});
  if (directory_fsync_fails_) return absl::UnavailableError("faulty directory: fsync");
  for (const Naming& naming : namings) Apply(naming, &durable_names_);
  return absl::OkStatus();
}

absl::Status FaultyDirectory::AppendTo(File& file, std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  if (absl::Status failed = Count(); !failed.ok()) return failed;
  if (full_) return absl::ResourceExhaustedError("faulty directory: full");
  file.uncertain.push_back({file.now.size(), std::string(bytes)});
  Apply(file.uncertain.back(), &file.now);
  return absl::OkStatus();
}

absl::Status FaultyDirectory::SyncFile(File& file) {
  const std::lock_guard lock(mutex_);
  if (absl::Status failed = Count(); !failed.ok()) return failed;
  const std::vector<Write> writes = std::exchange(file.uncertain, {});
  if (file_fsync_fails_) return absl::UnavailableError("faulty directory: fsync of a file");
  for (const Write& write : writes) Apply(write, &file.durable);
  return absl::OkStatus();
}

void FaultyDirectory::Apply(const Naming& naming, Names* names) {
  if (naming.file == nullptr) {
    names->erase(naming.name);
  } else {
    (*names)[naming.name] = naming.file;
  }
}

void FaultyDirectory::Apply(const Write& write, std::string* bytes) {
  bytes->resize(std::max(bytes->size(), write.offset + write.bytes.size()), '\0');
  std::copy(write.bytes.begin(), write.bytes.end(),
            bytes->begin() + static_cast<ptrdiff_t>(write.offset));
}

absl::Status FaultyDirectory::Count() {
  if (++operations_ <= fail_after_) return absl::OkStatus();
  return absl::UnavailableError("faulty directory: the power has gone");
}

}  // namespace longstream::store
