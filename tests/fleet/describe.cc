#include "tests/fleet/describe.h"

#include <array>
#include <optional>
#include <variant>

#include "absl/strings/str_cat.h"

namespace longstream::fleet {

namespace {

template <size_t N>
std::string Name(const std::array<const char*, N>& names, size_t index) {
  return index < N ? names.at(index) : "?";
}

std::string Of(const SessionKey& key) { return absl::StrCat("session ", key.id.low); }
std::string Of(const TurnId& turn) { return absl::StrCat("turn ", turn.low); }

std::string Of(const Transaction& made) {
  static constexpr std::array<const char*, 7> kNames = {"claim",   "transfer", "start", "commit",
                                                        "abandon", "change",   "close"};
  return absl::StrCat(Name(kNames, static_cast<size_t>(made.kind)), " ", Of(made.fence.key),
                      " at epoch ", made.fence.epoch, " version ", made.fence.version,
                      made.turn == TurnId{} ? "" : absl::StrCat(" ", Of(made.turn)));
}

std::string Of(const std::optional<OwnedRow>& row) {
  if (!row.has_value()) return "the store cannot be read";
  if (!row->open) return "no such session";
  static constexpr std::array<const char*, 5> kStates = {"?", "started", "committed", "abandoned",
                                                         "collected"};
  return absl::StrCat(
      "owner ", row->owner, row->owner_lives ? " lives" : " does not live", ", epoch ", row->epoch,
      " version ", row->version, row->claims_allowed ? "" : ", no claims now", ", the turn is ",
      row->turn.has_value() ? Name(kStates, static_cast<size_t>(*row->turn)) : "not there");
}

struct MessageWords {
  std::string operator()(const Fetch& m) const {
    return absl::StrCat("Fetch ", Of(m.session), " #", m.request, " epoch ", m.epoch, " for ",
                        Of(m.turn));
  }
  std::string operator()(const Given& m) const {
    return absl::StrCat("Given ", Of(m.session), " #", m.request, " epoch ", m.epoch, " version ",
                        m.version, m.has_caches ? " with caches" : "");
  }
  std::string operator()(const Refused& m) const {
    static constexpr std::array<const char*, 5> kNames = {"not mine", "running", "busy", "not yet",
                                                          "not taken"};
    return absl::StrCat("Refused ", Of(m.session), " #", m.request, ": ",
                        Name(kNames, static_cast<size_t>(m.why)));
  }
  std::string operator()(const Offer& m) const {
    return absl::StrCat("Offer ", Of(m.session), " #", m.request, " epoch ", m.epoch, " version ",
                        m.version, m.has_caches ? " with caches" : "");
  }
  std::string operator()(const Moved& m) const {
    return absl::StrCat("Moved ", Of(m.session), " epoch ", m.epoch, m.closed ? ", closed" : "");
  }
  std::string operator()(const Attach& m) const {
    return absl::StrCat("Attach ", Of(m.session), " ", Of(m.turn), " #", m.relay);
  }
  std::string operator()(const Attached& m) const {
    static constexpr std::array<const char*, 3> kNames = {"committed", "lost", "not running"};
    return absl::StrCat("Attached ", Of(m.session), " #", m.relay, ": ",
                        Name(kNames, static_cast<size_t>(m.end)));
  }
};

struct EventWords {
  std::string operator()(const TurnArrives& e) const {
    return absl::StrCat("call ", e.call, " arrives: ", Of(e.session), " ", Of(e.turn));
  }
  std::string operator()(const ChangeArrives& e) const {
    return absl::StrCat("call ", e.call, " arrives: change ", Of(e.session));
  }
  std::string operator()(const CloseArrives& e) const {
    return absl::StrCat("call ", e.call, " arrives: close ", Of(e.session));
  }
  std::string operator()(const SessionOpened& e) const {
    return absl::StrCat("opened ", Of(e.session));
  }
  std::string operator()(const RowRead& e) const {
    return absl::StrCat("#", e.operation, " row of ", Of(e.session), ": ", Of(e.row));
  }
  std::string operator()(const Transacted& e) const {
    return absl::StrCat("#", e.operation, " transaction on ", Of(e.session), ": ",
                        Describe(e.outcome));
  }
  std::string operator()(const Withdrawn& e) const {
    return absl::StrCat("#", e.operation, " request for ", Of(e.session), " is withdrawn");
  }
  std::string operator()(const TurnRan& e) const {
    static constexpr std::array<const char*, 3> kNames = {" ran", " was cancelled", " failed"};
    return absl::StrCat("#", e.operation, " turn of ", Of(e.session),
                        Name(kNames, static_cast<size_t>(e.end)));
  }
  std::string operator()(const CachesArrived& e) const {
    return absl::StrCat("#", e.operation, " caches of ", Of(e.session),
                        e.complete ? " arrived" : " did not arrive");
  }
  std::string operator()(const MessageArrives& e) const {
    return absl::StrCat("from ", e.from, ": ", Describe(e.message));
  }
  std::string operator()(const TimerFired& e) const {
    return absl::StrCat("timer #", e.timer, " of ", Of(e.session));
  }
  std::string operator()(const RelayBroken& e) const {
    return absl::StrCat("relay #", e.relay, " is broken");
  }
  std::string operator()(const CopyEvicted& e) const {
    return absl::StrCat("copy of ", Of(e.session), " is evicted");
  }
  std::string operator()(const LeaseRenewed& e) const {
    return absl::StrCat("lease renewed, generation ", e.generation, e.lapsed ? ", had lapsed" : "");
  }
  std::string operator()(const LeaseOver& /*e*/) const { return "lease over"; }
  std::string operator()(const LeaseReplaced& /*e*/) const { return "lease replaced"; }
  std::string operator()(const PeersChanged& e) const {
    return absl::StrCat(e.peers.size(), " peers");
  }
  std::string operator()(const DrainBegins& /*e*/) const { return "drain begins"; }
  std::string operator()(const GraceOver& /*e*/) const { return "grace is over"; }
  std::string operator()(const DrainOver& /*e*/) const { return "drain is over"; }
};

struct ActionWords {
  std::string operator()(const ReadRow& a) const {
    return absl::StrCat("#", a.operation, " read the row of ", Of(a.session));
  }
  std::string operator()(const Transact& a) const {
    return absl::StrCat("#", a.operation, " ", Of(a.transaction));
  }
  std::string operator()(const Send& a) const {
    return absl::StrCat("to ", a.to, ": ", Describe(a.message));
  }
  std::string operator()(const SendCaches& a) const {
    return absl::StrCat("to ", a.to, ": caches of ", Of(a.session), " #", a.request);
  }
  std::string operator()(const ReceiveCaches& a) const {
    return absl::StrCat("#", a.operation, " receive caches of ", Of(a.session), " from ", a.from);
  }
  std::string operator()(const RunTurn& a) const {
    return absl::StrCat("#", a.operation, " run ", Of(a.session), " ", Of(a.turn),
                        a.restore ? ", restored" : "", a.resume ? ", resumed" : "");
  }
  std::string operator()(const StopTurn& a) const {
    return absl::StrCat("stop the turn of ", Of(a.session), ": ", Describe(a.why));
  }
  std::string operator()(const KeepCopy& a) const {
    return absl::StrCat("the copy of ", Of(a.to.key), " is at epoch ", a.to.epoch, " version ",
                        a.to.version);
  }
  std::string operator()(const AdvanceCopy& a) const {
    return absl::StrCat("advance the copy of ", Of(a.session));
  }
  std::string operator()(const DropCopy& a) const {
    return absl::StrCat("drop the copy of ", Of(a.session));
  }
  std::string operator()(const ShowTurn& a) const {
    return absl::StrCat("call ", a.call, " sees ", Of(a.turn));
  }
  std::string operator()(const EndCall& a) const {
    return absl::StrCat("call ", a.call, " ends: ", Describe(a.answer));
  }
  std::string operator()(const SetTimer& a) const {
    static constexpr std::array<const char*, 6> kNames = {"peer answer", "giving", "caches",
                                                          "commit",      "retry",  "residency"};
    return absl::StrCat("timer #", a.timer, " (", Name(kNames, static_cast<size_t>(a.kind)), ")");
  }
  std::string operator()(const Exit& a) const {
    return a.release_lease ? "exit, lease released" : "exit";
  }
};

}  // namespace

std::string Describe(const Event& event) { return std::visit(EventWords{}, event); }
std::string Describe(const Action& action) { return std::visit(ActionWords{}, action); }
std::string Describe(const PeerMessage& message) { return std::visit(MessageWords{}, message); }

std::string Describe(Outcome outcome) {
  static constexpr std::array<const char*, 8> kNames = {
      "made", "fenced", "turn exists", "not allowed", "full", "refused", "unavailable", "unknown"};
  return Name(kNames, static_cast<size_t>(outcome));
}

std::string Describe(Answer answer) {
  static constexpr std::array<const char*, 15> kNames = {
      "committed",        "replay",    "closed",       "ABORTED moved", "ABORTED busy",
      "ABORTED attached", "not now",   "commit waits", "full",          "refused",
      "not found",        "abandoned", "elsewhere",    "failed",        "cancelled"};
  return Name(kNames, static_cast<size_t>(answer));
}

}  // namespace longstream::fleet
