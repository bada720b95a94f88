// The responses of this gateway, and those that other gateways have noted.
#ifndef LONGSTREAM_GATEWAY_RESPONSES_STORED_RESPONSES_H_
#define LONGSTREAM_GATEWAY_RESPONSES_STORED_RESPONSES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/synchronization/mutex.h"
#include "client/connection.h"
#include "gateway/notes/response_notes.h"
#include "gateway/responses/response_log.h"
#include "longstream/v1/longstream.pb.h"

namespace longstream::gateway {

// The response that another one goes on behind.
struct PreviousResponse {
  std::string id;  // empty: there is none
  NotePlace note;
};

// Without notes, responses live in memory. With notes, each response that has ended has one in its
// session, if it is not too large, and the note decides whether the response exists: its client may
// have deleted it at another gateway.
//
// Thread-safe. Calls that are given a connection make calls to the server and throw
// client::CallError.
class StoredResponses {
 public:
  struct Options {
    ResponseLog::Limits limits;
    bool has_notes = false;
    // A conversation that is read from notes may have so many bytes.
    uint64_t most_bytes = uint64_t{32} << 20;
  };
  explicit StoredResponses(const Options& options) : options_(options), log_(options.limits) {}

  // Those in memory.
  ResponseLog& log() { return log_; }

  // Absent: the owner has no such response. One that another gateway makes is running, and has no
  // conversation. `with_conversation`: the conversation is needed, too;
  // absent also if a part of it is gone. Throws BadRequest if it is too long.
  std::optional<ResponseLog::Stored> Find(client::Connection& connection, const std::string& id,
                                          const std::string& owner, bool with_conversation)
      ABSL_LOCKS_EXCLUDED(reading_);
  // Cancels the response if it is running, also at another gateway. False: there is none.
  bool Remove(client::Connection& connection, const std::string& id, const std::string& owner);

  // Whether its client has deleted the response at another gateway.
  bool WasDeleted(client::Connection& connection, const std::string& id,
                  const std::string& owner) const;

  struct Made {
    v1::Note note;
    NotePlace place;
  };
  // The note of a response that has ended, for this session. `conversation`: with the answer; what
  // it has got since `previous` are its last two parts. Absent: responses have no notes, or it
  // would be too large.
  std::optional<Made> NoteOf(const std::string& id, const std::string& owner,
                             const PreviousResponse& previous, const Conversation& conversation,
                             const std::string& json, const std::string& session_id) const;

  // The note of a response that is being made. `json`: as it is now. Absent: as for NoteOf.
  std::optional<v1::Note> NoteOfBegun(const std::string& id, const std::string& owner,
                                      const std::string& json, notes::Begun begun) const;
  // The note of a response that has failed.
  static v1::Note NoteOfFailed(const std::string& id, const std::string& owner,
                               const std::string& json);

 private:
  // The conversation up to the answer of a response. Null: a part of it is gone.
  Conversation::Ptr Read(client::Connection& connection, const notes::Response& last,
                         const std::string& owner) const;

  const Options options_;
  ResponseLog log_;
  // One conversation at a time is read from notes: it takes memory that nobody has counted yet.
  absl::Mutex reading_;
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_RESPONSES_STORED_RESPONSES_H_
