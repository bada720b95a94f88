// Conversations with the demo models, to which the test adds a chat template and sampling defaults,
// and with a GGUF file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "client/connection.h"
#include "tests/e2e/minimal_server.h"
#include "tests/processes/server_process.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using testing::HasSubstr;

constexpr std::chrono::milliseconds kChatPatience{60000};

// The template writes plain text. With `short`, it keeps only the first letter of every reply
// except the last message.
constexpr char kTemplate[] =
    "{%- for m in messages %}# {{ m.role }}\n"
    "{{ m.content[:1] if short and m.role == 'assistant' and not loop.last else m.content }}\n"
    "{% endfor %}{% if add_generation_prompt %}# assistant\n{% endif %}";

class ChatE2eTest : public testing::TestWithParam<std::string> {
 protected:
  ChatE2eTest() {
    const auto demo = std::filesystem::path(LONGSTREAM_SOURCE_DIR) / "models" / "demo" / GetParam();
    for (const char* file : {"config.json", "model.safetensors"}) {
      std::filesystem::create_symlink(demo / file, directory_.path() / file);
    }
    directory_.Write("chat_template.jinja", kTemplate);
    directory_.Write("generation_config.json", R"({"do_sample": false, "top_k": 20})");
  }

  static v1::GenerateRequest Request(const std::string& session) {
    v1::GenerateRequest request;
    request.set_session_id(session);
    request.set_max_tokens(24);
    return request;
  }
  static v1::GenerateRequest Say(const std::string& session,
                                 const std::vector<std::pair<std::string, std::string>>& said) {
    v1::GenerateRequest request = Request(session);
    for (const auto& [role, content] : said) {
      v1::Message* message = request.mutable_input()->mutable_messages()->add_messages();
      message->set_role(role);
      message->set_content(content);
    }
    return request;
  }

  const TemporaryDirectory directory_;
};

TEST_P(ChatE2eTest, TurnsGiveWhatTheirTextGives) {
  ServerProcess server(kServerBinary, {"--plugins", LONGSTREAM_BINARY_DIR "/plugins", "--model",
                                       "m=" + directory_.string()});
  client::Connection connection(server.address());
  connection.WaitUntilServing("m", kChatPatience);
  const v1::Model model = connection.Model("m");
  EXPECT_TRUE(model.chat());
  EXPECT_EQ(model.sampling_defaults().temperature(), 0.0f);
  EXPECT_EQ(model.sampling_defaults().top_k(), 20);
  const auto generate = [&](const v1::GenerateRequest& request) {
    return connection.Generate(request);
  };
  const auto answer_to_text = [&](const std::string& text) {
    v1::GenerateRequest request = Request(connection.Open("m").session_id());
    request.mutable_input()->set_text(text);
    return generate(request).text;
  };

  const std::string session = connection.Open("m").session_id();
  const auto first = generate(Say(session, {{"user", "import os"}}));
  const std::string begin = "# user\nimport os\n# assistant\n";
  EXPECT_EQ(first.text, answer_to_text(begin));
  const auto second = generate(Say(session, {{"user", "def f():"}}));
  const std::string middle = begin + first.text + "\n# user\ndef f():\n# assistant\n";
  EXPECT_EQ(second.text, answer_to_text(middle));
  EXPECT_EQ(second.finish.usage().recomputed_tokens(), 0u);
  EXPECT_EQ(second.finish.usage().prompt_tokens(), middle.size() - begin.size() - 24);

  // With `short` the template writes earlier replies differently. The session must replace their
  // text.
  v1::GenerateRequest request = Say(session, {{"user", "x"}});
  request.mutable_input()->mutable_messages()->set_template_arguments(R"({"short": true})");
  const auto third = generate(request);
  EXPECT_EQ(third.text,
            answer_to_text(begin + first.text.substr(0, 1) + "\n# user\ndef f():\n# assistant\n" +
                           second.text.substr(0, 1) + "\n# user\nx\n# assistant\n"));
  EXPECT_LT(third.finish.usage().reused_tokens(), begin.size() + 2);

  // A caller that keeps the conversation itself sends the whole of it.
  v1::GenerateRequest whole =
      Say(session, {{"user", "import os"}, {"assistant", first.text}, {"user", "def f():"}});
  whole.mutable_input()->mutable_messages()->set_whole_conversation(true);
  EXPECT_EQ(generate(whole).text, second.text);
}

INSTANTIATE_TEST_SUITE_P(Demo, ChatE2eTest, testing::Values("dense", "hwfa2", "hypenet"),
                         [](const auto& model) { return model.param; });

// A GGUF file served as it is: its template, its tokenizer and its sampling defaults.
// Two names of one model: the file, and the directory that has it.
TEST(GgufE2eTest, AFileIsServedAsItIs) {
  const std::string directory = LONGSTREAM_SOURCE_DIR "/tests/golden/gguf/served";
  ServerProcess server(kServerBinary,
                       {"--plugins", LONGSTREAM_BINARY_DIR "/plugins", "--model",
                        "file=" + directory + "/served.gguf", "--model", "directory=" + directory});
  client::Connection connection(server.address());
  std::string answers[2];
  for (const bool by_file : {true, false}) {
    const std::string name = by_file ? "file" : "directory";
    connection.WaitUntilServing(name, kChatPatience);
    const v1::Model model = connection.Model(name);
    EXPECT_TRUE(model.chat());
    EXPECT_EQ(model.sampling_defaults().temperature(), 0.7f);
    v1::GenerateRequest request;
    request.set_session_id(connection.Open(name).session_id());
    request.set_max_tokens(20);
    request.mutable_sampling()->set_seed(7);
    v1::Message* message = request.mutable_input()->mutable_messages()->add_messages();
    message->set_role("user");
    message->set_content("def main():");
    const auto turn = connection.Generate(request);
    // "def", " ma", "in", "(" and "):" between the first and the last token of the template.
    EXPECT_EQ(turn.finish.usage().prompt_tokens(), 7u);
    answers[by_file ? 0 : 1] = turn.text;
  }
  EXPECT_FALSE(answers[0].empty());
  EXPECT_EQ(answers[0], answers[1]);
}

}  // namespace
}  // namespace longstream
