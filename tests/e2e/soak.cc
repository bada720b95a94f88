// 64 streams over 64 sessions on the three demo models, with random cancels, deadlines and slow
// readers. At the end: the server lives, its memory is flat, no session is stuck, everything is
// given back, and every stream that finished has the tokens of the same request run alone.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "client/connection.h"
#include "tests/e2e/server_process.h"

namespace longstream {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kStreams = 64;
constexpr int kRequests = 24;
constexpr const char* kModels[] = {"dense", "hwfa2", "hypenet"};
// Tokens of the largest request, a byte each. All but the last generated one come into the caches,
// and fill 7 pages to the end.
constexpr size_t kMaxPrompt = 300;
constexpr uint32_t kMaxGenerated = 7 * 64 + 1 - kMaxPrompt;

struct Spec {
  std::string model;
  v1::GenerateRequest request;  // without a session
  std::vector<int32_t> alone;   // tokens of the request run alone
};

// How one stream behaves.
enum class Behaviour { kPlain, kCancel, kDeadline, kSlow };

struct Counts {
  std::atomic<int> finished = 0;
  std::atomic<int> cancelled = 0;
  std::atomic<int> late = 0;
  std::atomic<int> committed = 0;  // of those two: the turn had ended before
  std::atomic<int> different = 0;
  std::atomic<int> unexpected = 0;
};

class Soak {
 public:
  explicit Soak(const std::string& address)
      : connection_(address),
        stub_(v1::Longstream::NewStub(
            grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))) {
    for (const char* model : kModels) connection_.WaitUntilServing(model, milliseconds(60000));
    for (int i = 0; i < kRequests; ++i) specs_.push_back(NewSpec(i));
    for (Spec& spec : specs_) {
      const std::string id = connection_.Open(spec.model).session_id();
      Call(spec, id, Behaviour::kPlain, 0, &spec.alone);
      connection_.Close(id);
    }
  }

  // Brings each model to the most that it will hold: all sessions at once, of the largest size.
  // Cache memory is not returned to the system, so later requests must find room in it.
  void Fill() {
    for (const char* model : kModels) {
      Spec spec;
      spec.model = model;
      spec.request.mutable_input()->set_text(std::string(kMaxPrompt, 'x'));
      spec.request.set_max_tokens(kMaxGenerated);
      spec.request.mutable_stop()->set_ignore_eos(true);
      std::vector<std::string> sessions(kStreams);
      for (std::string& id : sessions) id = connection_.Open(model).session_id();
      InParallel([&](int i) {
        std::vector<int32_t> tokens;
        const grpc::Status status =
            Call(spec, sessions[static_cast<size_t>(i)], Behaviour::kPlain, 0, &tokens);
        if (!status.ok()) Count(status, Behaviour::kPlain);
      });
      for (const std::string& id : sessions) connection_.Close(id);
    }
  }

  void Run(Clock::time_point until) {
    InParallel([this, until](int i) { Stream(i, until); });
  }

  // Nothing runs, nothing is held. Returns the number of faults.
  int CheckIdle() {
    int faults = 0;
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
  // body(i) for each stream, each on its own thread.
  template <typename Body>
  static void InParallel(const Body& body) {
    std::vector<std::thread> threads;
    threads.reserve(kStreams);
    for (int i = 0; i < kStreams; ++i) threads.emplace_back(body, i);
    for (std::thread& thread : threads) thread.join();
  }

  static Spec NewSpec(int number) {
    std::mt19937 random(static_cast<uint32_t>(number));
    Spec spec;
    spec.model = kModels[number % 3];
    std::string prompt;
    const size_t length = 1 + random() % kMaxPrompt;
    while (prompt.size() < length) prompt += "abcdefgh(): \n_="[random() % 15];
    spec.request.mutable_input()->set_text(prompt);
    spec.request.set_max_tokens(20 + random() % 100);
    spec.request.mutable_sampling()->set_temperature(number % 4 == 0 ? 0.0f : 0.9f);
    spec.request.mutable_sampling()->set_seed(random());
    if (number % 3 == 1) spec.request.mutable_sampling()->set_top_p(0.9f);
    if (number % 5 == 1) spec.request.mutable_sampling()->set_repetition_penalty(1.2f);
    spec.request.mutable_stop()->set_ignore_eos(true);
    return spec;
  }

  grpc::Status Call(const Spec& spec, const std::string& session, Behaviour behaviour,
                    uint32_t chance, std::vector<int32_t>* tokens) {
    grpc::ClientContext context;
    const auto patience =
        behaviour == Behaviour::kDeadline ? milliseconds(1 + chance % 200) : milliseconds(300000);
    context.set_deadline(std::chrono::system_clock::now() + patience);
    v1::GenerateRequest request = spec.request;
    request.set_session_id(session);
    request.set_expected_position(0);
    const auto reader = stub_->Generate(&context, request);
    v1::GenerateResponse response;
    uint32_t messages = 0;
    while (reader->Read(&response)) {
      if (response.has_delta()) {
        tokens->insert(tokens->end(), response.delta().token_ids().begin(),
                       response.delta().token_ids().end());
      }
      if (behaviour == Behaviour::kSlow) std::this_thread::sleep_for(milliseconds(chance % 30));
      if (behaviour == Behaviour::kCancel && ++messages > chance % 40) context.TryCancel();
    }
    return reader->Finish();
  }

  void Stream(int number, Clock::time_point until) {
    std::mt19937 random(1000u + static_cast<uint32_t>(number));
    while (Clock::now() < until) {
      const Spec& spec = specs_[random() % specs_.size()];
      const std::string id = connection_.Open(spec.model).session_id();
      // An aborted turn is rolled back, so the same session must give the same tokens afterwards,
      // unless the turn had ended before the server heard of the abort: then the session has moved
      // on, and the expected position tells.
      for (int attempt = 0; attempt < 8; ++attempt) {
        std::vector<int32_t> tokens;
        const auto behaviour = static_cast<Behaviour>(random() % 4);
        const grpc::Status status = Call(spec, id, behaviour, random(), &tokens);
        if (status.ok()) {
          counts_.finished.fetch_add(1);
          if (tokens != spec.alone) ReportDifference(spec, behaviour, tokens, attempt);
          break;
        }
        if (attempt > 0 && status.error_code() == grpc::StatusCode::FAILED_PRECONDITION) {
          counts_.committed.fetch_add(1);
          break;
        }
        // Or it came to the server only now, and holds the session until its abort comes too.
        if (attempt == 0 || status.error_code() != grpc::StatusCode::ABORTED) {
          Count(status, behaviour);
        }
        WaitUntilIdle(id);
      }
      connection_.Close(id);
    }
  }

  void ReportDifference(const Spec& spec, Behaviour behaviour, const std::vector<int32_t>& tokens,
                        int attempt) {
    counts_.different.fetch_add(1);
    const auto [alone, found] =
        std::mismatch(spec.alone.begin(), spec.alone.end(), tokens.begin(), tokens.end());
    const std::lock_guard<std::mutex> lock(print_);
    std::printf(
        "FAULT: %s, request %td, behaviour %d, after %d aborted turns: %zu tokens, expected %zu, "
        "the first difference at %td\n",
        spec.model.c_str(), &spec - specs_.data(), static_cast<int>(behaviour), attempt,
        tokens.size(), spec.alone.size(), alone - spec.alone.begin());
  }

  void Count(const grpc::Status& status, Behaviour behaviour) {
    if (status.error_code() == grpc::StatusCode::CANCELLED && behaviour == Behaviour::kCancel) {
      counts_.cancelled.fetch_add(1);
    } else if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED &&
               behaviour == Behaviour::kDeadline) {
      counts_.late.fetch_add(1);
    } else {
      counts_.unexpected.fetch_add(1);
      const std::lock_guard<std::mutex> lock(print_);
      std::printf("FAULT: status %d: %s\n", status.error_code(), status.error_message().c_str());
    }
  }

  // The server learns of an aborted call a moment after the client.
  void WaitUntilIdle(const std::string& id) {
    const auto give_up = Clock::now() + std::chrono::seconds(30);
    while (connection_.Get(id).turn_running()) {
      if (Clock::now() > give_up) {
        counts_.unexpected.fetch_add(1);
        std::printf("FAULT: session %s is stuck\n", id.c_str());
        return;
      }
      std::this_thread::sleep_for(milliseconds(2));
    }
  }

  client::Connection connection_;
  std::unique_ptr<v1::Longstream::Stub> stub_;
  std::vector<Spec> specs_;
  Counts counts_;
  std::mutex print_;
};

int Main(const std::string& binary, const std::string& models, int seconds) {
  std::vector<std::string> arguments;
  for (const char* model : kModels) {
    arguments.insert(arguments.end(), {"--model", std::string(model) + "=" + models + "/" + model});
  }
  ServerProcess server(binary, arguments);
  Soak soak(server.address());
  // Warm-up: caches grow to the largest load, then the pools and the allocator's arenas to what
  // 64 streams with all their ways to end need.
  soak.Fill();
  soak.Run(Clock::now() + milliseconds(250) * seconds);
  const uint64_t warm = server.resident_bytes();
  soak.Run(Clock::now() + milliseconds(1000) * seconds);
  const uint64_t end = server.resident_bytes();

  int faults = soak.CheckIdle();
  const Counts& counts = soak.counts();
  // Allocator noise aside: 4 % and 4 MiB.
  const uint64_t allowed = warm + warm / 25 + (4u << 20);
  if (end > allowed) {
    std::printf("FAULT: resident memory grew\n");
    ++faults;
  }
  if (counts.finished == 0 || counts.cancelled == 0 || counts.late == 0) {
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
      "%d s: %d streams finished, %d cancelled, %d past their deadline (%d of them too late to "
      "matter), %d with other tokens, %d unexpected; resident %llu KiB after warm-up, %llu KiB at "
      "the end; %d faults\n",
      seconds, counts.finished.load(), counts.cancelled.load(), counts.late.load(),
      counts.committed.load(), counts.different.load(), counts.unexpected.load(),
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
