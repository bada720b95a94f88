// A thread waits for the signals. Unlike a signal handler, it may take locks and call any function.
#include "client/interrupt.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <utility>

namespace longstream::client {
namespace {

struct State {
  std::mutex mutex;
  std::atomic<int> signal = 0;
  std::chrono::steady_clock::time_point since;  // of `signal`; guarded by mutex
  std::list<std::function<void()>> cancels;     // guarded by mutex
  std::atomic<bool> stopping = false;           // the listener is being destroyed
  const int descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
};

// Never destroyed, because calls may still end while main returns.
State& TheState() {
  static auto* const state = new State();
  return *state;
}

void Listen(const sigset_t& signals) {
  State& state = TheState();
  for (;;) {
    int signal = 0;
    sigwait(&signals, &signal);
    if (state.stopping) return;
    const std::lock_guard<std::mutex> lock(state.mutex);
    if (state.signal != 0) {
      const auto since = std::chrono::steady_clock::now() - state.since;
      if (EndsAtOnce(signal, std::chrono::duration_cast<std::chrono::milliseconds>(since))) {
        _exit(128 + signal);
      }
      continue;
    }
    state.signal = signal;
    state.since = std::chrono::steady_clock::now();
    eventfd_write(state.descriptor, 1);
    for (const std::function<void()>& cancel : state.cancels) cancel();
  }
}

}  // namespace

bool EndsAtOnce(int signal, std::chrono::milliseconds since_first) {
  constexpr std::chrono::milliseconds kSameMoment{500};
  return signal == SIGINT && since_first >= kSameMoment;
}

InterruptListener::InterruptListener() {
  sigemptyset(&signals_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals_, signal);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  TheState().stopping = false;
  thread_ = std::thread([this] { Listen(signals_); });
}

InterruptListener::~InterruptListener() {
  TheState().stopping = true;
  pthread_kill(thread_.native_handle(), SIGINT);
  thread_.join();
}

int InterruptSignal() { return TheState().signal; }

void ClearInterrupt() {
  State& state = TheState();
  const std::lock_guard<std::mutex> lock(state.mutex);
  state.signal = 0;
  eventfd_t count = 0;
  eventfd_read(state.descriptor, &count);
}

int InterruptDescriptor() { return TheState().descriptor; }

OnInterrupt::OnInterrupt(std::function<void()> cancel) {
  State& state = TheState();
  const std::lock_guard<std::mutex> lock(state.mutex);
  entry_ = state.cancels.insert(state.cancels.end(), std::move(cancel));
  if (state.signal != 0) (*entry_)();
}

OnInterrupt::~OnInterrupt() {
  State& state = TheState();
  const std::lock_guard<std::mutex> lock(state.mutex);
  state.cancels.erase(entry_);
}

}  // namespace longstream::client
