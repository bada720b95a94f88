// The calls of a client, and what it compares.
#include "tests/chaos/conversation.h"

#include <cstdio>
#include <ctime>
#include <set>
#include <thread>
#include <utility>

#include "client/errors/retries.h"
#include "client/random_id.h"

namespace longstream::chaos {
namespace {

// How long a call is made again. Longer than any fault.
constexpr std::chrono::minutes kCallPatience{2};

// Errors after which the same request may be sent again (docs/fleet.md).
bool SaysAgain(const grpc::Status& status) {
  const grpc::StatusCode code = status.error_code();
  return client::NeverBegan(status) || code == grpc::StatusCode::UNAVAILABLE ||
         code == grpc::StatusCode::ABORTED || code == grpc::StatusCode::INTERNAL ||
         code == grpc::StatusCode::UNKNOWN;
}

// As in the logs of the replicas.
std::string TimeOfDay() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto ms = std::chrono::duration_cast<milliseconds>(now).count();
  const std::time_t second = ms / 1000;
  std::tm utc{};
  gmtime_r(&second, &utc);
  char text[32];
  const size_t size = std::strftime(text, sizeof(text), "%H:%M:%S.", &utc);
  return std::string(text, size) + std::to_string(1000 + ms % 1000).substr(1) + "Z";
}

}  // namespace

void Experience::Add(const Experience& other) {
  counts.Add(other.counts);
  unexpected += other.unexpected;
  sessions += other.sessions;
  lost += other.lost;
  resumed += other.resumed;
  for (const auto& [error, count] : other.repeated) repeated[error] += count;
  for (const auto& [error, count] : other.resumed_after) resumed_after[error] += count;
  for (const auto& [reason, tokens] : other.recomputed) recomputed[reason] += tokens;
  errors.insert(errors.end(), other.errors.begin(), other.errors.end());
  for (size_t i = 0; i < gaps.size(); ++i) {
    gaps[i].insert(gaps[i].end(), other.gaps[i].begin(), other.gaps[i].end());
  }
  turn_times.insert(turn_times.end(), other.turn_times.begin(), other.turn_times.end());
}

bool Experience::good() const {
  return counts.different + counts.missing + counts.twice + unexpected + lost == 0 &&
         errors.empty();
}

void Experience::PrintLosses() const {
  for (const std::string& error : errors) std::printf("FAULT: %s\n", error.c_str());
  std::printf("sessions: %llu, %llu lost; %s, %llu unknown to the client; %zu errors\n",
              static_cast<unsigned long long>(sessions), static_cast<unsigned long long>(lost),
              counts.ToString().c_str(), static_cast<unsigned long long>(unexpected),
              errors.size());
}

Conversation::Conversation(const Script* script, const std::string& address, uint64_t seed,
                           const client::ChannelSecurity& security)
    : script_(script), connection_(address, security), id_(client::RandomId()), random_(seed) {
  experience_.sessions = 1;
}

template <typename Function>
auto Conversation::UntilAnswered(const Function& call) -> decltype(call()) {
  const auto until = Clock::now() + kCallPatience;
  for (;;) {
    try {
      return call();
    } catch (const client::CallError& error) {
      if (!SaysAgain(error.status()) || Clock::now() >= until) throw;
      ++experience_.repeated[error.code_name()];
    }
    std::this_thread::sleep_for(milliseconds(20 + random_() % 80));
  }
}

void Conversation::Run(double pause, const std::atomic<bool>& stopping,
                       const std::atomic<Phase>& phase) {
  try {
    Open();
    while (HasMore()) {
      const double wait = std::uniform_real_distribution<double>(0, 2 * pause)(random_);
      const auto at = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                         std::chrono::duration<double>(wait));
      while (!stopping && Clock::now() < at) std::this_thread::sleep_for(milliseconds(10));
      if (stopping) break;
      RunTurn(phase);
    }
  } catch (const client::CallError& error) {
    HasFailed(error);
  }
  ended_ = true;
}

bool Conversation::RunNext(const std::atomic<Phase>& phase) {
  try {
    if (!is_open_) Open();
    if (HasMore()) RunTurn(phase);
  } catch (const client::CallError& error) {
    HasFailed(error);
    return false;
  }
  return HasMore();
}

void Conversation::Open() {
  v1::OpenSessionRequest request;
  request.set_model(script_->model);
  request.set_session_id(id_);
  request.set_durability(v1::DURABILITY_TURN);
  request.set_recompute(v1::RECOMPUTE_EXACT);
  UntilAnswered([&] { return connection_.Open(request); });
  is_open_ = true;
}

void Conversation::RunTurn(const std::atomic<Phase>& phase) {
  const ScriptedTurn& turn = script_->turns[next_];
  v1::GenerateRequest request = turn.request;
  request.set_session_id(id_);
  request.set_turn_id(client::RandomId());
  const auto asked = Clock::now();
  TurnTime time{std::chrono::system_clock::now()};
  size_t most = 0;    // tokens that have arrived
  auto last = asked;  // when the last of them came, or the turn was asked for
  UntilAnswered([&] {
    size_t count = 0;  // of this try
    const auto on_message = [&](const v1::GenerateResponse& response) {
      for (const int32_t token : response.delta().token_ids()) {
        if (count >= turn.tokens.size() || token != turn.tokens[count]) {
          ++experience_.counts.different;
        }
        ++count;
      }
      if (count <= most) return true;
      const auto now = Clock::now();
      const double wait = std::chrono::duration<double>(now - last).count();
      if (most == 0) {
        time.phase = phase;
        time.first_token_seconds = wait;
      } else {
        experience_.gaps[static_cast<size_t>(phase.load())].push_back(wait);
      }
      last = now;
      most = count;
      return true;
    };
    const auto on_lost = [&](const client::CallError& error) {
      ++experience_.resumed;
      ++experience_.resumed_after[error.what()];
    };
    const client::Generation done = connection_.Generate(request, on_message, on_lost);
    const auto& usage = done.finish.usage();
    if (usage.recomputed_tokens() > 0) {
      experience_.recomputed[usage.recompute_reason()] += usage.recomputed_tokens();
    }
    if (count < turn.tokens.size()) {
      experience_.counts.different += turn.tokens.size() - count;
    }
  });
  time.seconds = std::chrono::duration<double>(Clock::now() - asked).count();
  time.tokens = most;
  experience_.turn_times.push_back(time);
  experience_.counts.tokens += most;
  ++experience_.counts.turns;
  acknowledged_.push_back(request.turn_id());
  ++next_;
}

void Conversation::Check() {
  if (!is_open_) return;
  try {
    if (experience_.errors.empty()) RunTurn(Phase::kAfter);
    CheckTurns();
  } catch (const client::CallError& error) {
    HasFailed(error);
  }
}

void Conversation::CheckTurns() {
  std::multiset<std::string> committed;
  for (const v1::Turn& turn : UntilAnswered([&] { return connection_.Turns(id_); })) {
    if (turn.state() == v1::TURN_STATE_COMMITTED) committed.insert(turn.turn_id());
  }
  for (const std::string& id : acknowledged_) {
    const size_t count = committed.erase(id);
    if (count == 0) ++experience_.counts.missing;
    if (count > 1) ++experience_.counts.twice;
  }
  experience_.unexpected += committed.size();
}

void Conversation::HasFailed(const client::CallError& error) {
  if (error.status().error_code() == grpc::StatusCode::NOT_FOUND) ++experience_.lost;
  experience_.errors.push_back(TimeOfDay() + " " + ToString() + ": " + error.what());
}

std::string Conversation::ToString() const {
  return "session " + id_ + " on " + script_->model + ", turn " + std::to_string(next_);
}

}  // namespace longstream::chaos
