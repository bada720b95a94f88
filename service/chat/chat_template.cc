// Turns the exceptions of service/jinja into statuses.
#include "service/chat/chat_template.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/jinja/interpreter.h"
#include "service/jinja/syntax/parser.h"
#include "service/tokenizer/text/utf8.h"

namespace longstream::chat {
namespace {

constexpr size_t kMaxSourceBytes = 1 << 20;

// gRPC sends an error message in a header, which holds only a few kilobytes.
constexpr size_t kMaxMessageBytes = 1000;

absl::Status ToStatus(const TemplateError& error, const std::string& name) {
  std::string message = error.message;
  if (message.size() > kMaxMessageBytes) {
    message.resize(kMaxMessageBytes);
    message.resize(ValidUtf8Prefix(message));
    message += " ...";
  }
  const std::string place =
      error.place.line == 0
          ? ""
          : absl::StrCat("line ", error.place.line, ", column ", error.place.column, ": ");
  return absl::Status(error.code, absl::StrCat(name, ": ", place, message));
}

}  // namespace

std::tm LocalTime() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return local;
}

absl::StatusOr<ChatTemplate> ChatTemplate::Parse(std::string name, std::string source) {
  if (source.size() > kMaxSourceBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": a template has at most ", kMaxSourceBytes, " bytes, found ", source.size()));
  }
  if (const size_t valid = ValidUtf8Prefix(source); valid != source.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": expected UTF-8, found invalid UTF-8 at byte ", valid));
  }
  ChatTemplate result;
  try {
    result.body_ = std::make_shared<const Body>(StatementParser(source).Parse());
  } catch (const TemplateError& error) {
    return ToStatus(error, name);
  }
  result.name_ = std::move(name);
  result.source_ = std::move(source);
  return result;
}

absl::StatusOr<Text> ChatTemplate::Render(const Dict& variables,
                                          const RenderOptions& options) const {
  try {
    return Interpreter(variables, options.now, options.limits).Run(*body_);
  } catch (const TemplateError& error) {
    return ToStatus(error, name_);
  }
}

}  // namespace longstream::chat
