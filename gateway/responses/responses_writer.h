// The answers of POST /v1/responses.
#ifndef LONGSTREAM_GATEWAY_RESPONSES_RESPONSES_WRITER_H_
#define LONGSTREAM_GATEWAY_RESPONSES_RESPONSES_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "gateway/answers/answer_writer.h"

namespace longstream::gateway {

class ResponsesWriter final : public AnswerWriter {
 public:
  // `created`: seconds since 1970. `repeated`: members that repeat those of the request.
  ResponsesWriter(std::string id, int64_t created, std::string model, Json repeated)
      : id_(std::move(id)),
        created_(created),
        model_(std::move(model)),
        repeated_(std::move(repeated)) {}

  void NameModel(const std::string& model) override { model_ = model; }
  std::string Begin(const v1::TurnStarted& started) override;
  std::string Piece(const v1::Delta& delta, const Reply& piece) override;
  std::string End(const EndedTurn& turn, const Reply& last_piece) override;
  std::string Error(const HttpAnswer& error) override;
  Json Whole(const EndedTurn& turn) override;

  // The response. REQUIRES: Queue, End, Whole, Fail or Cancel was called.
  const Json& response() const { return response_; }
  // For a response in the background. Queue: the first events, before the turn begins.
  std::string Queue();
  Json InProgress() const { return Response("in_progress", Json::array()); }
  // The turn has failed, or was cancelled: returns the last events of the stream.
  std::string Fail(const HttpAnswer& error);
  std::string Cancel();

 private:
  // Adds an event to events_.
  void Write(Json data);
  std::string TakeEvents();
  // The response with this status. `output`: the items so far.
  Json Response(const char* status, Json output) const;
  // Sets response_ to the one that has ended.
  void EndResponse(const EndedTurn& turn);
  // The item of thoughts or of text that goes on.
  enum class Open { kNone, kThoughts, kText };

  // Thoughts, a text and each call are items, one after the other.
  void WriteItems(const Reply& piece);
  // More of an item, which begins if it is not open.
  void Continue(Open kind, const std::string& text);
  void BeginItem(Open kind);
  // Another gateway that goes on with the response gives its items the same ids.
  std::string NewItemId(const char* prefix);
  // The text is complete.
  void EndItem();
  void WriteCall(const ToolCall& call);

  const std::string id_;
  const int64_t created_;
  std::string model_;
  const Json repeated_;
  bool is_queued_ = false;
  uint64_t num_events_ = 0;      // that were written
  uint64_t num_items_ = 0;       // that have begun
  std::string events_;           // that were not returned yet
  Json output_ = Json::array();  // items that have ended
  Open open_ = Open::kNone;
  std::string item_id_;  // of the open item
  std::string text_;     // of the open item
  Json response_;
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_RESPONSES_RESPONSES_WRITER_H_
