// The request that makes a session.
#ifndef LONGSTREAM_SERVICE_SERVING_SESSION_MAKING_H_
#define LONGSTREAM_SERVICE_SERVING_SESSION_MAKING_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/engine/engine.h"
#include "service/routing/route_choice.h"
#include "service/serving/aliases/alias_table.h"
#include "service/serving/log/turn_codec.h"
#include "service/serving/turns/session_turns.h"
#include "service/sessions/session.h"
#include "service/sessions/session_id.h"
#include "service/sessions/session_state.h"
#include "service/sessions/turn_lease.h"

namespace longstream {

// How long a session lives: kMemory, as long as the process at most; kTurn, each committed turn is
// in the store. kDefault: kTurn if there is a store.
enum class Durability { kDefault, kTurn, kMemory };

// The choices of a client for a new session, besides its model, its id and its idle timeout.
struct SessionTerms {
  Recompute recompute = Recompute::kExact;
  Durability durability = Durability::kDefault;
  RouteAsk ask{};                                    // for the route of an alias
  std::optional<absl::Duration> ttl = std::nullopt;  // absent: the server's; only with a store
};

struct SessionMaking {
  SessionMaking(std::string of_tenant, std::optional<SessionId> wanted_id, const char* field,
                std::optional<absl::Duration> timeout)
      : tenant(std::move(of_tenant)),
        id(wanted_id),
        new_id(wanted_id.has_value() ? *wanted_id : SessionId::Random()),
        id_field(field),
        idle_timeout(timeout) {}

  std::string tenant;
  std::optional<SessionId> id;
  SessionId new_id;  // `id`, or one that was drawn
  const char* id_field;
  std::optional<absl::Duration> idle_timeout;
  std::optional<absl::Duration> ttl;  // that the client has named
  // The session comes by the alias that has chosen its model. nullopt: by `otherwise`.
  void ComeBy(const std::optional<AliasTable::Chosen>& chosen, const std::string& otherwise = "") {
    alias = chosen.has_value() ? chosen->alias : otherwise;
    if (chosen.has_value()) routing = chosen->routing;
  }

  std::string alias;                             // empty: the request names a model
  std::shared_ptr<const RouteDecision> routing;  // nullptr: no route has chosen the model
  std::string origin;                            // equal for equal requests
  bool durable = false;
  std::optional<ModelIdentity> forked_onto;  // the model, if its source has another
  std::function<void()> again;               // makes the call once more
};

// A fork that is being made, as the state of its source at a place.
struct SessionForking {
  std::shared_ptr<TurnLease> source;
  std::shared_ptr<TurnLease> target;
  SessionTurns::PlaceFound at;
  bool is_whole = false;           // the fork is the source as it is
  std::shared_ptr<Engine> engine;  // of the fork
  bool has_other_model = false;
};

// A session that is being closed in the store.
struct SessionClosing {
  int count = 0;                               // the objects of SessionManager::Closing
  std::vector<std::function<void()>> waiting;  // the calls that wait for its end
};

// Answers with `why` if the id of the call is in use by another one.
inline std::function<void(absl::StatusOr<SessionView>)> UnlessInUse(
    absl::Status why, std::function<void(absl::StatusOr<SessionView>)> opened) {
  return [why = std::move(why), opened = std::move(opened)](absl::StatusOr<SessionView> session) {
    absl::IsAlreadyExists(session.status()) ? opened(why) : opened(std::move(session));
  };
}

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_SESSION_MAKING_H_
