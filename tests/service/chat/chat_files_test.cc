// The places in a model directory where a chat template may be.
#include "service/chat/chat_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/backends/checkpoint/gguf/gguf_bytes.h"
#include "tests/temporary_directory.h"

namespace longstream::chat {
namespace {

using ::testing::HasSubstr;

class ChatFilesTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) const {
    directory_.Write(name, text);
  }
  // Returns the text that the chosen template renders for an empty conversation, or the error.
  std::string Chosen(bool has_tools = false) const {
    const auto templates = ReadChatTemplates(directory_.path());
    if (!templates.ok()) return std::string(templates.status().message());
    const auto chosen = templates->Choose(has_tools);
    if (!chosen.ok()) return std::string(chosen.status().message());
    const auto text = (*chosen)->Render(templates->special_tokens, {});
    return text.ok() ? text->bytes() : std::string(text.status().message());
  }

  const TemporaryDirectory directory_;
};

TEST_F(ChatFilesTest, NoneAtAll) {
  EXPECT_THAT(Chosen(), HasSubstr("the model has no chat template"));
  Write("tokenizer_config.json", R"({"chat_template": null})");
  EXPECT_THAT(Chosen(), HasSubstr("the model has no chat template"));
}

TEST_F(ChatFilesTest, InTokenizerConfig) {
  Write("tokenizer_config.json",
        R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "pad_token": null,
            "chat_template": "{{ bos_token }}{{ eos_token }}{{ unk_token }}{{ pad_token }}"})");
  Write("special_tokens_map.json", R"({"eos_token": "other", "unk_token": "<unk>"})");
  EXPECT_EQ(Chosen(), "<s></s><unk>");
  EXPECT_EQ(Chosen(/*has_tools=*/true), "<s></s><unk>");
}

// Many tokenizer_config.json files contain a number of 100 bits, which in Python means "no limit".
TEST_F(ChatFilesTest, WholeNumbersOfAnySize) {
  Write("tokenizer_config.json",
        R"({"model_max_length": 1000000000000000019884624838656, "chat_template": "long"})");
  EXPECT_EQ(Chosen(), "long");
  Write("tokenizer_config.json",
        R"({"model_max_length": 18446744073709551615, "chat_template": "less so"})");
  EXPECT_EQ(Chosen(), "less so");
}

TEST_F(ChatFilesTest, NamedInTokenizerConfig) {
  Write("tokenizer_config.json",
        R"({"chat_template": [{"name": "default", "template": "plain"},
                              {"name": "tool_use", "template": "tools"}]})");
  EXPECT_EQ(Chosen(), "plain");
  EXPECT_EQ(Chosen(/*has_tools=*/true), "tools");
  Write("tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "x"}]})");
  EXPECT_THAT(Chosen(), HasSubstr("no chat template called default; available: rag"));
}

TEST_F(ChatFilesTest, FilesComeFirst) {
  Write("tokenizer_config.json", R"({"chat_template": "config"})");
  Write("chat_template.jinja", "file\n");
  EXPECT_EQ(Chosen(), "file");
  std::filesystem::create_directory(directory_.path() / "chat_templates");
  Write("chat_templates/tool_use.jinja", "tools");
  EXPECT_EQ(Chosen(/*has_tools=*/true), "tools");
  EXPECT_EQ(Chosen(), "file");
}

TEST_F(ChatFilesTest, ErrorsNameTheFile) {
  Write("tokenizer_config.json", R"({"chat_template": "{{ x | nosuch }}"})");
  EXPECT_EQ(Chosen(),
            "tokenizer_config.json: chat_template: line 1, column 8: the filter 'nosuch' is not "
            "supported");
  Write("tokenizer_config.json", R"({"chat_template": [1]})");
  EXPECT_THAT(Chosen(), HasSubstr("expected a string, or a list of objects"));
  Write("tokenizer_config.json", "[");
  EXPECT_THAT(Chosen(), HasSubstr("tokenizer_config.json: not JSON at byte"));
  Write("tokenizer_config.json", "{}");
  Write("chat_template.jinja", "{% if %}");
  EXPECT_THAT(Chosen(), HasSubstr("chat_template.jinja: line 1, column 7: expected"));
}

TEST_F(ChatFilesTest, InTheMetadataOfAGgufFile) {
  Write("m.gguf", GgufBytes()
                      .Text("tokenizer.ggml.model", "gpt2")
                      .Texts("tokenizer.ggml.tokens", {"<s>", "</s>", "a"})
                      .U32("tokenizer.ggml.bos_token_id", 0)
                      .U32("tokenizer.ggml.eos_token_id", 1)
                      .Text("tokenizer.chat_template", "{{ bos_token }}|{{ eos_token }}")
                      .Texts("tokenizer.chat_templates", {"tool_use"})
                      .Text("tokenizer.chat_template.tool_use", "tools")
                      .Bytes());
  EXPECT_EQ(Chosen(), "<s>|</s>");
  EXPECT_EQ(Chosen(/*has_tools=*/true), "tools");
  Write("m.gguf", GgufBytes().Bytes());
  EXPECT_THAT(Chosen(), HasSubstr("the model has no chat template"));
  Write("m.gguf", GgufBytes().U32("tokenizer.chat_template", 3).Bytes());
  EXPECT_THAT(Chosen(), HasSubstr("m.gguf: tokenizer.chat_template: expected a string"));
  Write("m.gguf", GgufBytes().Text("tokenizer.chat_template", "{% if %}").Bytes());
  EXPECT_THAT(Chosen(), HasSubstr("m.gguf: tokenizer.chat_template"));
}

}  // namespace
}  // namespace longstream::chat
