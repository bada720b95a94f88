// Checks each part of a format.
#include "service/server/formats/format_check.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/api/backend.h"
#include "service/chat/thoughts.h"
#include "service/grammar/matcher.h"
#include "service/tokenizer/text/utf8.h"

namespace longstream {
namespace {

using Kind = ResponseFormat::Kind;
using Message = v1::ResponseFormat;

template <typename... Parts>
absl::Status InvalidFormat(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// Reads a format and its parts, and counts them.
class FormatReader {
 public:
  // `field`: the place of the format in the request.
  absl::StatusOr<ResponseFormat> Read(const Message& message, const std::string& field, int depth) {
    if (depth > 1 && message.after_thoughts()) {
      return InvalidFormat(field,
                           ".after_thoughts: only the whole format may begin behind thoughts");
    }
    if (depth > kMaxFormatDepth) {
      return InvalidFormat(field, ": formats nest at most ", kMaxFormatDepth, " deep");
    }
    if (++parts_ > kMaxFormatParts) {
      return InvalidFormat("response_format: at most ", kMaxFormatParts, " formats");
    }
    switch (message.format_case()) {
      case Message::kText:
        return ReadText(Kind::kText, message.text(), field + ".text");
      case Message::kTextWithout:
        if (message.text_without().empty()) {
          return InvalidFormat(field, ".text_without: every text contains the empty text");
        }
        if (message.text_without().size() > kMaxTextWithoutBytes) {
          return InvalidFormat(field, ".text_without: at most ", kMaxTextWithoutBytes,
                               " bytes, found ", message.text_without().size());
        }
        return ReadText(Kind::kTextWithout, message.text_without(), field + ".text_without");
      case Message::kJsonObject:
        return ResponseFormat{.kind = Kind::kJsonObject};
      case Message::kJsonSchema:
        return ReadText(Kind::kJsonSchema, message.json_schema(), field + ".json_schema");
      case Message::kRegex:
        return ReadText(Kind::kRegex, message.regex(), field + ".regex");
      case Message::kGrammar:
        return ReadText(Kind::kGrammar, message.grammar(), field + ".grammar");
      case Message::kSequence:
        return ReadParts(Kind::kSequence, message.sequence(), field + ".sequence", depth);
      case Message::kAnyOf:
        return ReadParts(Kind::kAnyOf, message.any_of(), field + ".any_of", depth);
      case Message::kRepeat:
        return ReadRepeat(message.repeat(), field + ".repeat", depth);
      case Message::FORMAT_NOT_SET:
        break;
    }
    return InvalidFormat(field, ": expected a format, found none");
  }

 private:
  absl::StatusOr<ResponseFormat> ReadText(Kind kind, const std::string& text,
                                          const std::string& field) {
    bytes_ += text.size();
    if (bytes_ > kMaxFormatBytes) {
      return InvalidFormat(field, ": the texts of a response_format have at most ", kMaxFormatBytes,
                           " bytes together");
    }
    if (const size_t valid = ValidUtf8Prefix(text); valid < text.size()) {
      return InvalidFormat(field, ": expected UTF-8, found an invalid byte at ", valid);
    }
    return ResponseFormat{.kind = kind, .text = text};
  }

  absl::StatusOr<ResponseFormat> ReadParts(Kind kind, const Message::Formats& message,
                                           const std::string& field, int depth) {
    if (message.formats().empty())
      return InvalidFormat(field, ".formats: expected a format, found none");
    ResponseFormat format{.kind = kind};
    for (int i = 0; i < message.formats_size(); ++i) {
      absl::StatusOr<ResponseFormat> part =
          Read(message.formats(i), absl::StrCat(field, ".formats[", i, "]"), depth + 1);
      if (!part.ok()) return part;
      format.parts.push_back(*std::move(part));
    }
    return format;
  }

  absl::StatusOr<ResponseFormat> ReadRepeat(const Message::Repeat& message,
                                            const std::string& field, int depth) {
    ResponseFormat format{.kind = Kind::kRepeat, .least = message.least()};
    if (message.has_most()) format.most = message.most();
    if (message.least() > kMaxFormatRepeats) {
      return InvalidFormat(field, ".least: at most ", kMaxFormatRepeats, ", found ",
                           message.least());
    }
    if (message.most() > kMaxFormatRepeats) {
      return InvalidFormat(field, ".most: at most ", kMaxFormatRepeats, ", found ", message.most());
    }
    if (message.has_most() && message.most() < message.least()) {
      return InvalidFormat(field, ".most: ", message.most(), " is less than `least`, ",
                           message.least());
    }
    absl::StatusOr<ResponseFormat> part = Read(message.format(), field + ".format", depth + 1);
    if (!part.ok()) return part;
    format.parts.push_back(*std::move(part));
    return format;
  }

  size_t parts_ = 0;
  size_t bytes_ = 0;
};

ResponseFormat Text(std::string_view text) {
  return {.kind = Kind::kText, .text = std::string(text)};
}

// The format behind thoughts, which the model may leave out unless the prompt has begun them.
ResponseFormat BehindThoughts(ResponseFormat format, bool in_thoughts) {
  const std::string_view end = chat::kThoughtsEnd;
  const ResponseFormat space{.kind = Kind::kRegex, .text = "[ \\n]{0,4}"};
  ResponseFormat thoughts{
      .kind = Kind::kSequence,
      .parts = {{.kind = Kind::kTextWithout, .text = std::string(end)}, Text(end), space}};
  if (!in_thoughts) {
    thoughts.parts.insert(thoughts.parts.begin(), Text(chat::kThoughtsBegin));
    thoughts = {.kind = Kind::kRepeat, .parts = {std::move(thoughts)}, .least = 0, .most = 1};
  }
  return {.kind = Kind::kSequence, .parts = {std::move(thoughts), std::move(format)}};
}

// Whether a text of the grammar has a byte.
bool HasText(const Grammar& grammar) {
  Matcher matcher(grammar);
  for (const Matcher::Item& item : matcher.items()) {
    if (!grammar.Edges(item.node).empty()) return true;
  }
  return false;
}

// The error of a format that cannot be compiled behind thoughts. It names the client's own fields.
absl::Status WithoutThoughts(const ResponseFormat& format, const absl::Status& behind_thoughts) {
  const absl::StatusOr<Grammar> alone = Compile(format);
  return alone.ok() ? InvalidFormat("after_thoughts: ", behind_thoughts.message()) : alone.status();
}

absl::StatusOr<std::shared_ptr<const TokenMasks>> CompileFor(const ServedModel& model,
                                                             const ResponseFormat& format,
                                                             bool after_thoughts,
                                                             bool in_thoughts) {
  const bool thinks = after_thoughts && model.chat().ok() && chat::MarksThoughts(*model.chat());
  if (!thinks) return model.formats().Get(format);
  auto masks = model.formats().Get(BehindThoughts(format, in_thoughts));
  if (!absl::IsInvalidArgument(masks.status())) return masks;
  return WithoutThoughts(format, masks.status());
}

}  // namespace

absl::StatusOr<ResponseFormat> ReadFormat(const v1::ResponseFormat& format) {
  return FormatReader().Read(format, "response_format", 1);
}

absl::Status SetFormat(const v1::ResponseFormat& format, const ServedModel& model,
                       TurnRequest* turn) {
  const absl::StatusOr<ResponseFormat> read = ReadFormat(format);
  if (!read.ok()) return read.status();
  if (turn->stop.min_tokens > 0) {
    return InvalidFormat(
        "stop.min_tokens: expected 0 with a response_format, which decides where the answer may "
        "end; found ",
        turn->stop.min_tokens);
  }
  if (!model.backend().plugin().Can(LS_CAP_ALLOWED_TOKENS)) {
    return absl::FailedPreconditionError(
        absl::StrCat("response_format: the model's backend, ", model.backend().plugin().name(),
                     ", cannot restrict tokens (Model.capabilities has no \"allowed_tokens\")"));
  }
  absl::StatusOr<std::shared_ptr<const TokenMasks>> masks =
      CompileFor(model, *read, format.after_thoughts(), turn->in_thoughts);
  if (absl::IsInvalidArgument(masks.status())) {
    return InvalidFormat("response_format.", masks.status().message());
  }
  if (!masks.ok()) return masks.status();
  if (!HasText((*masks)->grammar())) {
    return InvalidFormat("response_format: only the empty text has this format");
  }
  turn->format = *std::move(masks);
  return absl::OkStatus();
}

}  // namespace longstream
