// The histories of sessions, which are read where they are.
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/serving/session_manager.h"

namespace longstream {
namespace {

// Keeps the engine alive.
std::shared_ptr<const ServedModel> ModelOf(std::shared_ptr<Engine> engine) {
  const ServedModel* const model = &engine->model();
  return {std::move(engine), model};
}

}  // namespace

absl::StatusOr<store::SessionRow> SessionManager::RowOf(const SessionKey& key) const {
  if (IsClosing(key)) return ended_.Explain(key);
  absl::StatusOr<store::SessionRow> row = options_.store->Session(key);
  if (absl::IsNotFound(row.status())) return ended_.Explain(key);
  return row;
}

absl::StatusOr<SessionHistory> SessionManager::ReadHistory(const SessionKey& key) const {
  SessionHistory history;
  const absl::StatusOr<ServedSession> served = FindServed(key);
  if (served.ok() && !served->turns->durable()) {
    history.version = served->turns->version();
    const absl::StatusOr<std::vector<int32_t>> tokens = served->session->CopyTokens();
    if (!tokens.ok()) return tokens.status();
    const SessionTurns::Head head = served->turns->head();
    if (head.position != tokens->size() || served->turns->version() != history.version) {
      return absl::AbortedError(absl::StrCat("session_id: the history of session ",
                                             key.id.ToString(), " has changed; ask again"));
    }
    history.turns = TurnsInMemory(head.history, *tokens);
    history.model = ModelOf(served->engine);
    return history;
  }
  if (options_.store == nullptr) return served.status();
  // The store has what is committed, also of a session that is in memory, here or elsewhere.
  const absl::StatusOr<store::SessionRow> row = RowOf(key);
  if (!row.ok()) return row.status();
  absl::StatusOr<std::shared_ptr<Engine>> engine = models_->Find(row->model);
  if (!engine.ok()) return NotServed(*row, engine.status());
  history.model = ModelOf(*std::move(engine));
  absl::StatusOr<std::vector<TurnText>> turns =
      TurnsInStore(options_.store, *row, history.model->tokenizer().fingerprint());
  if (!turns.ok()) return turns.status();
  history.turns = *std::move(turns);
  history.version = static_cast<uint64_t>(row->version);
  return history;
}

}  // namespace longstream
