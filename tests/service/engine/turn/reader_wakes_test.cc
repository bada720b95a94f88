// ReaderWakes wakes each reader once, on all threads, and loses no wake between the engine and a
// reader.
#include "service/engine/turn/reader_wakes.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "kernels/core/thread_pool.h"
#include "service/engine/turn/turn_stream.h"
#include "tests/service/engine/engine_fixture.h"

namespace longstream {
namespace {

TEST(ReaderWakes, OnOneThreadInTheirOrder) {
  ReaderWakes wakes{Executor()};
  std::vector<int> called;
  for (int i = 0; i < 3; ++i) wakes.Add([&called, i] { called.push_back(i); });
  EXPECT_TRUE(called.empty());
  wakes.Run();
  EXPECT_EQ(called, (std::vector<int>{0, 1, 2}));
  wakes.Run();
  EXPECT_EQ(called.size(), 3u) << "a reader was called twice";
}

// The first reader waits until the other readers have begun. The test tries this for up to 20
// rounds, because workers that are falling asleep are woken only after the first reader has ended.
TEST(ReaderWakes, OnSeveralThreadsAtTheSameTime) {
  constexpr int kWakes = 3;
  ThreadPool pool(kWakes);
  ReaderWakes wakes(pool.AsExecutor());
  bool together = false;
  for (int round = 0; round < 20 && !together; ++round) {
    std::atomic<int> begun = 0;
    absl::Notification all_begun;
    for (int i = 0; i < kWakes; ++i) {
      wakes.Add([&, i] {
        if (begun.fetch_add(1) + 1 == kWakes) all_begun.Notify();
        if (i == 0) together = all_begun.WaitForNotificationWithTimeout(absl::Seconds(1));
      });
    }
    wakes.Run();
    EXPECT_EQ(begun.load(), kWakes);
  }
  EXPECT_TRUE(together);
}

TEST(ReaderWakes, KeepNothingAlive) {
  ReaderWakes wakes{Executor()};
  const auto reader = std::make_shared<int>(0);
  wakes.Add([reader] {});
  wakes.Run();
  EXPECT_EQ(reader.use_count(), 1);
}

TEST(ReaderWakes, AStreamAddsItsReaderInsteadOfWakingIt) {
  ReaderWakes wakes{Executor()};
  TurnStream stream;
  int woken = 0;
  stream.SetReader([&] { ++woken; });
  stream.SetWriter(4096, {}, &wakes);
  stream.Push(PrefillEvent{});
  stream.Finish(TurnEnd{});
  EXPECT_EQ(woken, 0);
  wakes.Run();
  EXPECT_EQ(woken, 1) << "the reader is added only once until it reads";
}

// A thread on which readers continue, as they do on gRPC's threads after a message is written.
class Transport {
 public:
  Transport() : thread_([this] { Run(); }) {}
  ~Transport() {
    Post(nullptr);
    thread_.join();
  }

  // Gives `work` to the thread. nullptr ends the thread.
  void Post(std::function<void()> work) {
    absl::MutexLock lock(&mutex_);
    work_.push_back(std::move(work));
  }

 private:
  void Run() {
    while (true) {
      std::function<void()> work;
      {
        absl::MutexLock lock(&mutex_);
        mutex_.Await(absl::Condition(
            +[](std::deque<std::function<void()>>* waiting) { return !waiting->empty(); }, &work_));
        work = std::move(work_.front());
        work_.pop_front();
      }
      if (!work) return;
      work();
    }
  }

  absl::Mutex mutex_;
  std::deque<std::function<void()>> work_;
  std::thread thread_;
};

// Reads one event of a turn at a time. Reads the first event on the thread that wakes the reader,
// and the other events on the transport's thread.
class Reader {
 public:
  Reader(Turn* turn, Transport* transport, absl::BlockingCounter* ended)
      : turn_(turn), transport_(transport), ended_(ended) {
    turn_->stream.SetReader([this] { Read(); });
  }

  const std::vector<int32_t>& tokens() const { return tokens_; }

 private:
  void Read() {
    const TurnStream::Item item = turn_->stream.Next();
    if (std::holds_alternative<TurnEnd>(item)) ended_->DecrementCount();
    if (!std::holds_alternative<TurnEvent>(item)) return;
    if (const auto* delta = std::get_if<DeltaEvent>(&std::get<TurnEvent>(item))) {
      tokens_.insert(tokens_.end(), delta->tokens.begin(), delta->tokens.end());
    }
    transport_->Post([this] { Read(); });
  }

  Turn* const turn_;
  Transport* const transport_;
  absl::BlockingCounter* const ended_;
  std::vector<int32_t> tokens_;
};

// Returns the tokens of `streams` turns of an engine with this executor. Each turn has its own
// prompt and seed.
std::vector<std::vector<int32_t>> TokensOf(const Executor& executor, int streams) {
  std::vector<std::shared_ptr<SessionTurn>> turns;
  std::vector<std::unique_ptr<Reader>> readers;
  absl::BlockingCounter ended(streams);
  Transport transport;
  TestEngine engine("{}", 0, {.executor = executor});
  for (int i = 0; i < streams; ++i) {
    const auto seed = static_cast<uint64_t>(i) + 1;
    turns.push_back(std::make_shared<SessionTurn>(
        Generate(engine.Open(), "prompt " + std::to_string(i), 50, seed)));
    readers.push_back(std::make_unique<Reader>(turns.back().get(), &transport, &ended));
  }
  for (const auto& turn : turns) EXPECT_TRUE(engine.Start(turn).ok());
  ended.Wait();
  std::vector<std::vector<int32_t>> tokens;
  for (const auto& reader : readers) tokens.push_back(reader->tokens());
  return tokens;
}

TEST(ReaderWakes, StreamsAreTheSameOnAnyThreads) {
  constexpr int kStreams = 24;
  ThreadPool pool(4);
  const std::vector<std::vector<int32_t>> alone = TokensOf(Executor(), kStreams);
  for (const std::vector<int32_t>& tokens : alone) EXPECT_EQ(tokens.size(), 50u);
  EXPECT_EQ(TokensOf(pool.AsExecutor(), kStreams), alone);
}

}  // namespace
}  // namespace longstream
