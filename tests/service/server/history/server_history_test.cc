// ReadHistory: text turns and conversations, of sessions in the store and in memory; rewinds,
// running turns, pages, bad requests.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/server/history/history_entries.h"
#include "tests/service/server/transfer/server_files_fixture.h"

namespace longstream {
namespace {

using grpc::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Role, and content or further members.
using Said = std::vector<std::pair<std::string, std::string>>;
// Kind, text or "role: content", and the position of a text.
using Entry = std::tuple<v1::HistoryKind, std::string, uint64_t>;

constexpr v1::HistoryKind kPrompt = v1::HISTORY_KIND_PROMPT;
constexpr v1::HistoryKind kMessage = v1::HISTORY_KIND_MESSAGE;
constexpr v1::HistoryKind kAnswer = v1::HISTORY_KIND_ANSWER;

class ServerHistoryTest : public ServerFilesTest {
 protected:
  std::string OpenWith(v1::Durability durability) {
    grpc::ClientContext context;
    v1::OpenSessionRequest request;
    v1::Session session;
    request.set_model("m");
    request.set_durability(durability);
    const grpc::Status status = stub().OpenSession(&context, request, &session);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return session.session_id();
  }

  grpc::Status Read(const std::string& id, const std::string& token,
                    v1::ReadHistoryResponse* response) {
    grpc::ClientContext context;
    v1::ReadHistoryRequest request;
    request.set_session_id(id);
    request.set_page_token(token);
    return stub().ReadHistory(&context, request, response);
  }
  // A history of one page.
  std::vector<Entry> History(const std::string& id) {
    v1::ReadHistoryResponse response;
    const grpc::Status status = Read(id, "", &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_THAT(response.next_page_token(), IsEmpty());
    version_ = response.version();
    std::vector<Entry> entries;
    turn_ids_.clear();
    for (const v1::HistoryEntry& entry : response.entries()) {
      EXPECT_FALSE(entry.continued());
      turn_ids_.push_back(entry.turn_id());
      const v1::Message& message = entry.message();
      entries.emplace_back(entry.kind(),
                           entry.has_message() ? absl::StrCat(message.role(), ": ",
                                                              message.content(), message.json())
                                               : entry.text(),
                           entry.position());
    }
    return entries;
  }

  // Runs a turn whose answer ends with a whole character.
  Generated Run(v1::GenerateRequest request) {
    for (int32_t byte = 0x80; byte < 0x100; ++byte) {
      (*request.mutable_sampling()->mutable_logit_bias())[byte] = -100;
    }
    Generated done = Generate(request);
    EXPECT_TRUE(done.status.ok()) << done.status.error_message();
    EXPECT_THAT(done.text, testing::SizeIs(10));
    return done;
  }
  Generated RunText(const std::string& id, const std::string& text) {
    v1::GenerateRequest request = Request(id);
    request.mutable_input()->set_text(text);
    return Run(request);
  }
  Generated Chat(const std::string& id, const Said& said, bool whole = false) {
    v1::GenerateRequest request = Request(id);
    v1::Messages& messages = *request.mutable_input()->mutable_messages();
    messages.set_whole_conversation(whole);
    for (const auto& [role, content] : said) {
      v1::Message& message = *messages.add_messages();
      message.set_role(role);
      content.starts_with("{") ? message.set_json(content) : message.set_content(content);
    }
    return Run(request);
  }

  std::vector<std::string> turn_ids_;  // of the last History
  uint64_t version_ = 0;
};

class HistoryOfTextTest : public ServerHistoryTest,
                          public testing::WithParamInterface<v1::Durability> {};

TEST_P(HistoryOfTextTest, PromptsAndAnswers) {
  const std::string id = OpenWith(GetParam());
  EXPECT_THAT(History(id), IsEmpty());
  const Generated first = RunText(id, "one"), second = RunText(id, "two");
  EXPECT_THAT(History(id), ElementsAre(Entry(kPrompt, "one", 3), Entry(kAnswer, first.text, 13),
                                       Entry(kPrompt, "two", 16), Entry(kAnswer, second.text, 26)));
  EXPECT_EQ(version_, Get(id).version());
  EXPECT_THAT(turn_ids_, ElementsAre(first.started.turn_id(), first.started.turn_id(),
                                     second.started.turn_id(), second.started.turn_id()));
}

TEST_P(HistoryOfTextTest, ARewoundSessionHasWhatItHasKept) {
  const std::string id = OpenWith(GetParam());
  const Generated first = RunText(id, "one");
  RunText(id, "two");
  grpc::ClientContext context;
  v1::RewindSessionRequest request;
  v1::Session session;
  request.set_session_id(id);
  request.set_position(8);
  ASSERT_TRUE(stub().RewindSession(&context, request, &session).ok());
  const std::string kept = first.text.substr(0, 5);
  EXPECT_THAT(History(id), ElementsAre(Entry(kPrompt, "one", 3), Entry(kAnswer, kept, 8)));
  const Generated other = RunText(id, "other");
  EXPECT_THAT(History(id),
              ElementsAre(Entry(kPrompt, "one", 3), Entry(kAnswer, kept, 8),
                          Entry(kPrompt, "other", 13), Entry(kAnswer, other.text, 23)));
}

TEST_P(HistoryOfTextTest, AForkHasTheHistoryOfItsSource) {
  const std::string id = OpenWith(GetParam());
  RunText(id, "one");
  grpc::ClientContext context;
  v1::ForkSessionRequest request;
  v1::Session fork;
  request.set_session_id(id);
  ASSERT_TRUE(stub().ForkSession(&context, request, &fork).ok());
  EXPECT_EQ(History(fork.session_id()), History(id));
}

INSTANTIATE_TEST_SUITE_P(Durabilities, HistoryOfTextTest,
                         testing::Values(v1::DURABILITY_TURN, v1::DURABILITY_MEMORY));

TEST_F(ServerHistoryTest, MessagesAsTheyWereSent) {
  const std::string id = OpenWith(v1::DURABILITY_TURN);
  const Generated first = Chat(id, {{"system", "be brief"}, {"user", "hi"}});
  const Generated second = Chat(id, {{"tool", R"({"content": [1, 2]})"}});
  EXPECT_THAT(History(id),
              ElementsAre(Entry(kMessage, "system: be brief", 0), Entry(kMessage, "user: hi", 0),
                          Entry(kAnswer, first.text, first.finish.position()),
                          Entry(kMessage, R"(tool: {"content": [1, 2]})", 0),
                          Entry(kAnswer, second.text, second.finish.position())));

  // A client that has separated the answer from its thoughts sends the answer itself.
  const Generated third = Chat(id, {{"assistant", "mine"}, {"user", "more"}});
  const std::vector<Entry> history = History(id);
  ASSERT_EQ(history.size(), 7u);
  EXPECT_EQ(history[4], Entry(kMessage, "assistant: mine", 0));
  EXPECT_EQ(history[6], Entry(kAnswer, third.text, third.finish.position()));
}

TEST_F(ServerHistoryTest, AWholeConversationReplacesWhatDiffers) {
  const std::string id = OpenWith(v1::DURABILITY_TURN);
  const Generated first = Chat(id, {{"user", "hi"}}, /*whole=*/true);
  Chat(id, {{"user", "hi"}, {"assistant", first.text}, {"user", "two"}}, /*whole=*/true);
  const Generated third =
      Chat(id, {{"user", "hi"}, {"assistant", first.text}, {"user", "other"}}, /*whole=*/true);
  EXPECT_THAT(History(id), ElementsAre(Entry(kMessage, "user: hi", 0),
                                       Entry(kAnswer, first.text, first.finish.position()),
                                       Entry(kMessage, "user: other", 0),
                                       Entry(kAnswer, third.text, third.finish.position())));
  EXPECT_EQ(turn_ids_[0], first.started.turn_id());
  EXPECT_EQ(turn_ids_[2], third.started.turn_id());
}

TEST_F(ServerHistoryTest, ConversationsInMemoryAreRendered) {
  const std::string id = OpenWith(v1::DURABILITY_MEMORY);
  const Generated first = Chat(id, {{"user", "hi"}});
  EXPECT_THAT(History(id), ElementsAre(Entry(kPrompt, "<user>hi<assistant>", 19),
                                       Entry(kAnswer, first.text, 29)));
}

TEST_F(ServerHistoryTest, ARunningTurnIsNotPartOfIt) {
  const std::string stored = OpenWith(v1::DURABILITY_TURN);
  const std::string in_memory = OpenWith(v1::DURABILITY_MEMORY);
  const Generated first = RunText(stored, "one");
  const Entry prompt(kPrompt, "one", 3), answer(kAnswer, first.text, 13);
  {
    const OpenTurn running(this, stored);
    EXPECT_THAT(History(stored), ElementsAre(prompt, answer));
  }
  EXPECT_THAT(History(stored), ElementsAre(prompt, answer, Entry(kPrompt, "x", 14)));
  const OpenTurn running(this, in_memory);
  v1::ReadHistoryResponse response;
  EXPECT_EQ(Read(in_memory, "", &response).error_code(), StatusCode::ABORTED);
}

TEST_F(ServerHistoryTest, BadRequestsAreRefused) {
  const std::string id = OpenWith(v1::DURABILITY_TURN);
  RunText(id, "one");
  v1::ReadHistoryResponse response;
  for (const char* token :
       {"x", "0", "0.x", "-1.0", "2.0", "0.3", "0.4", "1.0.0", "99999999999999999999.0"}) {
    const grpc::Status status = Read(id, token, &response);
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT) << token;
    EXPECT_THAT(status.error_message(), HasSubstr("page_token")) << token;
  }
  EXPECT_TRUE(Read(id, "1.0", &response).ok());
  EXPECT_EQ(Read("x", "", &response).error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Read(std::string(32, '1'), "", &response).error_code(), StatusCode::NOT_FOUND);
  Close(id);
  EXPECT_EQ(Read(id, "", &response).error_code(), StatusCode::NOT_FOUND);
  ExpectAlive();
}

v1::HistoryEntry TextEntry(v1::HistoryKind kind, const std::string& text) {
  v1::HistoryEntry entry;
  entry.set_turn_id("t");
  entry.set_kind(kind);
  entry.set_text(text);
  return entry;
}

v1::HistoryEntry MessageEntry(const std::string& content) {
  v1::HistoryEntry entry;
  entry.set_kind(kMessage);
  entry.mutable_message()->set_role("user");
  entry.mutable_message()->set_content(content);
  return entry;
}

// All pages, with the pieces of each text joined.
std::vector<std::string> Joined(const std::vector<v1::HistoryEntry>& entries, size_t most_bytes) {
  std::vector<std::string> texts;
  bool continues = false;
  std::string token;
  do {
    const absl::StatusOr<HistoryPlace> place = HistoryPlace::Parse(token);
    EXPECT_TRUE(place.ok()) << place.status();
    const absl::StatusOr<v1::ReadHistoryResponse> page = PageOf(entries, *place, most_bytes);
    EXPECT_TRUE(page.ok()) << page.status();
    if (!page.ok()) return texts;
    size_t bytes = 0;
    for (const v1::HistoryEntry& entry : page->entries()) {
      const std::string& text = entry.has_message() ? entry.message().content() : entry.text();
      bytes += entry.has_message() ? text.size() + 4 : text.size();
      continues ? texts.back().append(text) : texts.emplace_back(text);
      continues = entry.continued();
    }
    EXPECT_GE(page->entries_size(), entries.empty() ? 0 : 1);
    EXPECT_TRUE(bytes <= std::max<size_t>(most_bytes, 4) || page->entries_size() == 1) << bytes;
    token = page->next_page_token();
  } while (!token.empty());
  return texts;
}

TEST(HistoryPageTest, PagesOfAnySizeHaveEverything) {
  const std::string mixed = "a\u00e9\u20ac\U0001F600b";
  const std::vector<v1::HistoryEntry> entries = {TextEntry(kPrompt, mixed + mixed),
                                                 MessageEntry("a message of 24 letters"),
                                                 MessageEntry("b"), TextEntry(kAnswer, mixed)};
  const std::vector<std::string> whole = {mixed + mixed, "a message of 24 letters", "b", mixed};
  for (size_t most_bytes = 1; most_bytes < 80; ++most_bytes) {
    EXPECT_EQ(Joined(entries, most_bytes), whole) << most_bytes;
  }
  EXPECT_THAT(Joined({}, 10), IsEmpty());
}

}  // namespace
}  // namespace longstream
