// Compares the counted bytes of conversations with what the allocator gives for them.
#include "service/chat/history_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "service/chat/history.h"
#include "service/jinja/values/json_reader.h"
#include "service/tokenizer/files/load_tokenizer.h"

namespace {

// The bytes that the program has allocated with new and not freed, with the allocator's own bytes.
// The tests have one thread.
uint64_t allocated_bytes = 0;
uint64_t SizeOf(void* block) { return malloc_usable_size(block) + sizeof(size_t); }

}  // namespace

void* operator new(size_t size) {
  void* const block = std::malloc(size);
  if (block == nullptr) throw std::bad_alloc();
  allocated_bytes += SizeOf(block);
  return block;
}
void operator delete(void* block) noexcept {
  if (block != nullptr) allocated_bytes -= SizeOf(block);
  std::free(block);
}
void operator delete(void* block, size_t /*size*/) noexcept { operator delete(block); }

namespace longstream::chat {
namespace {

// The counted bytes are between these parts of the allocated bytes. The allocator gives some blocks
// 16 bytes more than they need.
constexpr double kLeast = 0.95;
constexpr double kMost = 1.1;

void ExpectCounted(uint64_t counted, uint64_t allocated, const std::string& what) {
  EXPECT_GE(static_cast<double>(counted), kLeast * static_cast<double>(allocated)) << what;
  EXPECT_LE(static_cast<double>(counted), kMost * static_cast<double>(allocated)) << what;
}

std::string Repeat(const std::string& text, size_t count) {
  std::string repeated;
  for (size_t i = 0; i < count; ++i) repeated += text;
  return repeated;
}

std::string Members(size_t count, const std::string& key, const std::string& value) {
  std::string json = "{";
  for (size_t i = 0; i < count; ++i) {
    json += (i == 0 ? "\"" : ",\"") + key + std::to_string(i) + "\":" + value;
  }
  return json + "}";
}

// Shapes of JSON, each with a name.
std::vector<std::pair<std::string, std::string>> Shapes() {
  return {{"a long string", "\"" + std::string(500000, 'x') + "\""},
          {"a string of 15 bytes", "\"" + std::string(15, 'x') + "\""},
          {"a string of 16 bytes", "\"" + std::string(16, 'x') + "\""},
          {"an empty object", "{}"},
          {"an empty list", "[]"},
          {"a deep list", Repeat("[", 98) + "1" + Repeat("]", 98)},
          {"a deep object", Repeat("{\"a\":", 98) + "1" + Repeat("}", 98)},
          {"many small members", Members(20000, "k", "1")},
          {"members just below an index", Members(15, "k", "\"v\"")},
          {"members just with an index", Members(16, "k", "\"v\"")},
          {"members with long keys", Members(3000, std::string(100, 'k'), "\"\"")},
          {"many numbers", "[" + Repeat("1,", 50000) + "1]"},
          {"many short strings", "[" + Repeat("\"ab\",", 20000) + "\"ab\"]"},
          {"many empty lists", "[" + Repeat("[],", 20000) + "[]]"},
          {"many small objects", "[" + Repeat("{\"a\":1,\"b\":\"c\"},", 10000) + "{}]"},
          {"a definition of a function",
           R"({"type":"function","function":{"name":"get_weather","description":"The weather of a)"
           R"( city","parameters":{"type":"object","properties":{"city":{"type":"string"},"unit":)"
           R"({"type":"string","enum":["c","f"]}},"required":["city"]}}})"}};
}

TEST(HistoryBytesTest, ValuesCountWhatTheyAllocate) {
  for (const auto& [name, json] : Shapes()) {
    const uint64_t before = allocated_bytes;
    const Value value = ReadJson(json, /*is_foreign=*/true).value();
    ExpectCounted(BytesOf(value), allocated_bytes - before, name);
  }
  EXPECT_EQ(BytesOf(Value()), 0u);
  EXPECT_EQ(BytesOf(Value::MakeInt(1)), 0u);
}

Value Message(const std::string& content, const std::string& json = "1") {
  Dict message;
  message.Set(Text("role"), Value::MakeText("user"));
  message.Set(Text("content"), Value::MakeText(Text(content, /*is_foreign=*/true)));
  message.Set(Text("unread"), ReadJson(json, /*is_foreign=*/true).value());
  return Value::MakeDict(std::move(message));
}

// Conversations with a template that prints nothing but the contents.
class ConversationBytesTest : public ::testing::Test {
 protected:
  ConversationBytesTest() {
    templates_.by_name.insert_or_assign(
        "default", ChatTemplate::Parse(
                       "t.jinja", "{% for m in messages %}{{ m.role + m.content }}{% endfor %}")
                       .value());
  }

  // Adds messages to the conversation.
  absl::StatusOr<std::shared_ptr<const History>> Add(const std::shared_ptr<const History>& history,
                                                     Messages messages) {
    absl::StatusOr<Addition> addition =
        AddMessages(templates_, *tokenizer_, {tokens_, history, {}, &memory_}, std::move(messages));
    if (!addition.ok()) return addition.status();
    tokens_.resize(addition->kept_tokens);
    tokens_.insert(tokens_.end(), addition->tokens.begin(), addition->tokens.end());
    return addition->history;
  }
  std::shared_ptr<const History> Say(const std::shared_ptr<const History>& history,
                                     const std::string& content, const std::string& json = "1") {
    Messages messages;
    messages.conversation.messages.push_back(Message(content, json));
    return Add(history, std::move(messages)).value();
  }

  HostMemory memory_{0};
  std::unique_ptr<Tokenizer> tokenizer_ =
      LoadTokenizer(
          std::filesystem::path(LONGSTREAM_SOURCE_DIR) / "tests" / "golden" / "tokenizer" / "qwen3",
          4096)
          .value();
  ChatTemplates templates_;
  std::vector<int32_t> tokens_;
};

TEST_F(ConversationBytesTest, HistoriesCountWhatTheyAllocate) {
  const std::vector<std::string> contents = {"short", std::string(20000, 'y')};
  std::shared_ptr<const History> history;
  for (const std::string& content : contents) {
    history = Say(history, content);  // fills the caches of the tokenizer
  }
  history.reset();
  for (const auto& [name, json] : Shapes()) {
    tokens_ = std::vector<int32_t>();
    const uint64_t before = allocated_bytes;
    for (const std::string& content : contents) {
      history = Say(history, content, json);
      const uint64_t tokens = BlockBytes(tokens_.capacity() * sizeof(int32_t));
      ExpectCounted(memory_.held_bytes(), allocated_bytes - before - tokens, name);
      EXPECT_EQ(history->bytes, memory_.held_bytes()) << name << ": nothing is shared";
    }
    history.reset();
    EXPECT_EQ(memory_.held_bytes(), 0u) << name;
  }
}

TEST_F(ConversationBytesTest, EveryPartOfATurnIsCounted) {
  const std::string big = "\"" + std::string(10000, 'x') + "\"";
  const auto value = [&] { return ReadJson("[{\"a\":" + big + "}]", true).value(); };
  const std::shared_ptr<const History> first = Say(nullptr, "short");
  const std::vector<std::pair<std::string, std::function<void(Conversation&)>>> parts = {
      {"tools", [&](Conversation& turn) { turn.tools = value(); }},
      {"documents", [&](Conversation& turn) { turn.documents = value(); }},
      {"an argument", [&](Conversation& turn) { turn.arguments.Set(Text("unread"), value()); }},
      {"the name of an argument",
       [&](Conversation& turn) {
         turn.arguments.Set(Text(std::string(10000, 'n'), true), Value::MakeInt(1));
       }},
      {"a member of a message",
       [&](Conversation& turn) { turn.messages[0] = Message("more", big); }},
      {"the text",
       [&](Conversation& turn) { turn.messages[0] = Message(std::string(10000, 't')); }},
  };
  for (const auto& [name, fill] : parts) {
    tokens_ = std::vector<int32_t>();
    const std::shared_ptr<const History> start = Say(nullptr, "short");
    const uint64_t before = memory_.held_bytes();
    Messages messages;
    messages.conversation.messages.push_back(Message("more"));
    fill(messages.conversation);
    const std::shared_ptr<const History> next = Add(start, std::move(messages)).value();
    EXPECT_GE(memory_.held_bytes(), before + 10000) << name;
    EXPECT_GE(next->bytes, start->bytes + 10000) << name;
  }
}

// Forks share the messages that they had in common.
TEST_F(ConversationBytesTest, SharedMessagesCountOnce) {
  constexpr uint64_t kBytes = 100000;
  std::shared_ptr<const History> trunk =
      Say(nullptr, "start", "\"" + std::string(kBytes, 'x') + "\"");
  const std::vector<int32_t> tokens = tokens_;
  std::vector<std::shared_ptr<const History>> branches;
  const uint64_t before = allocated_bytes;
  const uint64_t held = memory_.held_bytes();
  for (int i = 0; i < 20; ++i) {
    tokens_ = tokens;
    branches.push_back(Say(trunk, "branch" + std::to_string(i)));
    EXPECT_GE(branches.back()->bytes, kBytes) << "a session tells all that it holds";
  }
  EXPECT_LE(memory_.held_bytes() - held, 20 * 2000u);
  ExpectCounted(memory_.held_bytes() - held + 2000, allocated_bytes - before, "the branches");
  trunk.reset();
  EXPECT_GE(memory_.held_bytes(), kBytes) << "the branches still hold the message";
  branches.resize(1);
  EXPECT_GE(memory_.held_bytes(), kBytes);
  branches.clear();
  EXPECT_EQ(memory_.held_bytes(), 0u);
}

// Tools that are replaced in every turn do not add up.
TEST_F(ConversationBytesTest, ReplacedPartsAreGivenBack) {
  const std::string big = "[{\"a\":\"" + std::string(100000, 'x') + "\"}]";
  std::shared_ptr<const History> history;
  for (int i = 0; i < 10; ++i) {
    Messages messages;
    messages.conversation.messages.push_back(Message("m"));
    messages.conversation.tools = ReadJson(big, true).value();
    messages.conversation.arguments.Set(Text("a"), ReadJson(big, true).value());
    history = Add(history, std::move(messages)).value();
  }
  EXPECT_LE(memory_.held_bytes(), 250000u);
}

TEST_F(ConversationBytesTest, BeyondTheLimitNothingChanges) {
  HostMemory small(50000);
  Messages fits;
  fits.conversation.messages.push_back(Message("a", "\"" + std::string(30000, 'x') + "\""));
  const absl::StatusOr<Addition> first =
      AddMessages(templates_, *tokenizer_, {{}, nullptr, {}, &small}, std::move(fits));
  ASSERT_TRUE(first.ok()) << first.status();
  const uint64_t held = small.held_bytes();
  Messages too_much;
  too_much.conversation.messages.push_back(Message("b", "\"" + std::string(30000, 'x') + "\""));
  const absl::StatusOr<Addition> second = AddMessages(
      templates_, *tokenizer_, {first->tokens, first->history, {}, &small}, std::move(too_much));
  EXPECT_EQ(second.status().code(), absl::StatusCode::kResourceExhausted) << second.status();
  EXPECT_THAT(second.status().message(), ::testing::HasSubstr("the limit is 50000"));
  EXPECT_EQ(small.held_bytes(), held);
}

}  // namespace
}  // namespace longstream::chat
