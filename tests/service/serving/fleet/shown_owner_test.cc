// Which replica has a session, as each of them shows it.
#include <gtest/gtest.h>

#include "tests/service/serving/fleet/replicas.h"

namespace longstream {
namespace {

using ShownOwnerTest = Replicas;

TEST_F(ShownOwnerTest, ASessionOfAnotherReplicaIsShownWithItsOwner) {
  ASSERT_TRUE(Open(a_).ok());
  ASSERT_TRUE(Run(a_, kTurn).status().ok());
  const absl::StatusOr<SessionView> here = Show(a_);
  ASSERT_TRUE(here.ok()) << here.status();
  EXPECT_EQ(here->owner, "");
  EXPECT_GT(here->bytes.kv + here->bytes.window + here->bytes.state + here->bytes.host, 0u);
  const absl::StatusOr<SessionView> there = Show(b_);
  ASSERT_TRUE(there.ok()) << there.status();
  EXPECT_EQ(there->owner, "a/1");
  EXPECT_EQ(there->recompute_tokens, 0u) << "it is not known";
  const SessionPage page = b_.sessions.List("", std::nullopt, 10);
  ASSERT_EQ(page.sessions.size(), 1u);
  EXPECT_EQ(page.sessions[0].owner, "a/1");
  EXPECT_FALSE(page.sessions[0].owner_ended);
}

TEST_F(ShownOwnerTest, ASessionWhoseOwnerHasEndedIsShownAsNobodys) {
  ASSERT_TRUE(Open(a_).ok());
  ASSERT_TRUE(Run(a_, kTurn).status().ok());
  b_.gate.EndOthers();
  const absl::StatusOr<SessionView> there = Show(b_);
  ASSERT_TRUE(there.ok()) << there.status();
  EXPECT_EQ(there->owner, "a/1");
  EXPECT_TRUE(there->owner_ended);
  EXPECT_GT(there->recompute_tokens, 0u) << "the caches are gone";
  EXPECT_TRUE(b_.sessions.List("", std::nullopt, 10).sessions.at(0).owner_ended);
  a_.gate.EndOthers();
  EXPECT_FALSE(Show(a_)->owner_ended) << "the owner is the one that answers";
}

}  // namespace
}  // namespace longstream
