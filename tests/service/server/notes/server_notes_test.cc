// PutNotes and FindNotes: notes that are refused, sessions that go on beside them, large answers.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/security/guard.h"
#include "tests/service/security/token_row.h"
#include "tests/service/server/server_fixture.h"
#include "tests/service/server/transfer/server_files_fixture.h"

namespace longstream {
namespace {

using grpc::StatusCode;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr char kId[] = "00000000000000010000000000000002";
constexpr size_t kMiB = size_t{1} << 20;

using KeysAndValues = std::vector<std::pair<std::string, std::string>>;

v1::PutNotesRequest Notes(const std::string& session, const KeysAndValues& notes) {
  v1::PutNotesRequest request;
  request.set_session_id(session);
  for (const auto& [key, value] : notes) {
    v1::Note* const note = request.add_notes();
    note->set_key(key);
    note->set_value(value);
  }
  return request;
}

// So many notes with the value "v".
v1::PutNotesRequest ManyNotes(const std::string& session, int count) {
  KeysAndValues notes;
  for (int i = 0; i < count; ++i) notes.emplace_back(absl::StrCat("key ", i), "v");
  return Notes(session, notes);
}

v1::FindNotesRequest Keys(const std::vector<std::string>& keys) {
  v1::FindNotesRequest request;
  for (const std::string& key : keys) request.add_keys(key);
  return request;
}

// The calls of a client. `token`: its bearer token; empty: none.
class NotesClient {
 public:
  explicit NotesClient(v1::Longstream::Stub* stub, const std::string& token = "")
      : stub_(stub), token_(token) {}

  grpc::Status Put(const v1::PutNotesRequest& request) const {
    grpc::ClientContext context;
    Authorize(&context);
    v1::PutNotesResponse response;
    return stub_->PutNotes(&context, request, &response);
  }
  grpc::Status Find(const v1::FindNotesRequest& request, v1::FindNotesResponse* response) const {
    grpc::ClientContext context;
    Authorize(&context);
    return stub_->FindNotes(&context, request, response);
  }
  // The values of the notes with these keys.
  std::vector<std::string> Values(const std::vector<std::string>& keys) const {
    v1::FindNotesResponse response;
    const grpc::Status status = Find(Keys(keys), &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.keys_looked_for(), keys.size());
    std::vector<std::string> values;
    for (const v1::Note& note : response.notes()) values.push_back(note.value());
    return values;
  }
  void ExpectPut(const v1::PutNotesRequest& request) const {
    const grpc::Status status = Put(request);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  void ExpectRefused(const v1::PutNotesRequest& request, StatusCode code,
                     const std::string& message) const {
    const grpc::Status status = Put(request);
    EXPECT_EQ(status.error_code(), code);
    EXPECT_EQ(status.error_message(), message);
  }
  void ExpectRefused(const v1::FindNotesRequest& request, StatusCode code,
                     const std::string& message) const {
    v1::FindNotesResponse response;
    const grpc::Status status = Find(request, &response);
    EXPECT_EQ(status.error_code(), code);
    EXPECT_EQ(status.error_message(), message);
  }

 private:
  void Authorize(grpc::ClientContext* context) const {
    if (!token_.empty()) context->AddMetadata("authorization", "Bearer " + token_);
  }

  v1::Longstream::Stub* const stub_;
  const std::string token_;
};

class ServerNotesTest : public ServerFilesTest {
 protected:
  const NotesClient client_{&stub()};
};

TEST_F(ServerNotesTest, AreFoundWithTheirSessionAndTime) {
  const std::string first = Open(), second = Open();
  const std::string key("k\0\xFF", 3), value("v\0\xFE", 3);
  const absl::Time begin = absl::Now();
  client_.ExpectPut(Notes(first, {{key, value}, {"b", "1"}, {"b", "2"}}));
  client_.ExpectPut(Notes(second, {{"c", "3"}}));
  v1::FindNotesResponse found;
  ASSERT_TRUE(client_.Find(Keys({"c", "none", key}), &found).ok());
  EXPECT_EQ(found.keys_looked_for(), 3u);
  ASSERT_EQ(found.notes_size(), 2);
  EXPECT_EQ(found.notes(0).session_id(), second);
  EXPECT_EQ(found.notes(1).session_id(), first);
  EXPECT_EQ(found.notes(1).key(), key);
  EXPECT_EQ(found.notes(1).value(), value);
  const absl::Time time = absl::FromUnixSeconds(found.notes(1).time().seconds()) +
                          absl::Nanoseconds(found.notes(1).time().nanos());
  EXPECT_GE(time, begin - absl::Microseconds(1)) << "the store has microseconds";
  EXPECT_LE(time, absl::Now());
  EXPECT_THAT(client_.Values({"b"}), ElementsAre("2")) << "the later one of a call stays";
  client_.ExpectPut(Notes(second, {{"b", "4"}}));
  EXPECT_THAT(client_.Values({"b"}), ElementsAre("4")) << "of another session, but later";
  client_.ExpectPut(Notes(second, {{"b", ""}}));
  EXPECT_THAT(client_.Values({"b"}), ElementsAre("2")) << "that one is removed";
}

TEST_F(ServerNotesTest, RequestsHaveLimits) {
  const std::string id = Open();
  const auto put = [&](const v1::PutNotesRequest& request, const std::string& message) {
    client_.ExpectRefused(request, StatusCode::INVALID_ARGUMENT, message);
  };
  put(Notes(id, {}), "notes: expected 1 ... 64, found 0");
  put(ManyNotes(id, 65), "notes: expected 1 ... 64, found 65");
  put(Notes(id, {{"a", "1"}, {"", "2"}}), "notes[1].key: expected 1 ... 64 bytes, found 0");
  put(Notes(id, {{std::string(65, 'k'), ""}}), "notes[0].key: expected 1 ... 64 bytes, found 65");
  put(Notes(id, {{"a", "1"}, {"b", std::string(kMiB + 1, 'x')}}),
      "notes[1].value: expected at most 1048576 bytes, found 1048577");
  const std::string largest(kMiB, 'x');
  put(Notes(id, {{"a", largest}, {"b", largest}, {"c", "1"}}),
      "notes: expected at most 2097152 bytes of values together, found 2097153");
  put(Notes("", {{"a", "1"}}), "session_id: expected 32 hexadecimal digits, found 0 bytes");
  put(Notes(id.substr(0, 31) + "g", {{"a", "1"}}),
      "session_id: expected 32 hexadecimal digits, found 'g' at byte 31");
  EXPECT_THAT(client_.Values({"a", "b", "key 0"}), IsEmpty()) << "none of a call is written";

  const auto find = [&](const std::vector<std::string>& keys, const std::string& message) {
    client_.ExpectRefused(Keys(keys), StatusCode::INVALID_ARGUMENT, message);
  };
  find({}, "keys: expected 1 ... 64, found 0");
  find(std::vector<std::string>(65, "k"), "keys: expected 1 ... 64, found 65");
  find({"a", ""}, "keys[1]: expected 1 ... 64 bytes, found 0");
  find({std::string(65, 'k')}, "keys[0]: expected 1 ... 64 bytes, found 65");

  client_.ExpectPut(ManyNotes(id, 64));
  EXPECT_EQ(client_.Values(std::vector<std::string>(64, "key 63")).size(), 64u);
  const std::string longest(64, 'k');
  client_.ExpectPut(Notes(id, {{longest, largest}, {"b", largest}}));
  EXPECT_THAT(client_.Values({longest, "b"}), ElementsAre(largest, largest));
  ExpectAlive();
}

TEST_F(ServerNotesTest, NeedASessionInTheStore) {
  client_.ExpectRefused(Notes(kId, {{"a", "1"}}), StatusCode::NOT_FOUND,
                        absl::StrCat("session_id: no session ", kId));
  grpc::ClientContext context;
  v1::OpenSessionRequest open;
  open.set_model("m");
  open.set_durability(v1::DURABILITY_MEMORY);
  open.set_session_id(kId);
  v1::Session session;
  ASSERT_TRUE(stub().OpenSession(&context, open, &session).ok());
  client_.ExpectRefused(
      Notes(kId, {{"a", "1"}}), StatusCode::FAILED_PRECONDITION,
      absl::StrCat("session_id: session ", kId, " is not in the store, so it has no notes"));
  EXPECT_THAT(client_.Values({"a"}), IsEmpty());
}

TEST_F(ServerNotesTest, ARunningTurnGoesOnAndTheSessionStaysAsItIs) {
  const std::string id = Open(), control = Open();
  const Generated expected = Generate(Turn(control, 1));
  const Generated first = Generate(Turn(id, 1), [&](const v1::GenerateResponse& message, auto*) {
    if (message.has_delta()) client_.ExpectPut(Notes(id, {{"a", message.delta().text()}}));
  });
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();
  EXPECT_EQ(first.tokens, expected.tokens);
  EXPECT_THAT(client_.Values({"a"}), ElementsAre(first.deltas.back().text()));
  v1::Session before = Get(id);
  EXPECT_EQ(before.version(), Get(control).version());
  {
    const OpenTurn turn(this, id);
    const uint64_t started = before.version() + 1;
    while (before.version() < started) {  // the start is not in the store yet
      absl::SleepFor(absl::Milliseconds(1));
      before = Get(id);
    }
    EXPECT_TRUE(before.turn_running());
    client_.ExpectPut(Notes(id, {{"a", "meanwhile"}}));
    EXPECT_THAT(client_.Values({"a"}), ElementsAre("meanwhile"));
    const v1::Session after = Get(id);
    EXPECT_TRUE(after.turn_running());
    EXPECT_EQ(after.version(), before.version());
    EXPECT_EQ(after.last_use_time().nanos(), before.last_use_time().nanos());
  }
  EXPECT_EQ(Get(id).position(), first.finish.position() + 1);
}

TEST_F(ServerNotesTest, GoWithTheirSession) {
  const std::string id = Open();
  ASSERT_TRUE(Generate(Turn(id, 1)).status.ok());
  client_.ExpectPut(Notes(id, {{"a", "1"}}));
  grpc::ClientContext context;
  v1::ForkSessionRequest fork;
  fork.set_session_id(id);
  v1::Session copy;
  ASSERT_TRUE(stub().ForkSession(&context, fork, &copy).ok());
  const std::string file = Exported(id);
  EXPECT_THAT(client_.Values({"a"}), ElementsAre("1"));
  Close(id);
  EXPECT_THAT(client_.Values({"a"}), IsEmpty()) << "the fork has none";
  client_.ExpectRefused(Notes(id, {{"a", "2"}}), StatusCode::NOT_FOUND,
                        absl::StrCat("session_id: no session ", id));
  ASSERT_TRUE(Import(file, &copy).ok());
  EXPECT_EQ(copy.session_id(), id);
  EXPECT_THAT(client_.Values({"a"}), IsEmpty()) << "the file has none";
}

TEST_F(ServerNotesTest, AnAnswerThatIsTooLargeComesInParts) {
  const std::string id = Open();
  const std::vector<std::string> keys = {"a", "none", "b", "c", "d", "e", "none"};
  for (const char* key : {"a", "b", "c", "d", "e"}) {
    client_.ExpectPut(Notes(id, {{key, key + std::string(kMiB - 1, 'x')}}));
  }
  std::vector<uint32_t> looked_for;
  std::string found;
  for (size_t begin = 0; begin < keys.size();) {
    v1::FindNotesResponse part;
    const grpc::Status status =
        client_.Find(Keys({keys.begin() + static_cast<ptrdiff_t>(begin), keys.end()}), &part);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_GT(part.keys_looked_for(), 0u);
    for (const v1::Note& note : part.notes()) {
      EXPECT_EQ(note.value(), note.key() + std::string(kMiB - 1, 'x'));
      found += note.key();
    }
    looked_for.push_back(part.keys_looked_for());
    begin += part.keys_looked_for();
  }
  EXPECT_EQ(found, "abcde");
  EXPECT_THAT(looked_for, ElementsAre(3, 2, 2)) << "two values fit into an answer";
}

// --- without a store ----------------------------------------------------------------------------

class StorelessNotesTest : public ServerTest {};

TEST_F(StorelessNotesTest, ThereAreNone) {
  const NotesClient client(&stub());
  client.ExpectRefused(Notes(Open(), {{"a", "1"}}), StatusCode::FAILED_PRECONDITION,
                       "notes: the server has no store");
  client.ExpectRefused(Keys({"a"}), StatusCode::FAILED_PRECONDITION,
                       "keys: the server has no store, so it has no notes");
  ExpectAlive();
}

// --- tenants ------------------------------------------------------------------------------------

// The token of each of the tenants "a" and "b" is its name.
class ServerTenantNotesTest : private OwnedStore, public ServerTest {
 protected:
  ServerTenantNotesTest()
      : OwnedStore({}, /*only_sealed=*/false),
        ServerTest("{}", 0, MinimalModel::PluginFile(), "", ModelSource().max_batch_tokens, "", 0,
                   Options(absl::Minutes(5)), 0,
                   {{.name = "a", .quotas = {}}, {.name = "b", .quotas = {}}}) {
    auto started =
        GrpcServer::Start({.listen = "127.0.0.1:0", .guard = &guard_}, &models(), &sessions());
    EXPECT_TRUE(started.ok()) << started.status();
    guarded_ = *std::move(started);
    stub_ = v1::Longstream::NewStub(grpc::CreateChannel(
        absl::StrCat("127.0.0.1:", guarded_->port()), grpc::InsecureChannelCredentials()));
  }
  ~ServerTenantNotesTest() override { guarded_->Shutdown(MonotonicTime::Now() + absl::Seconds(5)); }

  void OpenAs(const std::string& tenant) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer " + tenant);
    v1::OpenSessionRequest request;
    request.set_model("m");
    request.set_session_id(kId);
    v1::Session session;
    const grpc::Status status = stub_->OpenSession(&context, request, &session);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  NotesClient ClientOf(const std::string& tenant) { return NotesClient(stub_.get(), tenant); }

  const Guard guard_{
      /*open_health=*/true,
      *Credentials::Parse(
          TokenRow("a", "role=client tenant=a") + TokenRow("b", "role=client tenant=b"), "f"),
      {}};
  std::unique_ptr<GrpcServer> guarded_;
  std::unique_ptr<v1::Longstream::Stub> stub_;
};

TEST_F(ServerTenantNotesTest, AnotherTenantsSessionIsUnknown) {
  const NotesClient a = ClientOf("a"), b = ClientOf("b");
  OpenAs("a");
  a.ExpectPut(Notes(kId, {{"k", "of a"}}));
  b.ExpectRefused(Notes(kId, {{"k", "of b"}}), StatusCode::NOT_FOUND,
                  absl::StrCat("session_id: no session ", kId));
  EXPECT_THAT(b.Values({"k"}), IsEmpty());
  EXPECT_THAT(a.Values({"k"}), ElementsAre("of a"));
  OpenAs("b");
  b.ExpectPut(Notes(kId, {{"k", "of b"}}));
  EXPECT_THAT(a.Values({"k"}), ElementsAre("of a")) << "the same id is another session";
  EXPECT_THAT(b.Values({"k"}), ElementsAre("of b"));
}

}  // namespace
}  // namespace longstream
