// Turns: makes their calls, and puts their messages together.
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "client/cancellation.h"
#include "client/connection.h"
#include "client/connection_calls.h"
#include "client/errors/retries.h"
#include "client/random_id.h"

namespace longstream::client {
namespace {

using Clock = std::chrono::steady_clock;

// How often a history is begun again because its session has changed.
constexpr int kMostChanges = 10;
// The deadline of the question whether a model has failed.
constexpr std::chrono::seconds kFailedModelTimeout{1};

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Collects the messages of one call on gRPC's threads.
class Collector final : public grpc::ClientReadReactor<v1::GenerateResponse> {
 public:
  // Starts the call that is bound to this object and waits for its end.
  grpc::Status Run() {
    StartRead(&response_);
    StartCall();
    std::unique_lock<std::mutex> lock(mutex_);
    ended_.wait(lock, [&] { return status_.has_value(); });
    return *status_;
  }
  Generation TakeGeneration() { return std::move(generation_); }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    generation_.Add(response_, SecondsSince(begin_));
    StartRead(&response_);
  }
  void OnDone(const grpc::Status& status) override {
    // Notify while the lock is held. Once it is released, Run may return and this object may be
    // destroyed.
    const std::lock_guard<std::mutex> lock(mutex_);
    status_ = status;
    ended_.notify_one();
  }

 private:
  const Clock::time_point begin_ = Clock::now();
  v1::GenerateResponse response_;
  Generation generation_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<grpc::Status> status_;
};

// The caller does not want the turn any more. An error means that there is nothing to cancel, or
// that the server cannot be reached.
void CancelQuietly(Connection& connection, const v1::GenerateRequest& request) {
  try {
    connection.CancelTurn(request.session_id(), request.turn_id());
  } catch (const CallError&) {
  }
}

}  // namespace

void Generation::Add(const v1::GenerateResponse& response, double seconds) {
  if (response.has_started()) started = response.started();
  if (response.has_finish()) finish = response.finish();
  for (int i = 0; i < response.twin().rows_size(); ++i) {
    // A turn that was resumed may send rows again.
    if (response.twin().first_index() + static_cast<uint64_t>(i) < twin_rows.size()) continue;
    twin_rows.push_back(response.twin().rows(i));
  }
  if (!response.has_delta()) return;
  const v1::Delta& delta = response.delta();
  text += delta.text();
  position = delta.position();
  if (delta.token_ids().empty()) return;
  token_seconds.push_back(seconds);
  token_counts.push_back(delta.token_ids_size());
  token_ids.insert(token_ids.end(), delta.token_ids().begin(), delta.token_ids().end());
  log_probs.insert(log_probs.end(), delta.log_probs().begin(), delta.log_probs().end());
}

Generation Connection::Generate(const v1::GenerateRequest& request, const OnMessage& on_message,
                                const OnLost& on_lost) {
  v1::GenerateRequest named = request;
  if (named.turn_id().empty()) named.set_turn_id(RandomId());
  const auto begin = Clock::now();
  Generation generation;
  Retries retries(resume_timeout_);
  // To an address where nobody listens, the first call fails at once: --wait is for waiting.
  stubs_->HasConnected();
  while (true) {
    std::chrono::milliseconds pause{};
    try {
      ReadTurn(named, on_message, begin, &generation);
      return generation;
    } catch (const CallError& error) {
      const auto next = retries.PauseAfter(error.status(), generation.token_ids.size());
      if (!generation.started.turn_id().empty()) stubs_->has_connected = true;
      if (!next.has_value() || !MayPass(error)) throw;
      if (on_lost) on_lost(error);
      pause = *next;
    }
    stubs_->Pause(pause, caller_);
    v1::Resume& resume = *named.mutable_resume();
    resume.set_position(generation.position);
    resume.mutable_token_ids()->Assign(generation.token_ids.begin(), generation.token_ids.end());
  }
}

void Connection::Repeat(const std::function<void()>& call) {
  Retries retries(resume_timeout_);
  stubs_->HasConnected();
  while (true) {
    std::chrono::milliseconds pause{};
    try {
      return call();
    } catch (const CallError& error) {
      const auto next = retries.PauseAfter(error.status(), /*tokens=*/0);
      if (!next.has_value() || !MayPass(error)) throw;
      pause = *next;
    }
    stubs_->Pause(pause, caller_);
  }
}

bool Connection::MayPass(const CallError& error) {
  return stubs_->has_connected && !Cancelled() && !ModelWasNotLoaded(error);
}

bool Connection::ModelWasNotLoaded(const CallError& error) {
  // The server itself has said UNAVAILABLE, and not when it wants the call again.
  if (error.status().error_code() != grpc::StatusCode::UNAVAILABLE || error.request_id().empty() ||
      error.status().error_message().find(kNotLoaded) == std::string::npos ||
      RetryDelay(error.status()).has_value()) {
    return false;
  }
  Call call(caller_);
  call.context.set_deadline(std::chrono::system_clock::now() + kFailedModelTimeout);
  v1::ListModelsResponse known;
  return stubs_->longstream.ListModels(&call.context, {}, &known).ok() &&
         SaysModelWasNotLoaded(error.status(), known);
}

void Connection::ReadTurn(const v1::GenerateRequest& request, const OnMessage& on_message,
                          Clock::time_point begin, Generation* generation) {
  Call call(caller_, request.session_id());
  const auto reader = stubs_->longstream.Generate(&call.context, request);
  std::exception_ptr thrown;
  bool stopped = false;
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
    generation->Add(response, SecondsSince(begin));
    if (!collects_log_probs_) generation->log_probs.clear();
    try {
      if (!stopped && on_message && !on_message(response)) stopped = true;
    } catch (...) {
      // gRPC requires that the client reads the call to its end. Throw the exception after that.
      thrown = std::current_exception();
      stopped = true;
    }
    if (stopped) call.context.TryCancel();
  }
  const grpc::Status status = reader->Finish();
  // The turn does not end with its call.
  const bool leaves = caller_.cancellation != nullptr && caller_.cancellation->leaves();
  if (stopped || (Cancelled() && !leaves)) CancelQuietly(*this, request);
  if (thrown) std::rethrow_exception(thrown);
  if (stopped && status.error_code() == grpc::StatusCode::CANCELLED) {
    throw CallError(grpc::Status(status.error_code(), "the caller has stopped the turn"));
  }
  stubs_->Check(call.context, status);
}

v1::Turn Connection::CancelTurn(const std::string& session, const std::string& turn) {
  EndingCall call(caller_, session);
  v1::CancelTurnRequest request;
  v1::Turn response;
  request.set_session_id(session);
  request.set_turn_id(turn);
  stubs_->Check(call.context, stubs_->longstream.CancelTurn(&call.context, request, &response));
  return response;
}

std::vector<v1::Turn> Connection::Turns(const std::string& session) {
  std::vector<v1::Turn> turns;
  v1::ListTurnsRequest request;
  request.set_session_id(session);
  do {
    Call call(caller_, session);
    v1::ListTurnsResponse response;
    stubs_->Check(call.context, stubs_->longstream.ListTurns(&call.context, request, &response));
    turns.insert(turns.end(), response.turns().begin(), response.turns().end());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return turns;
}

std::vector<v1::HistoryEntry> Connection::History(const std::string& session) {
  std::vector<v1::HistoryEntry> entries;
  v1::ReadHistoryRequest request;
  request.set_session_id(session);
  uint64_t version = 0;
  int changes = 0;
  for (bool has_ended = false; !has_ended;) {
    Call call(caller_, session);
    v1::ReadHistoryResponse response;
    stubs_->Check(call.context, stubs_->longstream.ReadHistory(&call.context, request, &response));
    if (!request.page_token().empty() && response.version() != version) {
      if (++changes > kMostChanges) {
        throw CallError(grpc::Status(grpc::StatusCode::ABORTED,
                                     "session_id: the session changes while its history is read"));
      }
      request.clear_page_token();
      entries.clear();
      continue;
    }
    version = response.version();
    for (v1::HistoryEntry& entry : *response.mutable_entries()) {
      if (!entries.empty() && entries.back().continued()) {
        entries.back().mutable_text()->append(entry.text());
        entries.back().set_continued(entry.continued());
      } else {
        entries.push_back(std::move(entry));
      }
    }
    request.set_page_token(response.next_page_token());
    has_ended = request.page_token().empty();
  }
  return entries;
}

Generation Connection::Collect(const v1::GenerateRequest& request) {
  Call call(caller_, request.session_id());
  Collector collector;
  stubs_->longstream.async()->Generate(&call.context, &request, &collector);
  stubs_->Check(call.context, collector.Run());
  return collector.TakeGeneration();
}

}  // namespace longstream::client
