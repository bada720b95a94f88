// Changes of aliases without gRPC: what a server starts with, and what excludes each other.
#include "service/serving/models/alias_admin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "service/serving/log/alias_codec.h"
#include "service/serving/models/alias_follower.h"
#include "tests/service/serving/models/admin_fixture.h"
#include "tests/service/sessions/store/held_store.h"
#include "tests/service/sessions/store/store_fixture.h"

namespace longstream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

store::AliasRow RowOf(const AliasConfig& alias) { return {alias.name, EncodeAlias(alias)}; }

std::vector<AliasConfig> Merge(const std::vector<AliasConfig>& configured,
                               const std::vector<store::AliasRow>& rows,
                               std::vector<std::string>* problems) {
  return MergeAliases(configured, rows, {"m", "n"}, problems);
}

TEST(MergeAliasesTest, RowsTakeThePlaceOfTheConfiguration) {
  const AliasConfig a{"a", {{"m", 1}}}, b{"b", {{"m", 1}, {"n", 2}}}, changed{"a", {{"n", 3}}},
      added{"c", {{"loaded-later", 1}}};
  std::vector<std::string> problems;
  EXPECT_THAT(Merge({b, a}, {}, &problems), ElementsAre(a, b));
  EXPECT_THAT(
      Merge({a, b}, {RowOf(changed), RowOf({"b", {}}), RowOf(added), RowOf({"d", {}})}, &problems),
      ElementsAre(changed, added));
  EXPECT_THAT(problems, IsEmpty());
}

TEST(MergeAliasesTest, RoutesAreKeptInTheirOrder) {
  AliasConfig route{"a", {{"n", 0}, {"m", 0}}};
  route.route.emplace();
  route.route->budgets.time_to_first_token = absl::Milliseconds(1500);
  route.route->budgets.session_bytes = uint64_t{1} << 40;
  route.route->prompt_tokens = 5;
  AliasConfig all{"b", {{"m", 0}}};
  all.route.emplace();
  all.route->budgets.time_per_token = absl::Microseconds(1);
  std::vector<std::string> problems;
  EXPECT_THAT(Merge({}, {RowOf(route), RowOf(all)}, &problems), ElementsAre(route, all));
  EXPECT_THAT(problems, IsEmpty());
  // A program that does not know routes reads the arms alone.
  EXPECT_FALSE(CheckAlias({"a", route.arms}).ok());
  all.route->max_tokens = 0;
  EXPECT_THAT(Merge({}, {RowOf(all)}, &problems), IsEmpty());
  EXPECT_THAT(problems, ElementsAre(HasSubstr("max_tokens: expected 1 to 2147483648, found 0")));
}

TEST(MergeAliasesTest, RowsThatCannotBeUsedAreToldAndLeftOut) {
  const AliasConfig a{"a", {{"m", 1}}};
  std::vector<std::string> problems;
  EXPECT_THAT(Merge({a}, {RowOf({"a", {{"n", 0}}})}, &problems), ElementsAre(a));
  EXPECT_THAT(Merge({a}, {RowOf({"m", {{"n", 1}}})}, &problems), ElementsAre(a));
  EXPECT_THAT(Merge({a}, {{"b", "no message"}}, &problems), ElementsAre(a));
  EXPECT_THAT(Merge({a}, {RowOf({"../b", {{"n", 1}}})}, &problems), ElementsAre(a));
  EXPECT_THAT(problems,
              ElementsAre(HasSubstr("alias 'a' of the store is not used: arms: expected a weight"),
                          HasSubstr("a model has this name"),
                          HasSubstr("alias 'b' of the store is not used: store: the row"),
                          HasSubstr("alias '../b' of the store is not used: name: expected")));
  problems.clear();
  std::vector<AliasConfig> most;
  for (size_t i = 0; i < kMaxAliases; ++i) most.push_back({"x" + std::to_string(i), {{"m", 1}}});
  EXPECT_EQ(Merge(most, {RowOf({"x3", {{"n", 1}}}), RowOf({"y", {{"n", 1}}})}, &problems).size(),
            kMaxAliases);
  EXPECT_THAT(problems, ElementsAre(HasSubstr("'y' of the store is not used: there are 256")));
}

TEST(MergeAliasesTest, RowsWithAnAliasAsAnArmAreToldAndLeftOut) {
  const AliasConfig a{"a", {{"m", 1}}}, c{"c", {{"n", 1}}};
  std::vector<std::string> problems;
  EXPECT_THAT(Merge({a}, {RowOf({"b", {{"m", 1}, {"a", 1}}})}, &problems), ElementsAre(a));
  EXPECT_THAT(Merge({a}, {RowOf({"a", {{"c", 1}}}), RowOf(c)}, &problems), ElementsAre(a, c));
  EXPECT_THAT(problems,
              ElementsAre(HasSubstr("alias 'b' of the store is not used: arms: 'a' is an alias"),
                          HasSubstr("alias 'a' of the store is not used: arms: 'c' is an alias")));
  problems.clear();
  const AliasConfig b{"b", {{"a", 1}}};
  EXPECT_THAT(Merge({a}, {RowOf({"a", {}}), RowOf(b)}, &problems), ElementsAre(b));
  EXPECT_THAT(problems, IsEmpty());
  EXPECT_THAT(Merge({a}, {RowOf({"b", {{"m", 1}}, AliasShadow{"a", 1}})}, &problems),
              ElementsAre(a));
  EXPECT_THAT(problems, ElementsAre(HasSubstr("shadow.model: 'a' is an alias")));
  problems.clear();
  EXPECT_THAT(problems, IsEmpty());
}

TEST(MergeAliasesTest, RowsKeepTheShadow) {
  const AliasConfig a{"a", {{"m", 1}}, AliasShadow{"n", 0.25}}, b{"b", {{"m", 1}}};
  std::vector<std::string> problems;
  EXPECT_THAT(Merge({}, {RowOf(a), RowOf(b)}, &problems), ElementsAre(a, b));
  EXPECT_THAT(problems, IsEmpty());
  EXPECT_THAT(Merge({}, {RowOf({"a", {{"m", 1}}, AliasShadow{"n", 7}})}, &problems), IsEmpty());
  EXPECT_THAT(problems, ElementsAre(HasSubstr("shadow.share: expected a number from 0 to 1")));
}

class AliasAdminTest : public ModelAdminTest {
 protected:
  AliasAdminTest() : ModelAdminTest(Options{.at_start = {"m", "n"}}) {}

  absl::Status Set(const AliasConfig& alias) {
    absl::Status set = absl::UnknownError("not called");
    admin_->aliases().Set(alias, [&](const absl::Status& status) { set = status; });
    return set;
  }
  absl::Status Delete(const std::string& name) {
    absl::Status deleted = absl::UnknownError("not called");
    admin_->aliases().Delete(name, [&](const absl::Status& status) { deleted = status; });
    return deleted;
  }
};

TEST_F(AliasAdminTest, WithoutAStoreChangesLastUntilTheEnd) {
  ASSERT_TRUE(Set({"chat", {{"m", 1}, {"n", 1}}}).ok());
  EXPECT_THAT(admin_->aliases().List(), ElementsAre(AliasConfig{"chat", {{"m", 1}, {"n", 1}}}));
  const SessionId id = Open("chat");
  EXPECT_EQ(sessions_->View({"", id})->alias, "chat");
  ASSERT_TRUE(Delete("chat").ok());
  EXPECT_TRUE(absl::IsNotFound(TryOpen("chat").status()));
  EXPECT_TRUE(Turn(id, "text", 3).end.status.ok()) << "its session goes on";
  Stop();
  Start();
  EXPECT_THAT(admin_->aliases().List(), IsEmpty());
}

TEST_F(AliasAdminTest, ModelsAndAliasesHaveDifferentNames) {
  ASSERT_TRUE(Load(Model("tiny")).ok());
  ASSERT_TRUE(Set({"chat", {{"tiny", 1}, {"m", 1}}}).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(Load(Model("chat"))));
  EXPECT_TRUE(absl::IsAlreadyExists(Set({"tiny", {{"m", 1}}})));
  const absl::Status unloaded = Unload("tiny");
  EXPECT_TRUE(absl::IsFailedPrecondition(unloaded));
  EXPECT_THAT(std::string(unloaded.message()), HasSubstr("an arm of alias chat"));
  ASSERT_TRUE(Set({"auto", {{"tiny", 1}}}).ok());
  EXPECT_EQ(
      Unload("tiny").message(),
      "name: model tiny is an arm of the aliases auto, chat; set or delete the aliases first");
  ASSERT_TRUE(Delete("auto").ok());
  EXPECT_TRUE(Swap(Model("tiny", "other")).ok()) << "the name stays";
  ASSERT_TRUE(Set({"chat", {{"m", 1}}}).ok());
  EXPECT_TRUE(Unload("tiny").ok());
  EXPECT_TRUE(absl::IsNotFound(Set({"chat", {{"tiny", 1}}})));
  ASSERT_TRUE(Delete("chat").ok());
  EXPECT_TRUE(Load(Model("chat")).ok()) << "the name is free";
}

TEST_F(AliasAdminTest, AShadowIsAModelThatMayBeUnloaded) {
  ASSERT_TRUE(Load(Model("tiny")).ok());
  const AliasConfig chat{"chat", {{"m", 1}}, AliasShadow{"tiny", 0.5}};
  ASSERT_TRUE(Set(chat).ok());
  EXPECT_THAT(admin_->aliases().List(), ElementsAre(chat));
  EXPECT_TRUE(admin_->aliases().IsChanged(chat));
  EXPECT_TRUE(Unload("tiny").ok());
  const absl::Status none = Set(chat);
  EXPECT_TRUE(absl::IsNotFound(none));
  EXPECT_EQ(none.message(), "shadow.model: no model 'tiny'");
  const absl::Status alias = Set({"other", {{"m", 1}}, AliasShadow{"chat", 1}});
  EXPECT_TRUE(absl::IsInvalidArgument(alias));
  EXPECT_EQ(alias.message(), "shadow.model: 'chat' is an alias; expected a model");
  EXPECT_TRUE(absl::IsInvalidArgument(Set({"chat", {{"m", 1}}, AliasShadow{"m", -0.1}})));
  ASSERT_TRUE(Set({"chat", {{"m", 1}}}).ok());
  EXPECT_FALSE(admin_->aliases().List()[0].shadow.has_value());
}

TEST_F(AliasAdminTest, NoAliasBeginsOnAModelThatIsBeingUnloaded) {
  const SessionId id = Open("n");
  const absl::StatusOr<TurnHandle> running = Begin(id, "text", 1 << 20);
  ASSERT_TRUE(running.ok());
  const auto unloaded = BeginUnload("n");
  EXPECT_TRUE(absl::IsFailedPrecondition(Set({"chat", {{"n", 1}}})));
  TurnHandle(*running).Cancel();
  Read(*running);
  unloaded->done.WaitForNotification();
  EXPECT_TRUE(unloaded->status.ok()) << unloaded->status;
}

// Another server changes the aliases of the store. This one has the configured alias "fixed".
class FollowedAliasesTest : public ModelAdminTest {
 protected:
  FollowedAliasesTest() : ModelAdminTest(Options{.has_store = true, .at_start = {"m", "n"}}) {}

  void Put(const AliasConfig& alias) { PutRow({alias.name, EncodeAlias(alias)}); }
  void PutRow(const store::AliasRow& row) {
    ASSERT_TRUE(store::ApplyOne(*store_, store::PutAlias{row.name, row.arms}).ok());
  }
  void Erase(const std::string& name) {
    ASSERT_TRUE(store::ApplyOne(*store_, store::PutAlias{name, std::nullopt}).ok());
  }
  AliasAdmin::Followed Follow() {
    const auto followed = aliases_.Follow(store_.get());
    EXPECT_TRUE(followed.ok() && followed->has_value()) << followed.status();
    return followed.ok() ? followed->value_or(AliasAdmin::Followed{}) : AliasAdmin::Followed{};
  }

  const AliasConfig fixed_{"fixed", {{"m", 1}}};
  const AliasConfig chat_{"chat", {{"m", 1}, {"n", 1}}};
  AliasTable table_{{fixed_}};
  Timers timers_;
  AliasAdmin aliases_{models_.get(), &table_, &timers_, {.configured = {fixed_}}};
};

TEST_F(FollowedAliasesTest, AreTakenOver) {
  EXPECT_THAT(Follow().set, IsEmpty());
  Put(chat_);
  EXPECT_THAT(Follow().set, ElementsAre(chat_));
  EXPECT_THAT(aliases_.List(), ElementsAre(chat_, fixed_));
  EXPECT_THAT(Follow().set, IsEmpty()) << "nothing has changed";
  const AliasConfig changed{"chat", {{"n", 1}}};
  Put(changed);
  EXPECT_THAT(Follow().set, ElementsAre(changed));
  EXPECT_FALSE(aliases_.RemoveModel("n", [] {}).ok()) << "an alias names it";
  Erase("chat");
  EXPECT_THAT(Follow().removed, ElementsAre("chat"));
  EXPECT_THAT(aliases_.List(), ElementsAre(fixed_));
}

TEST_F(FollowedAliasesTest, TheConfigurationCountsWithoutARow) {
  Put({"fixed", {}});
  EXPECT_THAT(Follow().removed, ElementsAre("fixed"));
  EXPECT_THAT(aliases_.List(), IsEmpty());
  Erase("fixed");
  EXPECT_THAT(Follow().set, ElementsAre(fixed_));
}

TEST_F(FollowedAliasesTest, AnAliasWhoseModelIsNotHereStaysAsItIs) {
  Put(chat_);
  EXPECT_THAT(Follow().set, ElementsAre(chat_));
  Put({"chat", {{"loaded-elsewhere", 1}}});
  const AliasAdmin::Followed followed = Follow();
  EXPECT_THAT(followed.set, IsEmpty());
  EXPECT_THAT(followed.removed, IsEmpty());
  EXPECT_THAT(followed.problems, ElementsAre(HasSubstr("no model 'loaded-elsewhere'")));
  EXPECT_THAT(aliases_.List(), ElementsAre(chat_, fixed_));
}

// A server may have started with such an alias.
TEST_F(FollowedAliasesTest, AnArmThatIsNotHereIsTold) {
  const AliasConfig elsewhere{"chat", {{"loaded-elsewhere", 1}}};
  Put(elsewhere);
  table_.Set(elsewhere);
  EXPECT_THAT(Follow().problems, ElementsAre("alias 'chat' lacks an arm: this server has no model "
                                             "'loaded-elsewhere'"));
}

TEST_F(FollowedAliasesTest, AnAliasWhoseRowCannotBeUsedStaysAsItIs) {
  Put(chat_);
  const AliasConfig changed{"fixed", {{"n", 1}}};
  Put(changed);
  EXPECT_THAT(Follow().set, ElementsAre(chat_, changed));
  PutRow({"chat", "\xff"});
  PutRow({"fixed", "\xff"});
  const AliasAdmin::Followed followed = Follow();
  EXPECT_THAT(followed.problems, ElementsAre(HasSubstr("'chat'"), HasSubstr("'fixed'")));
  EXPECT_THAT(followed.set, IsEmpty());
  EXPECT_THAT(followed.removed, IsEmpty());
  EXPECT_THAT(aliases_.List(), ElementsAre(chat_, changed));
}

TEST_F(FollowedAliasesTest, NoModelGetsAnAliasOfItsName) {
  Put({"fixed", {}});
  EXPECT_THAT(Follow().removed, ElementsAre("fixed"));
  ASSERT_TRUE(Load(Model("fixed", "tiny")).ok());
  Put({"fixed", {{"n", 1}}});
  EXPECT_THAT(Follow().problems, ElementsAre(HasSubstr("a model has this name")));
  Erase("fixed");
  EXPECT_THAT(Follow().set, IsEmpty());
  EXPECT_THAT(aliases_.List(), IsEmpty());
}

TEST_F(FollowedAliasesTest, RowsOlderThanAChangeAreNotUsed) {
  const TemporaryDirectory directory;
  store::HeldStore store(*store::SqliteStore::Open(directory.string() + "/store", {}));
  store.Hold();
  absl::StatusOr<std::optional<AliasAdmin::Followed>> followed = absl::UnknownError("not called");
  std::thread follower([&] { followed = aliases_.Follow(&store); });
  EXPECT_TRUE(WaitUntil([&] { return store.waiting() == 1; }));
  aliases_.Set(chat_, [](const absl::Status& status) { EXPECT_TRUE(status.ok()) << status; });
  store.Release();
  follower.join();
  ASSERT_TRUE(followed.ok()) << followed.status();
  EXPECT_FALSE(followed->has_value());
  EXPECT_THAT(aliases_.List(), ElementsAre(chat_, fixed_));
}

TEST_F(FollowedAliasesTest, AreFollowedByAThread) {
  const AliasFollower follower(
      store_.get(), &aliases_, [](const auto&) {}, absl::Milliseconds(1));
  Put(chat_);
  EXPECT_TRUE(WaitUntil([&] { return aliases_.List().size() == 2; }));
  Erase("chat");
  EXPECT_TRUE(WaitUntil([&] { return aliases_.List().size() == 1; }));
}

}  // namespace
}  // namespace longstream
