// The order in which tenants read the store, by table.
#include "service/serving/reads/read_queue.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace longstream {
namespace {

// Runs a script of one word a step, and returns what the queue answers, one word a step:
//   +a    adds a read of tenant a; +a3: of weight 3; +a/1: of its session 1. Nothing, or "full"
//   run   takes a read: its name, which is the place of its + in the script; or "-" if none may run
//   end2  the second read of the script ends. Nothing
class Script {
 public:
  explicit Script(const ReadQueue::Limits& limits) : queue_(limits) {}

  std::string Run(const std::string& steps) {
    std::istringstream in(steps);
    std::string answers;
    for (std::string step; in >> step;) {
      const std::string answer = Step(step);
      if (!answer.empty()) answers += (answers.empty() ? "" : " ") + answer;
    }
    return answers;
  }
  bool empty() const { return queue_.empty(); }

 private:
  std::string Step(const std::string& step) {
    if (step[0] == '+') return Add(step);
    if (step.starts_with("end")) {
      queue_.End(reads_.at(std::stoul(step.substr(3)) - 1));
      return "";
    }
    if (!queue_.can_take()) return "-";
    const ReadQueue::Read read = queue_.Take();
    read.work();
    return read.of.tenant + std::to_string(last_run_);
  }
  std::string Add(const std::string& step) {
    ReadOf of{step.substr(1, 1)};
    uint32_t weight = 1;
    if (step.size() > 2 && step[2] == '/') {
      of.session = SessionId{0, std::stoul(step.substr(3))};
    } else if (step.size() > 2) {
      weight = static_cast<uint32_t>(std::stoul(step.substr(2)));
    }
    reads_.push_back(of);
    const absl::Status added =
        queue_.Add(of, weight, [this, number = reads_.size()] { last_run_ = number; });
    return added.ok() ? "" : "full";
  }

  ReadQueue queue_;
  std::vector<ReadOf> reads_;
  size_t last_run_ = 0;
};

struct Case {
  const char* what;
  ReadQueue::Limits limits;
  const char* steps;
  const char* answers;
};

constexpr ReadQueue::Limits kMany{.most_waiting = 100, .most_running = 100};

TEST(ReadQueueTest, Orders) {
  const std::vector<Case> cases = {
      {"an empty queue", kMany, "run", "-"},
      {"one tenant, in the order of the calls", kMany, "+a +a +a run run run run", "a1 a2 a3 -"},
      {"a flood of one tenant delays the other by one read", kMany,
       "+a +a +a +a +b +b run run run run run run", "a1 b5 a2 b6 a3 a4"},
      {"a tenant that comes late waits for one read", kMany, "+a +a +a +a run run +b run run run",
       "a1 a2 a3 b5 a4"},
      {"a tenant that read before gets no more for it", kMany,
       "+b run end1 +a +a +a +b +b run run run run run", "b1 a2 b5 a3 b6 a4"},
      {"three tenants", kMany, "+a +a +b +b +c +c run run run run run run", "a1 b3 c5 a2 b4 c6"},
      {"weights", kMany, "+a2 +a2 +a2 +a2 +b +b +b run run run run run run run",
       "a1 a2 b5 a3 a4 b6 b7"},
      {"a tenant's reads that wait are bounded, and only they",
       {.most_waiting = 2, .most_running = 100},
       "+a +a +a +b run run +a +a run run run",
       "full a1 b4 full a2 a5 -"},
      {"reads that run do not wait",
       {.most_waiting = 1, .most_running = 100},
       "+a run +a run +a +a run",
       "a1 a2 full a3"},
      {"a tenant's reads that run are bounded",
       {.most_waiting = 100, .most_running = 2},
       "+a +a +a +a run run run +b run run end1 run run",
       "a1 a2 - b5 - a3 -"},
      {"bounded sessions wait and count",
       {.most_waiting = 2, .most_running = 100},
       "+a/1 run +a/1 +a/1 +a/1 run end1 run run",
       "a1 full - a2 -"},
      {"reads of one session come one after the other", kMany,
       "+a/1 +a/1 +a/1 run run end1 run end2 run", "a1 - a2 a3"},
      {"other sessions overtake them", kMany, "+a/1 +a/1 +a/2 +a run run run run end1 run",
       "a1 a3 a4 - a2"},
      {"sessions of other tenants with the same id", kMany, "+a/1 +b/1 +a/1 run run run end2 run",
       "a1 b2 - -"},
      {"a session that was used before", kMany, "+a/1 run end1 +a/1 run", "a1 a2"},
      {"a session that waits in a tenant at its bound",
       {.most_waiting = 100, .most_running = 1},
       "+a/1 +a/1 +a/2 run run end1 run end3 run",
       "a1 - a3 a2"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(Script(c.limits).Run(c.steps), c.answers) << c.what;
  }
}

TEST(ReadQueueTest, IsEmptyWhenNoReadWaits) {
  Script script(kMany);
  EXPECT_TRUE(script.empty());
  script.Run("+a/1 +a/1 run");
  EXPECT_FALSE(script.empty()) << "one waits for the other";
  script.Run("end1 run");
  EXPECT_TRUE(script.empty());
}

}  // namespace
}  // namespace longstream
