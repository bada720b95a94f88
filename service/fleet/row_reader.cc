// Two queues of reads, and the threads that empty them.
#include "service/fleet/row_reader.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace longstream::fleet {

RowReader::RowReader(FleetStore* store, int threads, size_t most_waiting)
    : store_(store), most_waiting_(most_waiting) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

void RowReader::Read(const SessionKey& session, const std::optional<TurnId>& turn, For what,
                     Done done) {
  absl::Status refused;
  Request request{session, turn, std::move(done)};
  {
    const absl::MutexLock lock(&mutex_);
    std::deque<Request>& queue = what == For::kCheck ? checks_ : work_;
    const bool is_full = what == For::kWork && work_.size() >= most_waiting_;
    if (!stopping_ && !is_full) {
      queue.push_back(std::move(request));
      return;
    }
    refused = stopping_ ? absl::UnavailableError("the server is shutting down")
                        : absl::UnavailableError(absl::StrCat("the limit of ", most_waiting_,
                                                              " waiting reads is reached"));
  }
  request.done(std::move(refused));
}

void RowReader::Run() {
  const auto has_work = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !work_.empty() || !checks_.empty();
  };
  while (true) {
    Request request;
    {
      const absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&has_work));
      if (stopping_) return;
      std::deque<Request>& from = work_.empty() ? checks_ : work_;
      request = std::move(from.front());
      from.pop_front();
    }
    request.done(store_->ReadRow(request.session, request.turn));
  }
}

void RowReader::Stop() {
  std::deque<Request> left;
  {
    const absl::MutexLock lock(&mutex_);
    stopping_ = true;
    left = std::exchange(work_, {});
    for (Request& request : checks_) left.push_back(std::move(request));
    checks_.clear();
  }
  for (const Request& request : left) {
    request.done(absl::UnavailableError("the server is shutting down"));
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

}  // namespace longstream::fleet
