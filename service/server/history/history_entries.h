// The history of a session as its readers get it: messages, prompts and answers, in pages.
#ifndef LONGSTREAM_SERVICE_SERVER_HISTORY_HISTORY_ENTRIES_H_
#define LONGSTREAM_SERVICE_SERVER_HISTORY_HISTORY_ENTRIES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "longstream/v1/longstream.pb.h"
#include "service/serving/log/session_history.h"

namespace longstream {

// The entries of the turns, from the first to the last. A turn without messages has a prompt. A
// turn that brings the whole conversation adds what is new in it, and replaces what differs. An
// empty text has no entry. DATA_LOSS: the messages of a turn are damaged.
absl::StatusOr<std::vector<v1::HistoryEntry>> EntriesOf(const std::vector<TurnText>& turns,
                                                        const ServedModel& model);

// Where a page begins.
struct HistoryPlace {
  size_t entry = 0;
  size_t byte = 0;  // of its text

  // The text of the place, as a client gets it and sends it back. Empty: the first page.
  // INVALID_ARGUMENT: it is no place.
  static absl::StatusOr<HistoryPlace> Parse(const std::string& token);
  std::string ToString() const;
};

// The page that begins there. Texts are cut between characters, so that the texts and messages of a
// page have at most `most_bytes`; a larger message has a page of its own. INVALID_ARGUMENT: there
// is no such place.
absl::StatusOr<v1::ReadHistoryResponse> PageOf(const std::vector<v1::HistoryEntry>& entries,
                                               const HistoryPlace& begin, size_t most_bytes);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_HISTORY_HISTORY_ENTRIES_H_
