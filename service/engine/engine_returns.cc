// Sessions return to earlier places: rewinds, forks at an earlier place, and the return points that
// make them cheap.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "service/engine/engine.h"
#include "service/engine/policy/thin_places.h"
#include "service/engine/policy/turn_demand.h"
#include "service/engine/turn/turn_history.h"

namespace longstream {
namespace {

// Of one model.
constexpr uint64_t kMostReturnPoints = 4096;

void Thin(std::vector<ReturnPoint>* points) {
  std::vector<uint64_t> positions;
  positions.reserve(points->size());
  for (const ReturnPoint& point : *points) positions.push_back(point.position);
  for (const size_t i : ThinPlaces(std::move(positions))) {
    points->erase(points->begin() + static_cast<std::ptrdiff_t>(i));
  }
}

}  // namespace

bool Engine::FreeOldestReturnPoint() {
  for (const auto& [number, owner] : return_points_) {
    const std::shared_ptr<Session> session = owner.lock();
    // A point that is being copied is in no session.
    if (session != nullptr && session->caches().FreeReturnPoint(number)) return true;
  }
  return false;
}

void Engine::MakeRoom(uint64_t wanted) {
  TakeFromBackground(wanted);
  while (FreeBytes() < wanted && FreeOldestReturnPoint()) {
  }
}

void Engine::MakeRoomForWaiting() {
  if (return_points_.empty() && background_.empty()) return;
  uint64_t wanted = 0;
  for (const std::unique_ptr<ActiveTurn>& turn : waiting_) wanted += turn->BytesWanted().total();
  MakeRoom(wanted);
}

void Engine::KeepReturnPoint(const std::shared_ptr<Session>& session) {
  const BackendModel& backend = model_->backend();
  const uint64_t bytes = TurnDemand::SlotBytes(backend.info());
  SessionCaches& caches = session->caches();
  // Pages go back to any position.
  if (bytes == 0 || bytes > options_.rollback_bytes || !backend.plugin().Can(LS_CAP_FORK)) return;
  if (!caches.sequence.valid() || caches.sequence.position() == 0 || caches.evicted) return;
  const uint64_t position = caches.sequence.position();
  if (!caches.return_points.empty() && caches.return_points.back().position >= position) return;
  const uint64_t most = std::min(options_.rollback_bytes / bytes, kMostReturnPoints);
  while (return_points_.size() >= most && FreeOldestReturnPoint()) {
  }
  TakeFromBackground(bytes);
  if (FreeBytes() < bytes) return;
  absl::StatusOr<Sequence> copy = model_->backend().ForkSequence(caches.sequence);
  if (!copy.ok()) return;
  const uint64_t number = next_return_point_++;
  return_points_.emplace(number, session);
  std::shared_ptr<void> listed(nullptr, [this, number](void*) { return_points_.erase(number); });
  caches.return_points.push_back({position, *std::move(copy), number, std::move(listed)});
  Thin(&caches.return_points);
}

void Engine::Rewind(TurnLease session, SessionState state, std::string reason, Done done) {
  Post([this, lease = std::move(session), state = std::move(state), reason = std::move(reason),
        done = std::move(done)]() mutable {
    absl::Status status;
    if (lease.session()->closed()) {
      status = model_->backend().closed() ? CheckOpen() : NoSession(lease.session()->id());
    } else {
      ReturnTo(lease, std::move(state), std::move(reason), model_->backend());
      lease.session()->ChargeCaches();
      NoteStored(*lease.session());
    }
    lease.Publish();
    lease.Drop();
    done(status);
  });
}

absl::Status Engine::CopySessionAt(TurnLease& source, TurnLease& target, SessionState state,
                                   std::string reason) {
  SessionCaches& from = source.session()->caches();
  const uint64_t common =
      CommonTokens(source.state(), state, model_->backend().info().prefill_grid);
  // A return point of the source is as good for the copy.
  std::vector<ReturnPoint>& points = from.return_points;
  const auto behind = std::find_if(points.begin(), points.end(), [&](const ReturnPoint& point) {
    return point.position > common;
  });
  const bool has_point = behind != points.begin();
  const bool is_behind = from.sequence.valid() && from.sequence.position() > common;
  if (!has_point || !is_behind) {
    if (absl::Status status = CopySession(source, target); !status.ok()) return status;
    ReturnTo(target, std::move(state), std::move(reason), model_->backend());
    target.session()->ChargeCaches();
    NoteStored(*target.session());
    return absl::OkStatus();
  }
  // The caches of the source stand at the point while they are copied. Making room for the copy may
  // free other points.
  ReturnPoint point = std::move(*(behind - 1));
  points.erase(behind - 1);
  std::swap(from.sequence, point.caches);
  absl::Status status = CopySession(source, target);
  std::swap(from.sequence, point.caches);
  const auto next = std::find_if(points.begin(), points.end(), [&](const ReturnPoint& other) {
    return other.position > point.position;
  });
  points.insert(next, std::move(point));
  if (!status.ok()) return status;
  ReturnTo(target, std::move(state), std::move(reason), model_->backend());
  target.session()->ChargeCaches();
  return absl::OkStatus();
}

void Engine::ForkAt(TurnLease source, TurnLease target, SessionState state, std::string reason,
                    Done done) {
  Post([this, from = std::move(source), to = std::move(target), state = std::move(state),
        reason = std::move(reason), done = std::move(done)]() mutable {
    const absl::Status status = CopySessionAt(from, to, std::move(state), std::move(reason));
    EndCopy(from, to, status);
    done(status);
  });
}

}  // namespace longstream
