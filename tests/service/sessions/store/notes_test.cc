// Notes of sessions: written, replaced, found by their keys, removed, bounded, checked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "service/sessions/store/sql/schema.h"
#include "tests/service/sessions/store/directory_fixture.h"
#include "tests/service/sessions/store/session_store_suite.h"

namespace longstream::store {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

NoteRow Note(std::string key, std::string value) {
  return {{}, std::move(key), std::move(value), {}};
}

class NotesTest : public SessionStoreSuite {
 protected:
  // The values that are found for these keys.
  std::vector<std::string> Values(const std::vector<std::string>& keys,
                                  const std::string& tenant = "") {
    const auto found = store_->Notes(tenant, keys, 1'000'000);
    EXPECT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->keys, keys.size());
    std::vector<std::string> values;
    for (const NoteRow& note : found->notes) values.push_back(note.value);
    return values;
  }
  absl::StatusCode Put(const SessionKey& session, std::vector<NoteRow> notes, int time = 1,
                       size_t most_notes = 100, uint64_t most_bytes = 1'000'000) {
    return CodeOf(PutNotes{session, std::move(notes), At(time), most_notes, most_bytes});
  }
};

INSTANTIATE_TEST_SUITE_P(Drivers, NotesTest, AllDrivers(), NameOfDriver);

TEST_P(NotesTest, AreFoundInTheOrderOfTheKeys) {
  Open(NewSession(7));
  Open(NewSession(8));
  const std::string key("k\0\xff", 3), value("v\0\xfe", 3);
  EXPECT_EQ(Put(key_, {Note(key, value), Note("b", "1")}, 5), absl::StatusCode::kOk);
  EXPECT_EQ(Put(NewSession(8).key, {Note("c", "2")}, 6), absl::StatusCode::kOk);
  Reopen();
  const auto found = store_->Notes("", {"c", "none", key}, 100);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(found->notes, ElementsAre(NoteRow{NewSession(8).key, "c", "2", At(6)},
                                        NoteRow{key_, key, value, At(5)}));
  EXPECT_EQ(found->keys, 3u);
  const auto session = store_->Session(key_);
  EXPECT_EQ(session->version, 1) << "notes do not change the session";
  EXPECT_THAT(*store_->Check(10), IsEmpty());
}

TEST_P(NotesTest, AreReplacedAndRemoved) {
  Open(NewSession(7));
  Put(key_, {Note("a", "1"), Note("a", "2"), Note("b", "3")});
  EXPECT_THAT(Values({"a", "b"}), ElementsAre("2", "3")) << "the later one stays";
  Put(key_, {Note("a", ""), Note("c", "")});
  EXPECT_THAT(Values({"a", "b", "c"}), ElementsAre("3"));
  Put(key_, {Note("a", "4")});
  EXPECT_THAT(Values({"a"}), ElementsAre("4"));
}

TEST_P(NotesTest, OfSeveralSessionsTheLastOneIsFound) {
  for (const uint64_t id : {7u, 8u, 9u}) Open(NewSession(id));
  Put(NewSession(8).key, {Note("a", "second")}, 20);
  Put(NewSession(7).key, {Note("a", "first")}, 10);
  Put(NewSession(9).key, {Note("a", "third")}, 15);
  EXPECT_THAT(Values({"a"}), ElementsAre("second"));
  ASSERT_EQ(CodeOf(CloseSession{NewSession(8).key, std::nullopt, At(30)}), absl::StatusCode::kOk);
  EXPECT_THAT(Values({"a"}), ElementsAre("third")) << "notes go with their session";
}

TEST_P(NotesTest, BelongToTheTenantOfTheSession) {
  Open(NewSession(7, "a"));
  Open(NewSession(7, "b"));
  Put(NewSession(7, "a").key, {Note("k", "of a")});
  EXPECT_THAT(Values({"k"}, "b"), IsEmpty());
  EXPECT_THAT(Values({"k"}, "a"), ElementsAre("of a"));
  EXPECT_EQ(Put(NewSession(8, "a").key, {Note("k", "v")}), absl::StatusCode::kNotFound);
  EXPECT_EQ(Put(NewSession(7, "c").key, {Note("k", "v")}), absl::StatusCode::kNotFound);
}

TEST_P(NotesTest, OfARemovedSessionAreGone) {
  Open(NewSession(7));
  Put(key_, {Note("a", "1")});
  ASSERT_EQ(CodeOf(CloseSession{key_, std::nullopt, At(5)}), absl::StatusCode::kOk);
  ASSERT_TRUE(store_->Collect(At(100)).ok());
  EXPECT_THAT(*store_->Check(10), IsEmpty());
  Open(NewSession(7));
  EXPECT_THAT(Values({"a"}), IsEmpty()) << "another session with this id has none of them";
}

TEST_P(NotesTest, BeyondTheLimitsTheOldestGo) {
  Open(NewSession(7));
  Open(NewSession(8));
  Put(NewSession(8).key, {Note("other", "stays")}, 0);
  for (int i = 0; i < 5; ++i) Put(key_, {Note(std::to_string(i), "v")}, i, 3);
  EXPECT_THAT(Values({"0", "1", "2", "3", "4", "other"}), ElementsAre("v", "v", "v", "stays"));
  EXPECT_THAT(Values({"0", "1"}), IsEmpty());
  // 10 bytes fit: the new one, and one of the others.
  Put(key_, {Note("5", "123456789")}, 9, 100, 10);
  EXPECT_THAT(Values({"2", "3", "4", "5"}), ElementsAre("v", "123456789"));
  Put(key_, {Note("6", "12345678901")}, 10, 100, 10);
  EXPECT_THAT(Values({"2", "3", "4", "5", "6"}), IsEmpty()) << "one alone may be too large";
}

TEST_P(NotesTest, AClockThatIsBehindWritesTheLastNotesToo) {
  Open(NewSession(7));
  Put(key_, {Note("a", "1"), Note("b", "2")}, 100, 2);
  Put(key_, {Note("c", "3")}, 50, 2);
  EXPECT_THAT(Values({"c"}), ElementsAre("3"));
  EXPECT_EQ(Values({"a", "b"}).size(), 1u);
}

TEST_P(NotesTest, AnAnswerHasABoundOfBytes) {
  Open(NewSession(7));
  Put(key_, {Note("a", "12345"), Note("b", "12345"), Note("c", "1")});
  const auto first = store_->Notes("", {"a", "none", "b", "c"}, 9);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->notes.size(), 1u);
  EXPECT_EQ(first->keys, 2u) << "a and none";
  const auto second = store_->Notes("", {"b", "c"}, 1);
  EXPECT_EQ(second->notes.size(), 1u) << "the first one comes in any case";
  EXPECT_EQ(second->keys, 1u);
  EXPECT_EQ(store_->Notes("", {"b", "c"}, 6)->keys, 2u);
}

TEST_P(NotesTest, ManySessionsShareATransaction) {
  std::vector<Change> changes;
  for (uint64_t id = 0; id < 40; ++id) Open(NewSession(id));
  for (uint64_t id = 0; id < 40; ++id) {
    const std::string name = std::to_string(id);
    changes.emplace_back(PutNotes{NewSession(id).key, {Note(name, name)}, At(1), 10, 100});
    changes.emplace_back(PutNotes{NewSession(id).key, {Note("last", name)}, At(2), 10, 100});
  }
  changes.emplace_back(PutNotes{NewSession(99).key, {Note("lost", "x")}, At(1), 10, 100});
  const auto results = store_->Apply(changes);
  for (size_t i = 0; i < 80; ++i) EXPECT_TRUE(results[i].ok()) << results[i].status();
  EXPECT_EQ(results[80].status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Values({"17", "lost", "39"}), ElementsAre("17", "39"));
}

// --- a store in a directory ---------------------------------------------------------------------

class NoteRowsTest : public DirectoryTest {};

TEST_F(NoteRowsTest, ADamagedNoteIsReportedAndNotFound) {
  const PutNotes put{key_, {Note("a", "1"), Note("b", "2")}, At(1), 10, 100};
  {
    const auto store = Open();
    ASSERT_TRUE(ApplyOne(*store, OpenSession{NewSession(7)}).ok());
    ASSERT_TRUE(ApplyOne(*store, put).ok());
  }
  Sql("UPDATE notes SET value = 'other' WHERE key = CAST('a' AS BLOB)");
  EXPECT_THAT(Check(), ElementsAre(HasSubstr("a note of session")));
  {
    const auto store = Open();
    EXPECT_EQ(store->Notes("", {"a", "b"}, 100)->notes.size(), 1u);
    EXPECT_EQ(store->Notes("", {"a", "b"}, 100)->keys, 2u);
    ASSERT_TRUE(ApplyOne(*store, OpenSession{NewSession(8)}).ok());
    const PutNotes older{NewSession(8).key, {Note("a", "older")}, At(0), 10, 100};
    ASSERT_TRUE(ApplyOne(*store, older).ok());
    EXPECT_EQ(store->Notes("", {"a"}, 100)->notes.at(0).value, "older");
    ASSERT_TRUE(ApplyOne(*store, put).ok());
  }
  EXPECT_THAT(Check(), IsEmpty()) << "it was written again";
}

// Programs of version 5 have no notes, and go on using a store that has some.
TEST_F(NoteRowsTest, AStoreOfVersion5GetsTheTable) {
  ASSERT_TRUE(ApplyOne(*Open(), OpenSession{NewSession(7)}).ok());
  Sql("DROP TABLE notes; UPDATE store SET version = 5");
  EXPECT_THAT(Check(), IsEmpty()) << "also before it is migrated";
  ASSERT_TRUE(ApplyOne(*Open(), PutNotes{key_, {Note("a", "1")}, At(1), 10, 100}).ok());
  EXPECT_TRUE(Open()->Session(key_).ok());
  EXPECT_THAT(Check(), IsEmpty());
  const auto log = SqliteDatabase::OpenToRead(path_ + "/log.db");
  EXPECT_EQ(*StoredVersion(**log, SchemaSteps().size()), 6);
  EXPECT_EQ(*StoredVersion(**log, 5), 6) << "a program of version 5 may open it";
}

}  // namespace
}  // namespace longstream::store
