// Reads, writes and frees caches beside the steps of their model.
#include "service/serving/fleet/peer_caches.h"

#include <span>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace longstream {
namespace {

constexpr const char* kVersion = "longstream.caches.1";
constexpr size_t kFields = 8;

}  // namespace

std::string PeerCachesHeader::Encode() const {
  return absl::StrCat(kVersion, "\n", identity.fingerprint, "\n", identity.tokenizer, "\n",
                      position, "\n", span_bytes, "\n", fixed_bytes, "\n", identity.kernels, "\n",
                      model);
}

absl::StatusOr<PeerCachesHeader> PeerCachesHeader::Decode(std::string_view bytes) {
  const std::vector<std::string> fields =
      absl::StrSplit(std::string(bytes), absl::MaxSplits('\n', kFields - 1));
  PeerCachesHeader header;
  const bool is_right = fields.size() == kFields && fields[0] == kVersion &&
                        absl::SimpleAtoi(fields[1], &header.identity.fingerprint) &&
                        absl::SimpleAtoi(fields[2], &header.identity.tokenizer) &&
                        absl::SimpleAtoi(fields[3], &header.position) &&
                        absl::SimpleAtoi(fields[4], &header.span_bytes) &&
                        absl::SimpleAtoi(fields[5], &header.fixed_bytes);
  if (!is_right) {
    return absl::InvalidArgumentError(
        absl::StrCat("caches: the header is none of the version ", kVersion));
  }
  header.identity.kernels = fields[6];
  header.model = fields[7];
  return header;
}

// ---------------------------------------------------------------- caches that leave

PeerCachesReader::PeerCachesReader(std::shared_ptr<Engine> engine,
                                   std::unique_ptr<CacheCharge> charge, Snapshot snapshot,
                                   const PeerCachesHeader& header)
    : engine_(std::move(engine)),
      charge_(std::move(charge)),
      snapshot_(std::move(snapshot)),
      header_(header.Encode()),
      bytes_(header.span_bytes + header.fixed_bytes) {}

PeerCachesReader::~PeerCachesReader() {
  charge_->Set(0);
  engine_->Free(std::move(snapshot_));
}

absl::Status PeerCachesReader::Read(size_t size, std::string* bytes) {
  const size_t begin = bytes->size();
  while (!is_complete_ && bytes->size() < begin + size) {
    const size_t at = bytes->size();
    const size_t wanted = begin + size - at;
    bytes->resize(begin + size);
    const absl::StatusOr<size_t> read =
        snapshot_.Read(segment_, std::as_writable_bytes(std::span(*bytes).subspan(at)));
    bytes->resize(at + read.value_or(0));
    if (!read.ok()) return read.status();
    if (*read == wanted) return absl::OkStatus();
    is_complete_ = segment_ == Snapshot::Segment::kFixed;
    segment_ = Snapshot::Segment::kFixed;
  }
  return absl::OkStatus();
}

// ---------------------------------------------------------------- caches that arrive

ArrivedCaches& ArrivedCaches::operator=(ArrivedCaches&& other) noexcept {
  if (this != &other) {
    Free();
    engine_ = std::move(other.engine_);
    charge_ = std::move(other.charge_);
    import_ = std::move(other.import_);
    other_kernels_ = std::move(other.other_kernels_);
    mark_ = std::move(other.mark_);
  }
  return *this;
}

void ArrivedCaches::Free() {
  if (import_.valid()) engine_->Free(std::move(import_));
  charge_ = nullptr;
  mark_ = nullptr;
}

absl::Status ArrivedCaches::Write(std::string_view bytes) {
  return import_.Write(std::as_bytes(std::span(bytes)));
}

void ArrivedCaches::Attach(std::shared_ptr<Session> session, Engine::Done done) && {
  charge_ = nullptr;  // the session counts its caches
  engine_->Attach(
      std::move(session), std::move(import_),
      [mark = std::move(mark_), done = std::move(done)](const absl::Status& attached) mutable {
        mark = nullptr;
        done(attached);
      },
      std::move(other_kernels_));
}

absl::Status PeerCachesWriter::Write(std::string_view bytes) {
  if (bytes.size() > missing_) {
    return absl::InvalidArgumentError(
        absl::StrCat("caches: ", bytes.size() - missing_, " bytes more than the header says"));
  }
  missing_ -= bytes.size();
  return caches_.Write(bytes);
}

absl::Status PeerCachesWriter::Finish() {
  if (missing_ > 0) {
    return absl::DataLossError(absl::StrCat("caches: ", missing_, " bytes are missing"));
  }
  if (!caches_.valid()) return absl::FailedPreconditionError("caches: Finish was called before");
  return std::exchange(finished_, nullptr)(std::move(caches_));
}

}  // namespace longstream
