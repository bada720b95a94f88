// Tests calls whose answers have a format.
#include <gtest/gtest.h>

#include <string>

#include "nlohmann/json.hpp"
#include "service/server/formats/format_check.h"
#include "tests/service/server/server_fixture.h"

namespace longstream {
namespace {

using Format = v1::ResponseFormat;

class ServerFormatsTest : public ServerTest {
 protected:
  v1::GenerateRequest Formatted(const Format& format) {
    v1::GenerateRequest request = Request(Open());
    request.set_max_tokens(1000);
    *request.mutable_response_format() = format;
    return request;
  }
  void ExpectRefused(const Format& format, const std::string& message) {
    const Generated generated = Generate(Formatted(format));
    EXPECT_EQ(generated.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(generated.status.error_message(), message);
  }
  void ExpectAnswer(const Format& format, const std::string& text) {
    const Generated generated = Generate(Formatted(format));
    ASSERT_TRUE(generated.status.ok()) << generated.status.error_message();
    EXPECT_EQ(generated.text, text);
    EXPECT_EQ(generated.finish.reason(), v1::FINISH_REASON_FORMAT);
  }
  ~ServerFormatsTest() override { ExpectAlive(); }
};

Format Text(const std::string& text) {
  Format format;
  format.set_text(text);
  return format;
}

TEST_F(ServerFormatsTest, FormatsAreMadeOfFormats) {
  ExpectAnswer(Text("yes"), "yes");
  Format format;
  *format.mutable_sequence()->add_formats() = Text("<");
  Format& repeat = *format.mutable_sequence()->add_formats();
  *repeat.mutable_repeat()->mutable_format() = Text("ab");
  repeat.mutable_repeat()->set_least(3);
  repeat.mutable_repeat()->set_most(3);
  *format.mutable_sequence()->add_formats()->mutable_any_of()->add_formats() = Text(">");
  ExpectAnswer(format, "<ababab>");
}

TEST_F(ServerFormatsTest, TextWithoutATagMayComeBeforeTheTag) {
  Format format;
  format.mutable_sequence()->add_formats()->set_text_without("<x>");
  *format.mutable_sequence()->add_formats() = Text("<x>!");
  const Generated generated = Generate(Formatted(format));
  ASSERT_TRUE(generated.status.ok()) << generated.status.error_message();
  const size_t tag = generated.text.find("<x>");
  EXPECT_TRUE(generated.finish.reason() == v1::FINISH_REASON_MAX_TOKENS
                  ? tag == std::string::npos
                  : tag == generated.text.size() - 4);
}

TEST_F(ServerFormatsTest, AnswersAreJson) {
  Format format;
  format.set_json_schema(
      R"({"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 5})");
  const Generated generated = Generate(Formatted(format));
  ASSERT_TRUE(generated.status.ok()) << generated.status.error_message();
  const auto json = nlohmann::json::parse(generated.text, nullptr, /*allow_exceptions=*/false);
  EXPECT_TRUE(json.is_array() && json.size() >= 2 && json.size() <= 5) << generated.text;
}

TEST_F(ServerFormatsTest, TheModelSaysThatItCan) {
  const v1::ListModelsResponse models = [&] {
    grpc::ClientContext context;
    v1::ListModelsResponse response;
    EXPECT_TRUE(stub().ListModels(&context, {}, &response).ok());
    return response;
  }();
  ASSERT_EQ(models.models_size(), 1);
  const auto& names = models.models(0).capabilities();
  EXPECT_EQ(std::count(names.begin(), names.end(), "allowed_tokens"), 1);
}

TEST_F(ServerFormatsTest, WrongFormatsAreRefusedByTheirPlace) {
  ExpectRefused(Format(), "response_format: expected a format, found none");
  Format format;
  format.mutable_any_of();
  ExpectRefused(format, "response_format.any_of.formats: expected a format, found none");
  format.mutable_any_of()->add_formats();
  ExpectRefused(format, "response_format.any_of.formats[0]: expected a format, found none");
  ExpectRefused(Text("a\xff"), "response_format.text: expected UTF-8, found an invalid byte at 1");
  ExpectRefused(Text(""), "response_format: only the empty text has this format");
  format.set_text_without("");
  ExpectRefused(format, "response_format.text_without: every text contains the empty text");
  format.mutable_repeat()->set_least(10'001);
  ExpectRefused(format, "response_format.repeat.least: at most 10000, found 10001");
  format.mutable_repeat()->set_least(3);
  format.mutable_repeat()->set_most(2);
  ExpectRefused(format, "response_format.repeat.most: 2 is less than `least`, 3");
  format.mutable_repeat()->set_most(3);
  ExpectRefused(format, "response_format.repeat.format: expected a format, found none");
}

TEST_F(ServerFormatsTest, FormatsHaveLimits) {
  Format format = Text("a");
  for (int i = 1; i < kMaxFormatDepth; ++i) {
    Format outer;
    *outer.mutable_sequence()->add_formats() = format;
    format = outer;
  }
  ExpectAnswer(format, "a");
  Format deeper;
  *deeper.mutable_sequence()->add_formats() = format;
  const Generated generated = Generate(Formatted(deeper));
  EXPECT_EQ(generated.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(generated.status.error_message().ends_with(": formats nest at most 16 deep"))
      << generated.status.error_message();
  ExpectRefused(Text(std::string(kMaxFormatBytes + 1, 'a')),
                "response_format.text: the texts of a response_format have at most 1048576 bytes "
                "together");
  Format many;
  for (size_t i = 0; i < kMaxFormatParts; ++i) *many.mutable_any_of()->add_formats() = Text("a");
  // Such a message is refused before, by its elements; one with longer texts is not.
  EXPECT_EQ(ReadFormat(many).status(),
            absl::InvalidArgumentError("response_format: at most 10000 formats"));
}

TEST_F(ServerFormatsTest, FormatsThatCannotBeCompiledAreRefused) {
  Format format;
  format.set_regex("(");
  const Generated regex = Generate(Formatted(format));
  EXPECT_EQ(regex.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(regex.status.error_message().starts_with("response_format.regex: "))
      << regex.status.error_message();
  Format inner;
  inner.set_json_schema("{");
  Format outer;
  *outer.mutable_any_of()->add_formats() = Text("a");
  *outer.mutable_any_of()->add_formats() = inner;
  const Generated schema = Generate(Formatted(outer));
  EXPECT_TRUE(
      schema.status.error_message().starts_with("response_format.any_of.formats[1].json_schema: "))
      << schema.status.error_message();
  format.set_grammar("root ::= \"a\" root");
  ExpectRefused(format, "response_format.grammar: no text fits the grammar");
}

TEST_F(ServerFormatsTest, TheFormatDecidesWhereTheAnswerMayEnd) {
  v1::GenerateRequest request = Formatted(Text("yes"));
  request.mutable_stop()->set_min_tokens(2);
  const Generated generated = Generate(request);
  EXPECT_EQ(generated.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(generated.status.error_message(),
            "stop.min_tokens: expected 0 with a response_format, which decides where the answer "
            "may end; found 2");
}

TEST_F(ServerFormatsTest, TheFormatIsPartOfTheTurn) {
  v1::GenerateRequest request = Formatted(Text("yes"));
  request.set_turn_id(std::string(32, 'a'));
  EXPECT_EQ(Generate(request).text, "yes");
  const Generated again = Generate(request);
  EXPECT_EQ(again.text, "yes");
  EXPECT_EQ(again.started.how(), v1::ATTACH_REPLAYED);
  *request.mutable_response_format() = Text("no");
  EXPECT_EQ(Generate(request).status.error_code(), grpc::StatusCode::ALREADY_EXISTS);
}

}  // namespace
}  // namespace longstream
