// The memory that turns ask for, and the memory that they give back.
#include "service/engine/policy/turn_demand.h"

#include <gtest/gtest.h>

namespace longstream {
namespace {

// A page has 16 tokens and 1600 bytes. A sequence has 50 bytes of rings, 7 of states and 30 for its
// rollback copy.
ls_model_info Info() {
  ls_model_info info{};
  info.page_tokens = 16;
  info.kv_bytes_per_token = 100;
  info.window_bytes_per_sequence = 50;
  info.state_bytes_per_sequence = 7;
  info.checkpoint_bytes_per_sequence = 30;
  return info;
}

TEST(PageBytes, PagesAreWhole) {
  ls_model_info info = Info();
  EXPECT_EQ(PageBytes(info, 0), 0u);
  EXPECT_EQ(PageBytes(info, 1), 1600u);
  EXPECT_EQ(PageBytes(info, 16), 1600u);
  EXPECT_EQ(PageBytes(info, 17), 3200u);
  info.page_tokens = 0;
  EXPECT_EQ(PageBytes(info, 17), 0u) << "a model without pages";
}

TEST(TurnDemand, RequestedEnd) {
  struct Case {
    const char* name;
    TurnDemand demand;
    uint64_t end;
    bool fills_context;
  };
  const Case cases[] = {
      {"a prompt and its tokens", {true, true, 10, 5, 20, 100}, 35, false},
      {"no limit is the rest of the context", {true, true, 10, 5, 0, 100}, 100, false},
      {"the context is the limit", {true, true, 10, 5, 1000, 100}, 100, false},
      {"the largest limit there is", {true, true, 10, 5, UINT64_MAX, 100}, 100, false},
      {"one token has room", {true, true, 94, 5, 0, 100}, 100, false},
      {"the prompt fills the context", {true, true, 95, 5, 3, 100}, 100, true},
      {"an append draws nothing", {false, true, 95, 5, 3, 100}, 100, false},
      {"nor does a score", {false, false, 0, 40, 0, 100}, 40, false},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(c.demand.RequestedEnd(), c.end);
    EXPECT_EQ(c.demand.FillsContext(), c.fills_context);
  }
}

TEST(TurnDemand, Wanted) {
  struct Case {
    const char* name;
    TurnDemand demand;
    std::optional<uint64_t> cached;
    uint64_t pages;
    uint64_t fixed;
  };
  const Case cases[] = {
      {"a new page", {true, true, 10, 5, 20, 100}, 10, 2 * 1600, 30},
      {"the page that is begun", {true, true, 10, 2, 4, 100}, 10, 0, 30},
      {"the session lost its caches", {true, true, 10, 5, 20, 100}, std::nullopt, 3 * 1600, 87},
      {"the prompt fills the context", {true, true, 95, 5, 3, 100}, 95, 0, 0},
      {"the history is cut", {true, true, 10, 5, 1, 100}, 50, 0, 30},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const PoolBytes wanted = c.demand.Wanted(Info(), c.cached);
    EXPECT_EQ(wanted.pages, c.pages);
    EXPECT_EQ(wanted.fixed, c.fixed);
  }
}

TEST(TurnDemand, Held) {
  EXPECT_EQ(TurnDemand::Held(Info(), 40), 3u * 1600 + 30 + 57);
  EXPECT_EQ(TurnDemand::Held(Info(), 0), 30u + 57);
}

}  // namespace
}  // namespace longstream
