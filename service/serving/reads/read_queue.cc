// Tenants stand in a round; sessions with a read that runs keep their other reads aside.
#include "service/serving/reads/read_queue.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace longstream {

absl::Status ReadQueue::Add(const ReadOf& of, uint32_t weight, Work work) {
  Lane& lane = lanes_[of.tenant];
  if (lane.num_waiting >= limits_.most_waiting) {
    return absl::UnavailableError(absl::StrCat("store: ", limits_.most_waiting,
                                               " calls wait to read it; send the request again"));
  }
  lane.weight = weight;
  std::deque<Read>* queue = &lane.ready;
  if (of.session.has_value()) {
    const auto [session, is_first] = lane.sessions.try_emplace(*of.session);
    if (!is_first) queue = &session->second;
  }
  queue->push_back({of, std::move(work)});
  ++lane.num_waiting;
  ++num_waiting_;
  Enter(&lane);
  return absl::OkStatus();
}

void ReadQueue::Enter(Lane* lane) {
  if (lane->is_in_round || !MayRun(*lane)) return;
  lane->is_in_round = true;
  lane->left = lane->weight;
  round_.push_back(lane);
}

ReadQueue::Read ReadQueue::Take() {
  Lane* const lane = round_.front();
  Read read = std::move(lane->ready.front());
  lane->ready.pop_front();
  --lane->num_waiting;
  --num_waiting_;
  ++lane->num_running;
  if (--lane->left == 0 || !MayRun(*lane)) {
    round_.pop_front();
    lane->is_in_round = false;
    Enter(lane);
  }
  return read;
}

void ReadQueue::End(const ReadOf& of) {
  const auto found = lanes_.find(of.tenant);
  Lane& lane = found->second;
  --lane.num_running;
  if (of.session.has_value()) {
    const auto session = lane.sessions.find(*of.session);
    std::deque<Read>& behind = session->second;
    if (behind.empty()) {
      lane.sessions.erase(session);
    } else {
      lane.ready.push_back(std::move(behind.front()));
      behind.pop_front();
    }
  }
  Enter(&lane);
  if (lane.num_running == 0 && lane.num_waiting == 0) lanes_.erase(found);
}

}  // namespace longstream
