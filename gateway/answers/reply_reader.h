// Splits the text that a model generates into thoughts, text for the client, and calls of
// functions.
#ifndef LONGSTREAM_GATEWAY_ANSWERS_REPLY_READER_H_
#define LONGSTREAM_GATEWAY_ANSWERS_REPLY_READER_H_

#include <string>
#include <string_view>
#include <vector>

#include "gateway/answers/thought_reader.h"
#include "gateway/json/json_object.h"
#include "longstream/v1/longstream.pb.h"

namespace longstream::gateway {

// A call of a function that the model asks for.
struct ToolCall {
  std::string id;
  std::string name;
  Json arguments;  // an object
};

// A whole reply, or a piece of one.
struct Reply {
  std::string text;
  std::vector<ToolCall> calls;
  std::string thoughts = {};  // before the text

  bool empty() const { return text.empty() && calls.empty() && thoughts.empty(); }
};

// Models that were trained as Hermes and Qwen write a call as
//   <tool_call>
//   {"name": "f", "arguments": {...}}
//   </tool_call>
// and may write text around it. Llama's reply is one call as bare JSON ("parameters" in the place
// of "arguments"), and Mistral's is an array of calls; nothing else is in the reply then. All that
// is no such call stays text. Thoughts have no calls. Not thread-safe.
class ReplyReader {
 public:
  // `with_calls`: whether the request has functions. Otherwise everything is text.
  explicit ReplyReader(bool with_calls) : with_calls_(with_calls) {}

  // The model writes thoughts, between these marks. Call it before any text; otherwise thoughts
  // stay in the text.
  void SeparateThoughts(const v1::Thoughts& marks) { thoughts_.Begin(marks); }
  // The last text ended within thoughts.
  bool in_thoughts() const { return thoughts_.in_thoughts(); }

  // The next text of the model. Returns what is certain now; the rest waits for more text.
  Reply Add(std::string_view text);
  // The text has ended.
  Reply End();

  // Everything so far.
  const Reply& reply() const { return reply_; }

 private:
  // Adds text that has no thoughts.
  void AddText(std::string_view text, Reply* piece);
  // Returns whether the reply may still be bare JSON.
  bool MayBeBare() const;
  void ReadBlocks(Reply* piece);
  void TakeText(size_t size, Reply* piece);
  // Returns false if more text is needed.
  bool TakeBlock(bool at_end, Reply* piece);
  void Remember(const Reply& piece);

  const bool with_calls_;
  ThoughtReader thoughts_;
  std::string held_;     // what is not certain yet
  bool is_bare_ = true;  // the reply may be bare JSON
  Reply reply_;
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_ANSWERS_REPLY_READER_H_
