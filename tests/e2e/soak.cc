// 64 streams use the three demo models. A stream opens a session, appends text, forks the session,
// generates on both and scores the same text; it closes some sessions while a turn runs. Calls are
// cancelled, exceed deadlines or read slowly at random, and some texts have thousands of tokens. At
// the end the server must be alive, its memory must not have grown, no session may be stuck, and
// all memory must have been returned. Every finished request must give the tokens, the
// log-probability and the position that the same request gives when it runs alone.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "client/connection.h"
#include "tests/e2e/soak_caller.h"
#include "tests/processes/server_process.h"

namespace longstream {
namespace {

using Clock = std::chrono::steady_clock;
using grpc::StatusCode;
using std::chrono::milliseconds;

constexpr int kStreams = 64;
constexpr int kLongStreams = 4;  // the number of streams that append long texts
constexpr int kRequests = 24;
constexpr int kLongRequests = 6;
constexpr const char* kModels[] = {"dense", "hwfa2", "hypenet"};
// Sizes of the largest requests in tokens. A token is one byte.
constexpr size_t kMaxAppended = 200;
constexpr size_t kMaxLong = 18000;
constexpr size_t kMaxPrompt = 200;
constexpr uint32_t kMaxGenerated = 120;
constexpr int kRestlessAttempts = 7;  // further attempts of a turn are plain

struct Spec {
  std::string model;
  std::string appended;         // appended in a turn before the request; may be empty
  v1::GenerateRequest request;  // the request, without a session id
  // The results of the request when it runs alone.
  std::vector<int32_t> tokens;
  double log_prob = 0;  // the log-probability of the appended text and the prompt

  const std::string& prompt() const { return request.input().text(); }
  uint64_t end() const { return appended.size() + prompt().size() + tokens.size(); }
};

// A session, as the client knows it.
struct Talk {
  std::string id;
  // Aborted calls of this session that may still reach the server. Such a call holds the session
  // until its abort arrives, and a call that comes meanwhile finds the session taken. Each aborted
  // call can cause this once, because the client then waits until the session is idle.
  int late_calls = 0;

  bool MayBeTaken(const grpc::Status& status) const {
    return late_calls > 0 && status.error_code() == StatusCode::ABORTED;
  }
};

// The numbers of calls, by the way in which the calls ended.
struct Counts {
  std::atomic<int> finished = 0, forked = 0, scored = 0;
  std::atomic<int> closed = 0;  // the session was closed while the turn ran
  std::atomic<int> cancelled = 0;
  std::atomic<int> late = 0;
  // The client cancelled or the deadline passed, but the turn had already ended.
  std::atomic<int> committed = 0;
  std::atomic<int> taken = 0;  // refused because an aborted call had reached the server late
  std::atomic<int> different = 0;
  std::atomic<int> unexpected = 0;
};

std::string RandomText(std::mt19937& random, size_t length) {
  std::string text;
  while (text.size() < length) text += "abcdefgh(): \n_="[random() % 15];
  return text;
}

// `longest`: the greatest length of the appended text; 0: nothing is appended.
Spec NewSpec(int number, size_t longest) {
  std::mt19937 random(static_cast<uint32_t>(number));
  Spec spec;
  spec.model = kModels[number % 3];
  if (longest > 0) spec.appended = RandomText(random, longest / 2 + random() % (longest / 2));
  spec.request.mutable_input()->set_text(RandomText(random, 1 + random() % kMaxPrompt));
  spec.request.set_max_tokens(20 + random() % (kMaxGenerated - 20));
  spec.request.mutable_sampling()->set_temperature(number % 4 == 0 ? 0.0f : 0.9f);
  spec.request.mutable_sampling()->set_seed(random());
  if (number % 3 == 1) spec.request.mutable_sampling()->set_top_p(0.9f);
  if (number % 5 == 1) spec.request.mutable_sampling()->set_repetition_penalty(1.2f);
  spec.request.mutable_stop()->set_ignore_eos(true);
  return spec;
}

class Soak {
 public:
  explicit Soak(const std::string& address) : connection_(address), caller_(address) {
    for (const char* model : kModels) connection_.WaitUntilServing(model, milliseconds(60000));
    for (int i = 0; i < kRequests; ++i) {
      specs_.push_back(NewSpec(i, i % 2 == 0 ? kMaxAppended : 0));
    }
    for (int i = 0; i < kLongRequests; ++i) specs_.push_back(NewSpec(kRequests + i, kMaxLong));
    std::mt19937 random(1);
    for (Spec& spec : specs_) RunAlone(spec, random);
  }

  // Brings each model to its largest memory: the sessions of all streams exist at once, each with a
  // fork and of the largest size. Caches keep memory that was given up lately, so later requests
  // must fit into it.
  void Fill() {
    for (const char* model : kModels) {
      std::vector<std::string> sessions(2 * kStreams);
      InParallel([&](int i) { FillSession(model, i, &sessions[2 * static_cast<size_t>(i)]); });
      for (const std::string& id : sessions) connection_.Close(id);
    }
  }

  // The memory that the server keeps when all sessions are closed. Pools keep what sessions have
  // held lately, so they are filled and emptied before.
  uint64_t IdleBytes(const ServerProcess& server) {
    CloseForksWithoutAnswer();
    Fill();
    std::this_thread::sleep_for(std::chrono::seconds(1));  // the heap is trimmed when no turn runs
    return server.resident_bytes();
  }

  void Run(Clock::time_point until) {
    InParallel([this, until](int i) { Stream(i, until); });
  }

  // Checks that no session is left and no memory is held. Returns the number of faults.
  int CheckIdle() {
    int faults = 0;
    CloseForksWithoutAnswer();
    const std::vector<v1::Session> sessions = connection_.Sessions("");
    if (!sessions.empty()) {
      std::printf("FAULT: %zu sessions are left\n", sessions.size());
      ++faults;
    }
    for (const v1::Model& model : connection_.Models()) {
      const v1::ModelMemory& memory = model.memory();
      const uint64_t held = memory.pages() + memory.rings() + memory.states() +
                            memory.checkpoints() + memory.reserved();
      if (held == 0) continue;
      std::printf("FAULT: %s holds %llu bytes without a session\n", model.name().c_str(),
                  static_cast<unsigned long long>(held));
      ++faults;
    }
    return faults;
  }

  const Counts& counts() const { return counts_; }

 private:
  // Calls body(i) for each stream, each on its own thread. A stream ends at an exception.
  template <typename Body>
  void InParallel(const Body& body) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kStreams; ++i) {
      threads.emplace_back([this, &body, i] {
        try {
          body(i);
        } catch (const std::exception& error) {
          Report(counts_.unexpected, "stream " + std::to_string(i) + ": " + error.what());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  void RunAlone(Spec& spec, std::mt19937& random) {
    const std::string id = connection_.Open(spec.model).session_id();
    if (!spec.appended.empty()) {
      Require(caller_.Append(id, 0, spec.appended, Behaviour::kPlain, random));
    }
    v1::GenerateRequest request = spec.request;
    request.set_session_id(id);
    Require(caller_.Generate(request, Behaviour::kPlain, random, &spec.tokens));
    Require(caller_.Score(spec.model, spec.appended + spec.prompt(), Behaviour::kPlain, random,
                          &spec.log_prob));
    connection_.Close(id);
  }

  static void Require(const grpc::Status& status) {
    if (!status.ok()) throw client::CallError(status);
  }

  // Puts the ids of a session and of its fork into `ids`.
  void FillSession(const std::string& model, int stream, std::string* ids) {
    std::mt19937 random(static_cast<uint32_t>(stream));
    ids[0] = connection_.Open(model).session_id();
    const std::string appended(stream < kLongStreams ? kMaxLong : kMaxAppended, 'x');
    Require(caller_.Append(ids[0], 0, appended, Behaviour::kPlain, random));
    ids[1] = connection_.Fork(ids[0]).session_id();
    v1::GenerateRequest request;
    request.mutable_input()->set_text(std::string(kMaxPrompt, 'x'));
    request.set_max_tokens(kMaxGenerated);
    request.mutable_stop()->set_ignore_eos(true);
    for (const std::string* id : {&ids[0], &ids[1]}) {
      request.set_session_id(*id);
      std::vector<int32_t> tokens;
      Require(caller_.Generate(request, Behaviour::kPlain, random, &tokens));
    }
  }

  void Stream(int number, Clock::time_point until) {
    std::mt19937 random(1000u + static_cast<uint32_t>(number));
    const size_t specs = number < kLongStreams ? specs_.size() : kRequests;
    while (Clock::now() < until) {
      const Spec& spec = specs_[random() % specs];
      if (random() % 8 == 0) {
        Score(spec, random);
      } else {
        Converse(spec, random);
      }
    }
  }

  // Runs one session from opening to closing.
  void Converse(const Spec& spec, std::mt19937& random) {
    Talk talk = {connection_.Open(spec.model).session_id()};
    if (spec.appended.empty() || Append(spec, talk, random)) {
      const uint32_t way = random() % 8;
      if (way == 0) {
        CloseInTheMiddle(spec, talk, random);
        return;
      }
      Talk fork = {way < 4 ? Fork(talk, random) : ""};
      Generate(spec, talk, random);
      if (!fork.id.empty()) {
        // Half of the forks outlive their parent session.
        const bool orphan = random() % 2 == 0;
        if (orphan) connection_.Close(talk.id);
        Generate(spec, fork, random);
        connection_.Close(fork.id);
        if (orphan) return;
      }
    }
    connection_.Close(talk.id);
  }

  // Repeats a turn until it succeeds. An aborted turn is rolled back, so the next attempt must give
  // the same result. But if the turn ended before the server learned of the abort, the session has
  // moved on; then the expected position does not match, and the turn counts as committed. `call`
  // makes one attempt and returns its status. The last attempts are plain, and only late calls can
  // refuse them, so they end.
  bool Persist(Talk& talk, std::mt19937& random,
               const std::function<grpc::Status(Behaviour)>& call) {
    for (int attempt = 0;; ++attempt) {
      const auto behaviour =
          attempt < kRestlessAttempts ? static_cast<Behaviour>(random() % 4) : Behaviour::kPlain;
      const grpc::Status status = call(behaviour);
      if (status.ok()) return true;
      if (attempt > 0 && status.error_code() == StatusCode::FAILED_PRECONDITION) {
        counts_.committed.fetch_add(1);
        return true;
      }
      if (!CountFailure(talk, status, behaviour) || !WaitUntilIdle(talk.id)) return false;
    }
  }

  bool Append(const Spec& spec, Talk& talk, std::mt19937& random) {
    const bool done = Persist(talk, random, [&](Behaviour behaviour) {
      return caller_.Append(talk.id, 0, spec.appended, behaviour, random);
    });
    if (done) ExpectPosition(spec, talk, spec.appended.size());
    return done;
  }

  void Generate(const Spec& spec, Talk& talk, std::mt19937& random) {
    v1::GenerateRequest request = spec.request;
    request.set_session_id(talk.id);
    request.set_expected_position(spec.appended.size());
    const bool done = Persist(talk, random, [&](Behaviour behaviour) {
      std::vector<int32_t> tokens;
      const grpc::Status status = caller_.Generate(request, behaviour, random, &tokens);
      if (status.ok()) {
        counts_.finished.fetch_add(1);
        if (tokens != spec.tokens) ReportTokens(spec, behaviour, tokens);
      }
      return status;
    });
    if (done) ExpectPosition(spec, talk, spec.end());
  }

  // Returns the fork's id, or "" if the call failed.
  std::string Fork(Talk& talk, std::mt19937& random) {
    std::string fork;
    // Fork is a unary call with one message, so a client cannot cancel it or be slow between
    // messages.
    const auto behaviour = random() % 2 == 0 ? Behaviour::kPlain : Behaviour::kDeadline;
    const grpc::Status status = caller_.Fork(talk.id, behaviour, random, &fork);
    if (status.ok()) {
      counts_.forked.fetch_add(1);
    } else {
      if (status.error_code() == StatusCode::DEADLINE_EXCEEDED) forks_given_up_.fetch_add(1);
      CountFailure(talk, status, behaviour);
    }
    return fork;
  }

  void CloseInTheMiddle(const Spec& spec, const Talk& talk, std::mt19937& random) {
    v1::GenerateRequest request = spec.request;
    request.set_session_id(talk.id);
    grpc::Status status;
    std::mt19937 other(static_cast<uint32_t>(random()));
    std::thread turn([&] {
      std::vector<int32_t> tokens;
      status = caller_.Generate(request, Behaviour::kPlain, other, &tokens);
    });
    std::this_thread::sleep_for(milliseconds(random() % 200));
    connection_.Close(talk.id);
    turn.join();
    // The session may be closed before the turn reaches the server, while it runs, or after its
    // end.
    if (status.error_code() == StatusCode::CANCELLED) {
      counts_.closed.fetch_add(1);
    } else if (!status.ok() && status.error_code() != StatusCode::NOT_FOUND &&
               !talk.MayBeTaken(status)) {
      Count(status, Behaviour::kPlain);
    }
  }

  void Score(const Spec& spec, std::mt19937& random) {
    const auto behaviour = static_cast<Behaviour>(random() % 4);
    double sum = 0;
    const grpc::Status status =
        caller_.Score(spec.model, spec.appended + spec.prompt(), behaviour, random, &sum);
    if (!status.ok()) {
      Count(status, behaviour);
      return;
    }
    counts_.scored.fetch_add(1);
    if (sum != spec.log_prob) {
      Report(counts_.different, spec.model + ": log-probability " + std::to_string(sum) +
                                    ", alone " + std::to_string(spec.log_prob));
    }
  }

  void ExpectPosition(const Spec& spec, const Talk& talk, uint64_t position) {
    const uint64_t found = connection_.Get(talk.id).position();
    if (found == position) return;
    Report(counts_.different, spec.model + ": position " + std::to_string(found) + ", expected " +
                                  std::to_string(position));
  }

  void ReportTokens(const Spec& spec, Behaviour behaviour, const std::vector<int32_t>& tokens) {
    const auto [alone, found] =
        std::mismatch(spec.tokens.begin(), spec.tokens.end(), tokens.begin(), tokens.end());
    Report(counts_.different,
           spec.model + ": request " + std::to_string(&spec - specs_.data()) + ", behaviour " +
               std::to_string(static_cast<int>(behaviour)) + ": " + std::to_string(tokens.size()) +
               " tokens, expected " + std::to_string(spec.tokens.size()) +
               ", the first difference at " + std::to_string(alone - spec.tokens.begin()));
  }

  // Counts a call that failed. False: the failure is unexpected. True: the call was aborted, or
  // found the session taken by a late call.
  bool CountFailure(Talk& talk, const grpc::Status& status, Behaviour behaviour) {
    if (talk.MayBeTaken(status)) {
      counts_.taken.fetch_add(1);
      --talk.late_calls;
      return true;
    }
    ++talk.late_calls;
    return Count(status, behaviour);
  }

  // Counts a call that was aborted. False: the call failed for another reason.
  bool Count(const grpc::Status& status, Behaviour behaviour) {
    if (status.error_code() == StatusCode::CANCELLED && behaviour == Behaviour::kCancel) {
      counts_.cancelled.fetch_add(1);
      return true;
    }
    if (status.error_code() == StatusCode::DEADLINE_EXCEEDED && behaviour == Behaviour::kDeadline) {
      counts_.late.fetch_add(1);
      return true;
    }
    Report(counts_.unexpected,
           "status " + std::to_string(status.error_code()) + ": " + status.error_message());
    return false;
  }

  void Report(std::atomic<int>& count, const std::string& sentence) {
    count.fetch_add(1);
    const std::lock_guard<std::mutex> lock(print_);
    std::printf("FAULT: %s\n", sentence.c_str());
  }

  // The server learns of an aborted call a little later than the client. False: the session stays
  // taken.
  bool WaitUntilIdle(const std::string& id) {
    const auto give_up = Clock::now() + std::chrono::seconds(30);
    while (connection_.Get(id).turn_running()) {
      if (Clock::now() > give_up) {
        Report(counts_.unexpected, "session " + id + " is stuck");
        return false;
      }
      std::this_thread::sleep_for(milliseconds(2));
    }
    return true;
  }

  // If the server has made a fork, the fork remains even though its caller gave up before the
  // answer came.
  void CloseForksWithoutAnswer() {
    for (const v1::Session& session : connection_.Sessions("")) {
      if (session.forked_from().empty() || forks_given_up_ == 0) continue;
      --forks_given_up_;
      connection_.Close(session.session_id());
    }
  }

  client::Connection connection_;
  SoakCaller caller_;
  std::vector<Spec> specs_;
  Counts counts_;
  std::atomic<int> forks_given_up_ = 0;
  std::mutex print_;
};

bool EveryEndOccurred(const Counts& counts) {
  for (const std::atomic<int>* count : {&counts.finished, &counts.forked, &counts.scored,
                                        &counts.closed, &counts.cancelled, &counts.late}) {
    if (count->load() == 0) return false;
  }
  return true;
}

int Main(const std::string& binary, const std::string& models, int seconds) {
  std::vector<std::string> arguments;
  for (const char* model : kModels) {
    arguments.insert(arguments.end(), {"--model", std::string(model) + "=" + models + "/" + model});
  }
  ServerProcess server(binary, arguments);
  Soak soak(server.address());
  // Warm-up. The pools and the allocator's arenas grow to the needs of 64 streams whose calls end
  // in all possible ways.
  soak.Run(Clock::now() + milliseconds(250) * seconds);
  const uint64_t warm = soak.IdleBytes(server);
  soak.Run(Clock::now() + milliseconds(1000) * seconds);
  const uint64_t end = soak.IdleBytes(server);

  int faults = soak.CheckIdle();
  const Counts& counts = soak.counts();
  // The memory may grow by 4 % and 4 MiB, because the allocator's memory varies.
  const uint64_t allowed = warm + warm / 25 + (4u << 20);
  if (end > allowed) {
    std::printf("FAULT: resident memory grew\n");
    ++faults;
  }
  if (!EveryEndOccurred(counts)) {
    std::printf("FAULT: not every kind of end occurred, so the soak has shown little\n");
    ++faults;
  }
  faults += counts.different + counts.unexpected;
  const int exit_status = server.Stop();
  if (exit_status != 0) {
    std::printf("FAULT: the server ended with %d\n%s\n", exit_status, server.Log().c_str());
    ++faults;
  }
  std::printf(
      "%d s: %d streams finished, %d forks, %d scores, %d closed while they ran, %d cancelled, %d "
      "past their deadline (%d of them too late to matter), %d found the session taken by a late "
      "call, %d different, %d unexpected; resident "
      "%llu KiB after warm-up, %llu KiB at the end; %d faults\n",
      seconds, counts.finished.load(), counts.forked.load(), counts.scored.load(),
      counts.closed.load(), counts.cancelled.load(), counts.late.load(), counts.committed.load(),
      counts.taken.load(), counts.different.load(), counts.unexpected.load(),
      static_cast<unsigned long long>(warm >> 10), static_cast<unsigned long long>(end >> 10),
      faults);
  return faults == 0 ? 0 : 1;
}

}  // namespace
}  // namespace longstream

int main(int argc, char** argv) {
  CLI::App app("Soak test of a longstream-server");
  std::string binary;
  std::string models;
  int seconds = 120;
  app.add_option("server", binary, "longstream-server")->required();
  app.add_option("models", models, "directory of the demo models")->required();
  app.add_option("--seconds", seconds, "duration after a warm-up of a quarter as much")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    return longstream::Main(binary, models, seconds);
  } catch (const std::exception& error) {
    std::printf("FAULT: %s\n", error.what());
    return 1;
  }
}
