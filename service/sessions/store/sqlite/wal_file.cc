// https://www.sqlite.org/fileformat2.html#walformat: a header, then frames of one page each. Each
// checksum continues the one before, so it covers the file from its beginning.
#include "service/sessions/store/sqlite/wal_file.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"

namespace longstream::store {
namespace {

constexpr size_t kHeaderBytes = 32;
constexpr size_t kFrameHeaderBytes = 24;

uint32_t BigEndian(const unsigned char* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}
uint32_t LittleEndian(const unsigned char* bytes) {
  return uint32_t{bytes[3]} << 24 | uint32_t{bytes[2]} << 16 | uint32_t{bytes[1]} << 8 | bytes[0];
}

struct Checksum {
  uint32_t first = 0;
  uint32_t second = 0;

  // REQUIRES: `size` is a multiple of 8.
  void Add(const unsigned char* bytes, size_t size, bool big_endian) {
    const auto word = big_endian ? BigEndian : LittleEndian;
    for (size_t i = 0; i < size; i += 8) {
      first += word(bytes + i) + second;
      second += word(bytes + i + 4) + first;
    }
  }
  // Whether it is the checksum that is stored in the eight bytes.
  bool Is(const unsigned char* bytes) const {
    return BigEndian(bytes) == first && BigEndian(bytes + 4) == second;
  }
};

// Reads the frames in their order, and notices a whole transaction behind a damaged frame.
class FrameReader {
 public:
  // Returns whether frames follow.
  bool ReadHeader(const unsigned char* header) {
    std::copy_n(header, kHeaderBytes, header_);
    const uint32_t magic = BigEndian(header);
    page_bytes_ = BigEndian(header + 8);
    if ((magic & ~1U) != 0x377f0682 || page_bytes_ < 512 || page_bytes_ > 65536 ||
        (page_bytes_ & (page_bytes_ - 1)) != 0) {
      // A header that was lost when the power failed reads as zeros.
      is_damage_ =
          std::any_of(header, header + kHeaderBytes, [](unsigned char c) { return c != 0; });
      return false;
    }
    big_endian_ = (magic & 1) != 0;
    checksum_.Add(header, 24, big_endian_);
    damaged_ = !checksum_.Is(header + 24);
    header_damaged_ = damaged_;
    return true;
  }

  size_t frame_bytes() const { return kFrameHeaderBytes + page_bytes_; }

  void ReadFrame(const unsigned char* frame) {
    if (header_damaged_) ReadBehindDamagedHeader(frame);
    const bool of_this_log = std::equal(frame + 8, frame + 16, header_ + 16);
    if (of_this_log && after_commit_) is_damage_ = true;
    if (!damaged_) {
      checksum_.Add(frame, 8, big_endian_);
      checksum_.Add(frame + kFrameHeaderBytes, page_bytes_, big_endian_);
      damaged_ = !of_this_log || !checksum_.Is(frame + 16);
    }
    const bool commits = BigEndian(frame + 4) != 0;
    if (damaged_ && of_this_log && commits) after_commit_ = true;
  }

  // Whether a durable transaction has changed.
  bool is_damage() const { return is_damage_; }

 private:
  // SQLite makes a header durable before it writes frames with the header's salt. So if the frame
  // has this salt, or the salt with which the header's checksum is right, the header has changed.
  void ReadBehindDamagedHeader(const unsigned char* frame) {
    header_damaged_ = false;
    after_commit_ = true;
    unsigned char with_salt[24];
    std::copy_n(header_, 16, with_salt);
    std::copy_n(frame + 8, 8, with_salt + 16);
    Checksum checksum;
    checksum.Add(with_salt, sizeof(with_salt), big_endian_);
    if (checksum.Is(header_ + 24)) std::copy_n(frame + 8, 8, header_ + 16);
  }

  unsigned char header_[kHeaderBytes] = {};
  uint32_t page_bytes_ = 0;
  bool big_endian_ = false;
  Checksum checksum_;
  bool header_damaged_ = false;  // and no frame has been read yet
  bool damaged_ = false;         // the header, or a frame so far
  bool after_commit_ = false;    // a transaction has ended behind the damage
  bool is_damage_ = false;
};

// An open file of a VFS.
class VfsFile {
 public:
  VfsFile(sqlite3_vfs* vfs, const char* name)
      : memory_(new unsigned char[static_cast<size_t>(vfs->szOsFile)]()),
        file_(reinterpret_cast<sqlite3_file*>(memory_.get())),
        open_code_(vfs->xOpen(vfs, name, file_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_WAL, nullptr)) {
  }
  ~VfsFile() {
    if (file_->pMethods != nullptr) file_->pMethods->xClose(file_);
  }
  VfsFile(const VfsFile&) = delete;
  VfsFile& operator=(const VfsFile&) = delete;

  // The functions return SQLite's codes.
  int open_code() const { return open_code_; }
  int Size(int64_t* bytes) {
    sqlite3_int64 size = 0;
    const int code = file_->pMethods->xFileSize(file_, &size);
    *bytes = size;
    return code;
  }
  int Read(std::vector<unsigned char>* bytes, int64_t offset) {
    return file_->pMethods->xRead(file_, bytes->data(), static_cast<int>(bytes->size()), offset);
  }
  int Write(const std::vector<unsigned char>& bytes, int64_t offset) {
    return file_->pMethods->xWrite(file_, bytes.data(), static_cast<int>(bytes.size()), offset);
  }
  int Sync() { return file_->pMethods->xSync(file_, SQLITE_SYNC_NORMAL); }

 private:
  const std::unique_ptr<unsigned char[]> memory_;
  sqlite3_file* const file_;
  const int open_code_;
};

// Writes each piece of the file over itself. Returns SQLite's code.
int Renew(VfsFile& file, FrameReader* frames) {
  int64_t size = 0;
  if (const int code = file.Size(&size); code != SQLITE_OK) return code;
  if (size < static_cast<int64_t>(kHeaderBytes)) return SQLITE_OK;
  std::vector<unsigned char> piece(kHeaderBytes);
  bool is_header = true;
  for (int64_t offset = 0; offset + static_cast<int64_t>(piece.size()) <= size;) {
    if (const int code = file.Read(&piece, offset); code != SQLITE_OK) return code;
    if (is_header && !frames->ReadHeader(piece.data())) return SQLITE_OK;
    if (!is_header) frames->ReadFrame(piece.data());
    if (const int code = file.Write(piece, offset); code != SQLITE_OK) return code;
    offset += static_cast<int64_t>(piece.size());
    is_header = false;
    piece.resize(frames->frame_bytes());
  }
  return file.Sync();
}

struct FreeFilename {
  void operator()(const char* name) const { sqlite3_free_filename(name); }
};

}  // namespace

absl::Status RenewWal(const std::string& path, const std::string& vfs) {
  sqlite3_vfs* system = sqlite3_vfs_find(vfs.empty() ? nullptr : vfs.c_str());
  if (system == nullptr) return absl::UnavailableError("store: there is no VFS " + vfs);
  const std::string wal = path + "-wal";
  int exists = 0;
  if (system->xAccess(system, wal.c_str(), SQLITE_ACCESS_EXISTS, &exists) != SQLITE_OK ||
      exists == 0) {
    return absl::OkStatus();
  }
  const std::unique_ptr<const char, FreeFilename> names(
      sqlite3_create_filename(path.c_str(), (path + "-journal").c_str(), wal.c_str(), 0, nullptr));
  if (names == nullptr) return absl::ResourceExhaustedError("store: out of memory");
  VfsFile file(system, sqlite3_filename_wal(names.get()));
  FrameReader frames;
  const int code = file.open_code() == SQLITE_OK ? Renew(file, &frames) : file.open_code();
  if (code != SQLITE_OK) {
    return absl::UnavailableError(absl::StrCat("store: renew ", wal, ": ", sqlite3_errstr(code),
                                               " (SQLite's code ", code, ")"));
  }
  if (frames.is_damage()) {
    return absl::DataLossError(
        absl::StrCat("store: ", wal, " is damaged, and acknowledged changes follow the damage"));
  }
  return absl::OkStatus();
}

}  // namespace longstream::store
