// A chat template: writes a conversation's messages as the text that the model was trained to read.
//
// The language is Jinja with the settings of Hugging Face's transformers (trim_blocks,
// lstrip_blocks, loop controls, tojson, raise_exception, strftime_now, the sandbox). Only the
// constructs that chat templates use are supported; docs/chat.md lists them. Any other construct of
// Jinja gives an error that names the construct.
//
// A template does not change after Parse, so any number of threads may call its methods at the same
// time.
#ifndef LONGSTREAM_SERVICE_CHAT_CHAT_TEMPLATE_H_
#define LONGSTREAM_SERVICE_CHAT_CHAT_TEMPLATE_H_

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "service/jinja/values/meter.h"
#include "service/jinja/values/text.h"
#include "service/jinja/values/value.h"

namespace longstream::chat {

struct RenderOptions {
  RenderLimits limits;
  std::tm now = {};  // the time that strftime_now formats
};

// Returns the current local time, which strftime_now formats by default.
std::tm LocalTime();

class ChatTemplate {
 public:
  // Error messages call the template `name`, which is usually its file. INVALID_ARGUMENT: the
  // source is not a valid template, is not UTF-8, or is longer than 1 MiB. UNIMPLEMENTED: the
  // source uses a construct that we do not support. The message of a syntax error gives the line
  // and the column.
  static absl::StatusOr<ChatTemplate> Parse(std::string name, std::string source);

  // Renders the template with the variables. INVALID_ARGUMENT: the template refuses the variables
  // (raise_exception), applies an impossible operation to them, or exceeds a limit. UNIMPLEMENTED:
  // the template uses a construct that we do not support. The message gives the line and the
  // column.
  absl::StatusOr<Text> Render(const Dict& variables, const RenderOptions& options) const;

  const std::string& name() const { return name_; }
  const std::string& source() const { return source_; }

 private:
  ChatTemplate() = default;

  std::string name_;
  std::string source_;
  std::shared_ptr<const std::vector<std::unique_ptr<Statement>>> body_;  // shared by copies
};

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_CHAT_CHAT_TEMPLATE_H_
