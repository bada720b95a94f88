// The queue of turns that wait to be replayed: its order, its limits, and what it drops.
#include "service/shadow/shadow_queue.h"

#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/service/metric_value.h"

namespace longstream {
namespace {

class ShadowQueueTest : public testing::Test {
 protected:
  std::shared_ptr<ShadowQueue> Queue(const ShadowQueue::Limits& limits) {
    return std::make_shared<ShadowQueue>(limits, &metrics_);
  }
  static void Push(ShadowQueue& queue, size_t tokens, const std::string& model = "a") {
    const std::vector<int32_t> ids(tokens, 7);
    queue.TapFor("b")->Answered({model, ids, 1});
  }
  double Dropped(const std::string& reason, const std::string& pair = "a/b") const {
    return MetricValue(registry_, "longstream_shadow_dropped_turns_total",
                       {{"pair", pair}, {"reason", reason}});
  }
  double Queued(const std::string& what) const {
    return MetricValue(registry_, "longstream_shadow_queued_" + what);
  }

  prometheus::Registry registry_;
  ShadowMetrics metrics_{&registry_};
};

TEST_F(ShadowQueueTest, GivesTurnsInTheirOrder) {
  const auto queue = Queue({.turns = 2, .bytes = 100});
  Push(*queue, 3);
  Push(*queue, 4, "c");
  EXPECT_EQ(Queued("turns"), 2);
  EXPECT_EQ(Queued("bytes"), 28);
  const std::optional<ShadowTurn> first = queue->Pop();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->model, "a");
  EXPECT_EQ(first->shadow, "b");
  EXPECT_EQ(first->tokens, std::vector<int32_t>(3, 7));
  EXPECT_EQ(first->answer_begin, 1u);
  EXPECT_EQ(queue->Pop()->model, "c");
  EXPECT_EQ(Queued("turns"), 0);
  EXPECT_EQ(Queued("bytes"), 0);
}

TEST_F(ShadowQueueTest, DropsTurnsBeyondItsLimits) {
  const auto queue = Queue({.turns = 2, .bytes = 40});
  Push(*queue, 11);
  EXPECT_EQ(Dropped("too_long"), 1) << "there would never be room for it";
  Push(*queue, 8);
  Push(*queue, 3);
  EXPECT_EQ(Dropped("full"), 1) << "too many bytes";
  Push(*queue, 2);
  Push(*queue, 0);
  EXPECT_EQ(Dropped("full"), 2) << "too many turns";
  queue->Pop();
  Push(*queue, 8);
  EXPECT_EQ(Dropped("full"), 2);
  EXPECT_EQ(queue->Pop()->tokens.size(), 2u);
}

TEST_F(ShadowQueueTest, CloseDropsWhatWaitsAndWhatComes) {
  const auto queue = Queue({});
  Push(*queue, 3);
  queue->Close();
  Push(*queue, 3);
  EXPECT_FALSE(queue->Pop().has_value());
  EXPECT_EQ(Dropped("stopped"), 2);
  EXPECT_EQ(Queued("turns"), 0);
}

TEST_F(ShadowQueueTest, PopWaits) {
  const auto queue = Queue({});
  size_t tokens = 0;
  std::thread popper([&] {
    while (const std::optional<ShadowTurn> turn = queue->Pop()) tokens += turn->tokens.size();
  });
  for (int i = 0; i < 10; ++i) Push(*queue, 1);
  while (Queued("turns") > 0) std::this_thread::yield();
  queue->Close();
  popper.join();
  EXPECT_EQ(tokens, 10u);
}

TEST_F(ShadowQueueTest, EveryReasonHasAName) {
  std::set<std::string_view> names;
  for (const ShadowDrop reason :
       {ShadowDrop::kFull, ShadowDrop::kModel, ShadowDrop::kTokenizer, ShadowDrop::kTooLong,
        ShadowDrop::kMemory, ShadowDrop::kFailed, ShadowDrop::kStopped}) {
    EXPECT_TRUE(names.insert(NameOf(reason)).second);
  }
  EXPECT_FALSE(names.contains(""));
}

}  // namespace
}  // namespace longstream
