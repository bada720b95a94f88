// Rows of aliases: written, replaced, removed, checked; and stores of earlier versions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "service/sessions/store/sql/schema.h"
#include "tests/service/sessions/store/directory_fixture.h"

namespace longstream::store {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class AliasRowsTest : public DirectoryTest {};

TEST_F(AliasRowsTest, AreReplacedAndRemoved) {
  const std::string arms("a\0b", 3);
  {
    const auto store = Open();
    EXPECT_THAT(*store->Aliases(), IsEmpty());
    ASSERT_TRUE(ApplyOne(*store, PutAlias{"b", arms}).ok());
    ASSERT_TRUE(ApplyOne(*store, PutAlias{"c", ""}).ok());
    ASSERT_TRUE(ApplyOne(*store, PutAlias{"a", "1"}).ok());
    ASSERT_TRUE(ApplyOne(*store, PutAlias{"a", "2"}).ok());
    EXPECT_TRUE(ApplyOne(*store, PutAlias{"d", std::nullopt}).ok()) << "there is none";
  }
  {
    const auto store = Open();
    EXPECT_THAT(*store->Aliases(),
                ElementsAre(AliasRow{"a", "2"}, AliasRow{"b", arms}, AliasRow{"c", ""}));
    ASSERT_TRUE(ApplyOne(*store, PutAlias{"b", std::nullopt}).ok());
    EXPECT_THAT(*store->Aliases(), ElementsAre(AliasRow{"a", "2"}, AliasRow{"c", ""}));
  }
  EXPECT_THAT(Check(), IsEmpty());
  ASSERT_TRUE(BackUpStore(path_, directory_.string() + "/backup").ok());
  const auto backup = SqliteStore::Open(directory_.string() + "/backup", {});
  ASSERT_TRUE(backup.ok()) << backup.status();
  EXPECT_EQ((*backup)->Aliases()->size(), 2u) << "the backup has them";
}

TEST_F(AliasRowsTest, ADamagedRowIsReportedAndHasNoArms) {
  const auto put = [](SqliteStore& store) {
    ASSERT_TRUE(ApplyOne(store, PutAlias{"a", "arms"}).ok());
    ASSERT_TRUE(ApplyOne(store, PutAlias{"b", "arms"}).ok());
  };
  put(*Open());
  Sql("UPDATE aliases SET arms = 'other' WHERE name = 'a'");
  EXPECT_THAT(Check(), ElementsAre(HasSubstr("alias 'a' is damaged")));
  EXPECT_THAT(*Open()->Aliases(), ElementsAre(AliasRow{"a", "\xff"}, AliasRow{"b", "arms"}));
  put(*Open());
  EXPECT_THAT(Check(), IsEmpty()) << "it was written again";
}

// Programs of version 3 have no aliases, and go on using a store that has some.
TEST_F(AliasRowsTest, AStoreOfVersion3GetsTheTable) {
  ASSERT_TRUE(ApplyOne(*Open(), OpenSession{NewSession(7)}).ok());
  Sql("DROP TABLE aliases; DROP TABLE notes; UPDATE store SET version = 3");
  EXPECT_THAT(Check(), IsEmpty()) << "also before it is migrated";
  ASSERT_TRUE(ApplyOne(*Open(), PutAlias{"a", "arms"}).ok());
  EXPECT_TRUE(Open()->Session(NewSession(7).key).ok());
  EXPECT_THAT(Check(), IsEmpty());
  const auto log = SqliteDatabase::OpenToRead(path_ + "/log.db");
  EXPECT_EQ(*StoredVersion(**log, SchemaSteps().size()), 6);
  EXPECT_EQ(*StoredVersion(**log, 3), 6) << "a program of version 3 may open it";
}

}  // namespace
}  // namespace longstream::store
