// Readers woken together: each once, on all threads, and none lost between the engine and them.
#include "service/scheduler/reader_wakes.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "kernels/core/thread_pool.h"
#include "service/scheduler/turn_stream.h"
#include "tests/service/scheduler/scheduler_fixture.h"

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
  EXPECT_EQ(called.size(), 3u) << "each is called once";
}

// Each waits until all have begun.
TEST(ReaderWakes, OnSeveralThreadsAtTheSameTime) {
  ThreadPool pool(3);
  ReaderWakes wakes(pool.AsExecutor());
  for (int round = 0; round < 20; ++round) {
    absl::BlockingCounter begun(3);
    std::atomic<int> called = 0;
    for (int i = 0; i < 3; ++i) {
      wakes.Add([&] {
        begun.DecrementCount();
        if (i == 0) begun.Wait();
        called.fetch_add(1);
      });
    }
    wakes.Run();
    EXPECT_EQ(called.load(), 3);
  }
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
  EXPECT_EQ(woken, 1) << "it has been added once and has not looked yet";
}

// A reader as gRPC's is: woken on any thread, and gone on with on another one.
class Reader {
 public:
  explicit Reader(Turn* turn, absl::BlockingCounter* ended) : turn_(turn), ended_(ended) {
    turn_->stream.SetReader([this] { Read(); });
  }

  const std::vector<int32_t>& tokens() const { return tokens_; }

 private:
  void Read() {
    EXPECT_EQ(readers_.fetch_add(1), 0) << "two threads read a stream at once";
    TurnStream::Item item = turn_->stream.Next();
    for (; std::holds_alternative<TurnEvent>(item); item = turn_->stream.Next()) {
      const auto* delta = std::get_if<DeltaEvent>(&std::get<TurnEvent>(item));
      if (delta != nullptr) {
        tokens_.insert(tokens_.end(), delta->tokens.begin(), delta->tokens.end());
      }
    }
    const bool ended = std::holds_alternative<TurnEnd>(item);
    readers_.fetch_sub(1);
    if (ended) ended_->DecrementCount();
  }

  Turn* const turn_;
  absl::BlockingCounter* const ended_;
  std::atomic<int> readers_{0};
  std::vector<int32_t> tokens_;
};

// What `streams` turns of an engine with this executor give, of prompts and seeds of their own.
std::vector<std::vector<int32_t>> TokensOf(const Executor& executor, int streams) {
  std::vector<std::shared_ptr<Turn>> turns;
  std::vector<std::unique_ptr<Reader>> readers;
  absl::BlockingCounter ended(streams);
  TestEngine engine("{}", 0, {.executor = executor});
  for (int i = 0; i < streams; ++i) {
    const auto seed = static_cast<uint64_t>(i) + 1;
    turns.push_back(
        std::make_shared<Turn>(Generate(engine.Open(), "prompt " + std::to_string(i), 50, seed)));
    readers.push_back(std::make_unique<Reader>(turns.back().get(), &ended));
  }
  for (const auto& turn : turns) EXPECT_TRUE(engine->Start(turn).ok());
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
