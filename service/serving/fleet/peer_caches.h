// The caches of one session on their way from replica to replica.
#ifndef LONGSTREAM_SERVICE_SERVING_FLEET_PEER_CACHES_H_
#define LONGSTREAM_SERVICE_SERVING_FLEET_PEER_CACHES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/engine/engine.h"
#include "service/fleet/session_copies.h"
#include "service/models/backend_model.h"
#include "service/security/tenants/tenant.h"
#include "service/serving/log/turn_codec.h"

namespace longstream {

// Describes the bytes of a session's caches: spans and fixed block, as session files have them.
struct PeerCachesHeader {
  std::string model;       // the name
  ModelIdentity identity;  // `kernels`: those that have computed the caches
  uint64_t position = 0;   // tokens that the caches have read
  uint64_t span_bytes = 0;
  uint64_t fixed_bytes = 0;

  std::string Encode() const;
  // INVALID_ARGUMENT: this is no header of this version.
  static absl::StatusOr<PeerCachesHeader> Decode(std::string_view bytes);
};

// Reads a snapshot, then frees it.
class PeerCachesReader final : public fleet::CacheReader {
 public:
  // `charge`: counts the snapshot, which is valid. `engine`: of the session.
  PeerCachesReader(std::shared_ptr<Engine> engine, std::unique_ptr<CacheCharge> charge,
                   Snapshot snapshot, const PeerCachesHeader& header);
  ~PeerCachesReader() override;
  PeerCachesReader(const PeerCachesReader&) = delete;
  PeerCachesReader& operator=(const PeerCachesReader&) = delete;

  const std::string& header() const override { return header_; }
  uint64_t bytes() const override { return bytes_; }
  absl::Status Read(size_t size, std::string* bytes) override;

 private:
  const std::shared_ptr<Engine> engine_;  // shared, so that it outlives the snapshot
  const std::unique_ptr<CacheCharge> charge_;
  Snapshot snapshot_;
  const std::string header_;
  const uint64_t bytes_;
  Snapshot::Segment segment_ = Snapshot::Segment::kSpan;
  bool is_complete_ = false;
};

// Caches that have arrived, until a session takes them. Movable; frees them otherwise.
class ArrivedCaches {
 public:
  ArrivedCaches() = default;
  // `charge`: counts the import, which is valid.
  ArrivedCaches(std::shared_ptr<Engine> engine, std::unique_ptr<CacheCharge> charge,
                SnapshotImport import, std::string other_kernels)
      : engine_(std::move(engine)),
        charge_(std::move(charge)),
        import_(std::move(import)),
        other_kernels_(std::move(other_kernels)) {}
  ~ArrivedCaches() { Free(); }
  ArrivedCaches(ArrivedCaches&& other) noexcept = default;
  ArrivedCaches& operator=(ArrivedCaches&& other) noexcept;

  bool valid() const { return import_.valid(); }
  // Keeps `mark` until the caches are freed, or a session has them.
  void SetMark(std::shared_ptr<void> mark) { mark_ = std::move(mark); }
  const std::shared_ptr<Engine>& engine() const { return engine_; }
  absl::Status Write(std::string_view bytes);
  // Gives them to a session of their engine, then calls `done`: with an error the session has none.
  void Attach(std::shared_ptr<Session> session, Engine::Done done) &&;

 private:
  void Free();

  std::shared_ptr<Engine> engine_;
  std::unique_ptr<CacheCharge> charge_;  // Engine::BeginImport has a pointer to it
  SnapshotImport import_;
  std::string other_kernels_;  // as SessionCaches's
  std::shared_ptr<void> mark_;
};

// Takes the bytes of caches that arrive.
class PeerCachesWriter final : public fleet::CacheWriter {
 public:
  // `finished` gets the caches when all `bytes` are there. Its error is that of Finish.
  using Finished = std::function<absl::Status(ArrivedCaches)>;
  PeerCachesWriter(ArrivedCaches caches, uint64_t bytes, Finished finished)
      : caches_(std::move(caches)), missing_(bytes), finished_(std::move(finished)) {}

  absl::Status Write(std::string_view bytes) override;
  absl::Status Finish() override;

 private:
  ArrivedCaches caches_;
  uint64_t missing_;
  Finished finished_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_FLEET_PEER_CACHES_H_
