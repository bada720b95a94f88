// The request that makes a session.
#ifndef LONGSTREAM_SERVICE_SERVING_SESSION_MAKING_H_
#define LONGSTREAM_SERVICE_SERVING_SESSION_MAKING_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/routing/route_choice.h"
#include "service/serving/aliases/alias_table.h"
#include "service/serving/log/turn_codec.h"
#include "service/sessions/session.h"
#include "service/sessions/session_id.h"

namespace longstream {

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

// Answers with `why` if the id of the call is in use by another one.
inline std::function<void(absl::StatusOr<SessionView>)> UnlessInUse(
    absl::Status why, std::function<void(absl::StatusOr<SessionView>)> opened) {
  return [why = std::move(why), opened = std::move(opened)](absl::StatusOr<SessionView> session) {
    absl::IsAlreadyExists(session.status()) ? opened(why) : opened(std::move(session));
  };
}

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_SESSION_MAKING_H_
