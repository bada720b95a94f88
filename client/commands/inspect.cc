// The commands `longstream models` and `longstream sessions`.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/commands/commands.h"
#include "client/output.h"

namespace longstream::client {
namespace {

// Describes the layers of a model, such as "7 recurrent, 3 full (nope)".
std::string PlanOf(const v1::Model& model) {
  std::map<std::string, int> counts;
  for (const v1::Layer& layer : model.layers()) {
    ++counts[layer.kind() + " (" + layer.position() + ")"];
  }
  std::string plan;
  for (const auto& [kind, count] : counts) {
    plan += (plan.empty() ? "" : ", ") + std::to_string(count) + " " + kind;
  }
  return plan;
}

void PrintModels(const v1::ListModelsResponse& list) {
  std::printf("%-12s %-8s %-8s %-6s %-10s %10s %9s  %s\n", "NAME", "STATE", "BACKEND", "DEVICE",
              "KERNELS", "PARAMETERS", "CONTEXT", "LAYERS");
  for (const v1::Model& model : list.models()) {
    const std::string state = v1::ModelState_Name(model.state()).substr(12);
    std::printf("%-12s %-8s %-8s %-6s %-10s %10llu %9llu  %s\n", model.name().c_str(),
                state.c_str(), model.backend().c_str(), model.device().c_str(),
                model.kernels().c_str(), static_cast<unsigned long long>(model.parameters()),
                static_cast<unsigned long long>(model.context_limit()),
                model.error().empty() ? PlanOf(model).c_str() : model.error().c_str());
  }
  if (list.aliases().empty()) return;
  std::printf("\n%-12s %s\n", "ALIAS", "ARMS");
  for (const v1::Alias& alias : list.aliases()) {
    std::string arms;
    for (const v1::AliasArm& arm : alias.arms()) {
      if (!arms.empty()) arms += ' ';
      arms += arm.model();
      if (!alias.has_route()) arms += "=" + std::to_string(arm.weight());
    }
    if (alias.has_route()) arms.insert(0, "route ");
    std::printf("%-12s %s\n", alias.name().c_str(), arms.c_str());
  }
}

void Models(const Global& global, const std::string& name) {
  std::vector<std::string> loading;
  Connection connection = ConnectToLoaded(global, name, &loading);
  v1::ListModelsResponse list;
  if (name.empty()) {
    list = connection.ModelsAndAliases();
  } else {
    *list.add_models() = connection.Model(name);
  }
  global.json ? PrintJson(list) : PrintModels(list);
  if (loading.empty()) return;
  FlushOutput();
  std::string names;
  for (const std::string& model : loading) names += (names.empty() ? "" : ", ") + model;
  std::cerr << "longstream: not loaded within the time of --wait: " << names << "\n";
  throw ToldFailure{kNoServer};
}

struct SessionOptions {
  std::string model;
  std::string alias;
  std::string close;
  std::string fork;
};

// The options of `sessions turns`, `sessions cancel`, `sessions fork` and `sessions rewind`.
struct PlaceOptions {
  std::string session;
  std::string turn;
  std::optional<uint64_t> position;
  std::string model;
  std::string new_id;
  uint64_t expected_version = 0;
};

const char* NameOf(v1::TurnState state) {
  switch (state) {
    case v1::TURN_STATE_STARTED:
      return "started";
    case v1::TURN_STATE_COMMITTING:
      return "committing";
    case v1::TURN_STATE_COMMITTED:
      return "committed";
    default:
      return "abandoned";
  }
}

// Says that the session stands after this turn. After a rewind, the turns that it has left stay in
// the list.
std::string HeadMark(const v1::Session& session, const v1::Turn& turn) {
  if (turn.turn_id() != session.head_turn_id()) return "";
  const bool is_cut = session.position() < turn.position();
  return is_cut ? "  <- head, up to " + std::to_string(session.position()) : "  <- head";
}

void Turns(const Global& global, const PlaceOptions& options) {
  Connection connection = ConnectToSession(global, options.session);
  v1::ListTurnsResponse list;
  for (const v1::Turn& turn : connection.Turns(options.session)) *list.add_turns() = turn;
  if (global.json) return PrintJson(list);
  const v1::Session session = connection.Get(options.session);
  std::printf("%-32s  %-10s %10s %10s %10s %10s\n", "TURN", "STATE", "START", "PROMPT", "GENERATED",
              "POSITION");
  for (const v1::Turn& turn : list.turns()) {
    std::printf("%-32s  %-10s %10llu %10llu %10llu %10llu%s\n", turn.turn_id().c_str(),
                turn.running() ? "running" : NameOf(turn.state()),
                static_cast<unsigned long long>(turn.start_position()),
                static_cast<unsigned long long>(turn.prompt_tokens()),
                static_cast<unsigned long long>(turn.generated_tokens()),
                static_cast<unsigned long long>(turn.position()), HeadMark(session, turn).c_str());
  }
}

// Cancels the turn that the options name, or the one that runs: that of a program which is gone,
// for example, and which nobody else can end.
void Cancel(const Global& global, const PlaceOptions& options) {
  Connection connection = ConnectToSession(global, options.session);
  std::string id = options.turn;
  if (id.empty()) {
    // Only the replica that has the session knows whether a turn runs. Others know the last turn
    // that has started and not ended.
    const bool is_elsewhere = !connection.Get(options.session).owner().empty();
    const std::vector<v1::Turn> turns = connection.Turns(options.session);
    const auto running = std::find_if(turns.rbegin(), turns.rend(), [&](const v1::Turn& turn) {
      return turn.running() || (is_elsewhere && turn.state() == v1::TURN_STATE_STARTED);
    });
    if (running == turns.rend()) {
      throw std::runtime_error("session " + options.session + " runs no turn");
    }
    id = running->turn_id();
  }
  const v1::Turn turn = connection.CancelTurn(options.session, id);
  if (global.json) return PrintJson(turn);
  Print(turn.turn_id() + "  " + NameOf(turn.state()) + "\n");
}

void PrintSession(const Global& global, const v1::Session& session) {
  if (global.json) return PrintJson(session);
  Print(session.session_id() + "\n");
  std::fprintf(stderr, "position %llu, %llu tokens to compute again\n",
               static_cast<unsigned long long>(session.position()),
               static_cast<unsigned long long>(session.recompute_tokens()));
}

// The replica of a fleet that has the session; empty: the one that answers.
std::string ReplicaOf(const v1::Session& session) {
  return session.owner_ended() ? "none (" + session.owner() + " has ended)" : session.owner();
}

// "-": the session is on another replica of a fleet, which alone knows.
std::string BytesOf(const v1::Session& session, uint64_t bytes) {
  return session.owner().empty() ? HumanBytes(bytes) : "-";
}

std::string TurnOf(const v1::Session& session) {
  if (!session.owner().empty()) return "-";
  return session.turn_running() ? "running" : "idle";
}

std::string LifetimeOf(const v1::Session& session) {
  const auto text = [](const google::protobuf::Duration& time) {
    return absl::FormatDuration(absl::Seconds(time.seconds()) + absl::Nanoseconds(time.nanos()));
  };
  if (session.has_ttl()) return "ends after " + text(session.ttl()) + " without a turn";
  return "ends after " + text(session.idle_timeout()) + " without a turn, or with the server";
}

void ShowSession(const Global& global, const std::string& id) {
  const v1::Session session = ConnectToSession(global, id).Get(id);
  if (global.json) return PrintJson(session);
  const auto print = [](const char* name, const std::string& value) {
    std::printf("%-16s %s\n", name, value.c_str());
  };
  print("session", session.session_id());
  print("model", session.model());
  if (!session.alias().empty()) print("alias", session.alias());
  if (session.has_routing()) print("route", session.routing().text());
  print("position", std::to_string(session.position()));
  print("context limit", std::to_string(session.context_limit()));
  const bool is_here = session.owner().empty();
  if (!is_here) print("replica", ReplicaOf(session));
  print("turn", TurnOf(session));
  print("last turn", session.head_turn_id().empty() ? "none" : session.head_turn_id());
  const bool is_known = is_here || session.owner_ended();
  print("compute again",
        is_known ? std::to_string(session.recompute_tokens()) + " tokens" : std::string("-"));
  print("kv", BytesOf(session, session.bytes().kv()));
  print("window", BytesOf(session, session.bytes().window()));
  print("state", BytesOf(session, session.bytes().state()));
  print("host", BytesOf(session, session.bytes().host()));
  print("stored", session.durability() == v1::DURABILITY_TURN ? HumanBytes(session.stored_bytes())
                                                              : "no, it lives in memory");
  print("lifetime", LifetimeOf(session));
  if (!session.forked_from().empty()) print("forked from", session.forked_from());
}

// A request that names a session and a place in it.
template <typename Request>
Request RequestOf(const PlaceOptions& options) {
  Request request;
  request.set_session_id(options.session);
  if (!options.turn.empty()) request.set_turn_id(options.turn);
  if (options.position) request.set_position(*options.position);
  return request;
}

void Fork(const Global& global, const PlaceOptions& options) {
  auto request = RequestOf<v1::ForkSessionRequest>(options);
  request.set_new_session_id(options.new_id);
  request.set_model(options.model);
  PrintSession(global, ConnectToSession(global, options.session).Fork(request));
}

void Rewind(const Global& global, const PlaceOptions& options) {
  auto request = RequestOf<v1::RewindSessionRequest>(options);
  request.set_expected_version(options.expected_version);
  PrintSession(global, ConnectToSession(global, options.session).Rewind(request));
}

// Adds a subcommand with the options that name a place. `place_is_needed`: one of them must be
// given.
CLI::App* AddPlace(CLI::App* sessions, const std::string& name, const std::string& description,
                   PlaceOptions* options, bool place_is_needed) {
  CLI::App* command = sessions->add_subcommand(name, description);
  command->add_option("session", options->session, "the session")->required();
  CLI::Option_group* place = command->add_option_group("place");
  place->add_option("--turn", options->turn, "the end of this turn (see: sessions turns)");
  place->add_option("--position", options->position, "this many tokens from the beginning")
      ->check(WholeNumber());
  place->require_option(place_is_needed ? 1 : 0, 1);
  return command;
}

void AddPlaces(CLI::App* sessions, const Global* global) {
  auto options = std::make_shared<PlaceOptions>();
  CLI::App* show = sessions->add_subcommand("show", "Show a session and what it holds");
  show->add_option("session", options->session, "the session")->required();
  show->callback([=] { ShowSession(*global, options->session); });

  CLI::App* turns = sessions->add_subcommand("turns", "List the turns of a session");
  turns->add_option("session", options->session, "the session")->required();
  turns->callback([=] { Turns(*global, *options); });

  CLI::App* cancel = sessions->add_subcommand(
      "cancel", "Cancel the turn that runs, and print it with its state when it has ended");
  cancel->add_option("session", options->session, "the session")->required();
  cancel->add_option("--turn", options->turn, "this turn (see: sessions turns)");
  cancel->callback([=] { Cancel(*global, *options); });

  CLI::App* fork = AddPlace(sessions, "fork", "Fork a session and print the id of the fork",
                            options.get(), /*place_is_needed=*/false);
  fork->add_option("--on", options->model, "the fork's model, which has the same tokenizer");
  fork->add_option("--id", options->new_id, "the id of the fork; default: the server draws one");
  fork->callback([=] { Fork(*global, *options); });

  CLI::App* rewind = AddPlace(sessions, "rewind", "Return to an earlier place of a session",
                              options.get(), /*place_is_needed=*/true);
  rewind
      ->add_option("--expected-version", options->expected_version,
                   "fail unless the session has this version")
      ->check(WholeNumber());
  rewind->callback([=] { Rewind(*global, *options); });
}

void CloseOne(const Global& global, const std::string& id) {
  const v1::CloseSessionResponse closed = ConnectToSession(global, id).Close(id);
  if (global.json) PrintJson(closed);
}

void Sessions(const Global& global, const SessionOptions& options) {
  if (!options.close.empty()) return CloseOne(global, options.close);
  Connection connection = Connect(global);
  if (!options.fork.empty()) {
    const v1::Session fork = connection.Fork(options.fork);
    return global.json ? PrintJson(fork) : Print(fork.session_id() + "\n");
  }
  v1::ListSessionsResponse list;
  for (const v1::Session& session : connection.Sessions(options.model, options.alias)) {
    *list.add_sessions() = session;
  }
  if (global.json) return PrintJson(list);
  // In a fleet, the replicas that have the other sessions.
  const bool has_others = std::any_of(list.sessions().begin(), list.sessions().end(),
                                      [](const auto& one) { return !one.owner().empty(); });
  std::printf("%-32s  %-12s %10s %10s %10s %10s %10s  %s\n", "SESSION", "MODEL", "POSITION", "KV",
              "WINDOW", "STATE", "HOST", has_others ? "TURN     REPLICA" : "TURN");
  for (const v1::Session& session : list.sessions()) {
    const std::string turn =
        session.owner().empty() ? TurnOf(session) : "-        " + ReplicaOf(session);
    std::printf("%-32s  %-12s %10llu %10s %10s %10s %10s  %s\n", session.session_id().c_str(),
                session.model().c_str(), static_cast<unsigned long long>(session.position()),
                BytesOf(session, session.bytes().kv()).c_str(),
                BytesOf(session, session.bytes().window()).c_str(),
                BytesOf(session, session.bytes().state()).c_str(),
                BytesOf(session, session.bytes().host()).c_str(), turn.c_str());
  }
}

}  // namespace

void AddModels(CLI::App* app, const Global* global) {
  auto name = std::make_shared<std::string>();
  CLI::App* command = app->add_subcommand("models", "List the models");
  command->add_option("name", *name, "only this model");
  command->footer(
      "With --wait, waits until no model is being loaded. If one still is when the time is over,\n"
      "prints the list, and the exit code is 3.\n"
      "Examples:\n"
      "  longstream --wait 60 models\n"
      "  longstream models --json | jq '.models[].memory'");
  command->callback([=] { Models(*global, *name); });
}

void AddSessions(CLI::App* app, const Global* global) {
  auto options = std::make_shared<SessionOptions>();
  CLI::App* command = app->add_subcommand(
      "sessions",
      "List, show, read, close, fork, rewind, export or import sessions, and cancel their turns");
  const auto add_filters = [&options](CLI::App* list) {
    list->add_option("-m,--model", options->model, "only sessions of this model");
    list->add_option("--alias", options->alias, "only sessions that were opened by this alias");
  };
  add_filters(command);
  CLI::Option* close = command->add_option("--close", options->close, "close this session");
  command->add_option("--fork", options->fork, "fork this session and print the new id")
      ->excludes(close);
  command->require_subcommand(0, 1);
  CLI::App* list = command->add_subcommand("list", "List the sessions, as `sessions` alone does");
  add_filters(list);
  list->callback([=] { Sessions(*global, *options); });
  CLI::App* end = command->add_subcommand("close", "Close a session, as --close does");
  end->add_option("session", options->close, "the session")->required();
  end->callback([=] { CloseOne(*global, options->close); });
  AddPlaces(command, global);
  AddHistory(command, global);
  AddSessionFiles(command, global);
  command->footer(
      "Examples:\n"
      "  longstream sessions list -m hypenet\n"
      "  longstream sessions close 0123456789abcdef0123456789abcdef\n"
      "  longstream sessions show 0123456789abcdef0123456789abcdef\n"
      "  longstream sessions turns 0123456789abcdef0123456789abcdef\n"
      "  longstream sessions history 0123456789abcdef0123456789abcdef\n"
      "  longstream sessions rewind 0123456789abcdef0123456789abcdef --position 100");
  command->callback([=] {
    if (command->get_subcommands().empty()) Sessions(*global, *options);
  });
}

}  // namespace longstream::client
