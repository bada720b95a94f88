// Comparison with transformers. For each template and conversation of the golden files, our text
// must equal the text of apply_chat_template. If apply_chat_template fails, we must fail too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/service/chat/chat_golden.h"

namespace longstream::chat {
namespace {

using ::testing::HasSubstr;

// If the golden case failed by raise_exception, our error must contain its message. For other
// errors the golden file has only the Python type, so any error is accepted. Constructs that are
// not supported do not occur in the golden files.
void ExpectSame(const absl::StatusOr<Text>& ours, const Json& test_case) {
  if (test_case.contains("text")) {
    ASSERT_TRUE(ours.ok()) << ours.status() << "\nexpected: " << test_case["text"];
    EXPECT_EQ(ours->bytes(), test_case["text"].get<std::string>());
    return;
  }
  const std::string error = test_case["error"];
  ASSERT_FALSE(ours.ok()) << "expected an error, " << error << "\nfound: " << ours->bytes();
  if (ours.status().message().find("refuses the conversation: ") != absl::string_view::npos) {
    EXPECT_THAT(std::string(ours.status().message()), HasSubstr(error));
  }
}

std::vector<std::filesystem::path> Templates() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(GoldenDirectory() / "templates")) {
    if (entry.path().extension() == ".jinja") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

class TemplateParity : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(TemplateParity, EveryConversation) {
  const auto chat_template = ChatTemplate::Parse(GetParam().filename(), ReadText(GetParam()));
  ASSERT_TRUE(chat_template.ok()) << chat_template.status();
  const Json golden = ReadJsonFile(GoldenDirectory() / GetParam().stem().concat(".json"));
  ASSERT_FALSE(golden["cases"].empty());
  size_t texts = 0;
  for (const Json& test_case : golden["cases"]) {
    SCOPED_TRACE(test_case.dump().substr(0, 2000));
    ExpectSame(ApplyTemplate(*chat_template, SpecialTokens(golden), ToConversation(test_case),
                             GoldenOptions()),
               test_case);
    texts += test_case.contains("text") ? 1 : 0;
  }
  EXPECT_GT(texts, 0u) << "the golden files have no text of this template";
}

INSTANTIATE_TEST_SUITE_P(Chat, TemplateParity, ::testing::ValuesIn(Templates()),
                         [](const auto& param) {
                           std::string name = param.param.stem();
                           std::replace_if(
                               name.begin(), name.end(),
                               [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

class ConstructParity : public ::testing::TestWithParam<const char*> {};

TEST_P(ConstructParity, EveryTemplate) {
  const Json golden = ReadJsonFile(GoldenDirectory() / (std::string(GetParam()) + ".json"));
  const Dict variables = ToValue(golden["variables"]).dict();
  ASSERT_FALSE(golden["cases"].empty());
  for (const Json& test_case : golden["cases"]) {
    SCOPED_TRACE(test_case["template"]);
    const auto chat_template = ChatTemplate::Parse("construct", test_case["template"]);
    if (!chat_template.ok()) {
      ExpectSame(chat_template.status(), test_case);
    } else {
      ExpectSame(chat_template->Render(variables, GoldenOptions()), test_case);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Chat, ConstructParity, ::testing::Values("constructs", "typed"));

}  // namespace
}  // namespace longstream::chat
