// Applies the turns of a session's history, one after the other.
#include "service/serving/log/restore.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace longstream {
namespace {

using Path = std::vector<LoggedTurn>;  // from the first turn to the last

absl::StatusOr<Path> ReadPath(store::SessionStore* store, store::TurnNumber head) {
  Path path;
  if (head == store::kNoTurn) return path;
  absl::Status status;
  absl::Status visited = store->VisitPath(head, [&](const store::TurnRow& found) {
    absl::StatusOr<LoggedTurn> turn = DecodeTurn(found);
    status = turn.status();
    if (!turn.ok()) return false;
    turn->result.answer = nullptr;  // the state does not need it
    path.push_back(*std::move(turn));
    return true;
  });
  if (!visited.ok()) return visited;
  if (!status.ok()) return status;
  std::reverse(path.begin(), path.end());
  return path;
}

// The position at which each turn of the path is cut; its end if it is not. A turn that began
// behind the cut was there before it.
std::vector<uint64_t> EndsOf(const Path& path, const LoggedProperties& properties) {
  std::vector<uint64_t> ends;
  for (size_t i = 0; i < path.size(); ++i) {
    const std::optional<uint64_t> cut = properties.CutOf(path[i].row.number);
    const bool applies = cut.has_value() && *cut > 0 && *cut < path[i].row.position &&
                         (i + 1 == path.size() || path[i + 1].start.start_position <= *cut);
    ends.push_back(applies ? *cut : path[i].row.position);
  }
  return ends;
}

// Reads the path to a turn that the session's present history may not have.
absl::StatusOr<Path> ReadPathTo(store::SessionStore* store, const store::SessionRow& row,
                                const SessionId& id) {
  const absl::StatusOr<store::TurnRow> own = store->Turn(row.key, id);
  if (!own.ok() && !absl::IsNotFound(own.status())) return own.status();
  if (own.ok()) {
    const std::string name = absl::StrCat("turn_id: turn ", id.ToString());
    if (own->state == store::TurnState::kCollected) {
      return absl::NotFoundError(absl::StrCat(
          name, " has been collected, sessions.keep_rewound after the session left it"));
    }
    if (own->state != store::TurnState::kCommitted) {
      return absl::FailedPreconditionError(absl::StrCat(name, " is not committed"));
    }
    return ReadPath(store, own->number);
  }
  // A fork has the turns of its source.
  absl::StatusOr<Path> path = ReadPath(store, row.head);
  if (!path.ok()) return path;
  while (!path->empty() && path->back().row.id != id) path->pop_back();
  if (!path->empty()) return path;
  return absl::NotFoundError(
      absl::StrCat("turn_id: no turn ", id.ToString(), " in session ", row.key.id.ToString()));
}

// The turns up to a place.
absl::StatusOr<TurnsOfHistory> ReadPathToPlace(store::SessionStore* store,
                                               const store::SessionRow& row,
                                               const LoggedProperties& properties,
                                               const Place& place) {
  absl::StatusOr<Path> path =
      place.turn.has_value() ? ReadPathTo(store, row, *place.turn) : ReadPath(store, row.head);
  if (!path.ok()) return path.status();
  TurnsOfHistory found{*std::move(path), {}};
  found.ends = EndsOf(found.turns, properties);
  if (place.turn.has_value()) found.ends.back() = found.turns.back().row.position;
  if (!place.position.has_value()) return found;
  std::vector<TurnRange> ranges;
  ranges.reserve(found.turns.size());
  for (size_t i = 0; i < found.turns.size(); ++i) {
    ranges.push_back({found.turns[i].start.start_position, found.ends[i]});
  }
  const absl::StatusOr<PartOfHistory> part = FindPosition(ranges, *place.position);
  if (!part.ok()) return part.status();
  found.turns.erase(found.turns.begin() + static_cast<std::ptrdiff_t>(part->num_turns),
                    found.turns.end());
  found.ends.resize(part->num_turns);
  if (part->num_turns > 0) found.ends.back() = part->position;
  return found;
}

// Why the model must read the history anew; empty if its caches are those of `last`, the last turn.
absl::StatusOr<std::string> CheckModel(const RestoreOptions& options, const store::SessionRow& row,
                                       const LoggedProperties& properties, const LoggedTurn& last,
                                       const ModelIdentity& model) {
  const ModelIdentity& turn = last.start.model;
  if (turn.HasCachesOf(model)) return "";
  const bool same_tokenizer = turn.tokenizer == model.tokenizer;
  if (same_tokenizer) {
    if (properties.model.has_value() && properties.model->HasCachesOf(model)) {
      return properties.has_moved ? kMovedToVersion : "the session was forked onto another model";
    }
    // The version on which the session would have gone on.
    const bool is_at_change =
        properties.model.has_value() && properties.model_head == last.row.number;
    const ModelIdentity& version = is_at_change ? *properties.model : turn;
    if (options.moves && options.moves(row.model, version)) return kMovedToVersion;
    if (options.on_model_change == OnModelChange::kRecompute) {
      return "the weights or the caches of the model have changed";
    }
  }
  return absl::FailedPreconditionError(absl::StrFormat(
      "session_id: session %s was computed by a model %s with the fingerprint %016x; the present "
      "one has another %s, fingerprint %016x%s",
      row.key.id.ToString(), row.model, turn.fingerprint,
      same_tokenizer ? "weights or caches" : "tokenizer", model.fingerprint,
      same_tokenizer ? " (see sessions.on_model_change)" : ""));
}

void ApplyTokens(const LoggedTurn& turn, uint32_t grid, SessionState* state) {
  const LoggedResult& result = turn.result;
  state->tokens.resize(turn.start.start_position);
  state->generated.resize(turn.start.start_position);
  state->tokens.insert(state->tokens.end(), result.tokens.begin(), result.tokens.end());
  state->generated.resize(turn.start.start_position + result.prompt_tokens, false);
  state->generated.resize(state->tokens.size(), true);
  state->feed.Truncate(result.feed_begin);
  for (const FeedRun& run : result.feed) state->feed.Add(run.end, run.is_decode, grid);
  state->tail = result.tail;
}

// Applies a turn that ends at `end`.
absl::Status Apply(const LoggedTurn& turn, uint64_t end, const RestoreOptions& options,
                   const ServedModel& model, SessionState* state) {
  TurnOfHistory of_history;
  of_history.start = turn.start.start_position;
  of_history.prompt_end = of_history.start + turn.result.prompt_tokens;
  of_history.position = turn.row.position;
  of_history.has_messages = turn.start.messages.has_value();
  of_history.before = state->tail;
  of_history.tail = turn.result.tail;
  if (of_history.has_messages) {
    absl::StatusOr<std::shared_ptr<const chat::History>> conversation =
        options.render(*turn.start.messages, *state, model, options.host_memory);
    if (!conversation.ok()) return conversation.status();
    // If the template has changed since, the text fits the tokens no more. Then they are tokens
    // without a conversation.
    const bool fits = (*conversation)->position == of_history.prompt_end;
    state->conversation = fits ? *std::move(conversation) : nullptr;
  } else if (state->conversation != nullptr &&
             turn.start.start_position < state->conversation->position) {
    // The turn has replaced tokens of the conversation and left none.
    state->conversation = nullptr;
  }
  ApplyTokens(turn, model.backend().info().prefill_grid, state);
  if (end == turn.row.position) return absl::OkStatus();
  of_history.conversation = state->conversation;
  CutState(of_history, end, model, state);
  return absl::OkStatus();
}

// A turn must begin within the turn before it.
absl::Status CheckStarts(const Path& path) {
  uint64_t end = 0;
  for (const LoggedTurn& turn : path) {
    if (turn.start.start_position > end) {
      return absl::DataLossError(absl::StrCat("store: turn ", turn.row.number, " begins at ",
                                              turn.start.start_position,
                                              " after a turn that ended at ", end));
    }
    end = turn.row.position;
  }
  return absl::OkStatus();
}

absl::StatusOr<RestoredSession> ApplyAll(const RestoreOptions& options,
                                         const store::SessionRow& row,
                                         const LoggedProperties& properties, const Path& path,
                                         const std::vector<uint64_t>& ends,
                                         const ServedModel& model) {
  RestoredSession session;
  session.properties = properties;
  session.properties.cuts.clear();
  session.state.recompute = properties.recompute;
  if (path.empty()) return session;
  if (absl::Status status = CheckStarts(path); !status.ok()) return status;
  absl::StatusOr<std::string> read_anew =
      CheckModel(options, row, properties, path.back(), ModelIdentity::Of(model));
  if (!read_anew.ok()) return read_anew.status();
  session.read_anew = *std::move(read_anew);
  for (size_t i = 0; i < path.size(); ++i) {
    absl::Status status = Apply(path[i], ends[i], options, model, &session.state);
    if (!status.ok()) return status;
    if (ends[i] < path[i].row.position) {
      session.properties.cuts.push_back({path[i].row.number, ends[i]});
    }
  }
  session.head = path.back().row.number;
  session.head_id = path.back().row.id;
  session.lowest_rewind = std::min(path.back().result.lowest_rewind, session.state.feed.end());
  if (!session.read_anew.empty()) {
    session.state.feed.Truncate(0);
    session.lowest_rewind = 0;
  }
  return session;
}

}  // namespace

absl::StatusOr<LoggedTurn> DecodeTurn(store::TurnRow row) {
  LoggedTurn turn;
  absl::StatusOr<LoggedStart> start = DecodeStart(row.request);
  if (!start.ok()) return start.status();
  turn.start = *std::move(start);
  absl::StatusOr<LoggedResult> result = DecodeResult(row.result, turn.start, row.position);
  if (!result.ok()) return result.status();
  turn.result = *std::move(result);
  row.request.clear();
  row.result.clear();
  turn.row = std::move(row);
  return turn;
}

absl::StatusOr<TurnsOfHistory> ReadTurnsOfHistory(store::SessionStore* store,
                                                  const store::SessionRow& row,
                                                  const LoggedProperties& properties) {
  absl::StatusOr<TurnsOfHistory> history = ReadPathToPlace(store, row, properties, Place());
  if (!history.ok()) return history;
  if (absl::Status status = CheckStarts(history->turns); !status.ok()) return status;
  return history;
}

absl::StatusOr<RestoredSession> RestoreTurns(const RestoreOptions& options,
                                             const store::SessionRow& row,
                                             const LoggedProperties& properties,
                                             const std::vector<LoggedTurn>& turns,
                                             const ServedModel& model) {
  return ApplyAll(options, row, properties, turns, EndsOf(turns, properties), model);
}

absl::StatusOr<RestoredSession> RestoreSession(const RestoreOptions& options,
                                               const store::SessionRow& row,
                                               const LoggedProperties& properties,
                                               const ServedModel& model, const Place& place) {
  absl::StatusOr<TurnsOfHistory> found = ReadPathToPlace(options.store, row, properties, place);
  if (!found.ok()) return found.status();
  return ApplyAll(options, row, properties, found->turns, found->ends, model);
}

}  // namespace longstream
