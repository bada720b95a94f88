// A chat template: writes a conversation's messages as the text that the model was trained to read.
//
// Jinja as Hugging Face's transformers sets it up (trim_blocks, lstrip_blocks, loop controls,
// tojson, raise_exception, strftime_now, the sandbox), as far as chat templates use it;
// docs/chat.md has the list. Any other construct of Jinja is an error that names it.
//
// A template does not change after Parse: every method may be called from any number of threads.
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
  std::tm now = {};  // the time for strftime_now
};

// The default time for strftime_now.
std::tm LocalTime();

class ChatTemplate {
 public:
  // `name` is for error messages: the file. INVALID_ARGUMENT: the source is no template, not UTF-8
  // or longer than 1 MiB. UNIMPLEMENTED: it uses a construct that we do not support. Both with line
  // and column.
  static absl::StatusOr<ChatTemplate> Parse(std::string name, std::string source);

  // The text for the variables. INVALID_ARGUMENT: the template refuses them (raise_exception),
  // applies an impossible operation to them, or exceeds a limit. UNIMPLEMENTED: it uses something
  // that we do not support. Both with line and column.
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
