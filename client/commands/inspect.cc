// The commands `longstream models` and `longstream sessions`.
#include <google/protobuf/util/json_util.h>

#include <cstdio>
#include <map>
#include <memory>

#include "client/commands/commands.h"
#include "client/output.h"

namespace longstream::client {
namespace {

void PrintJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  if (google::protobuf::util::MessageToJsonString(message, &text, options).ok()) Print(text);
}

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

void Models(const Global& global, const std::string& name) {
  Connection connection = Connect(global);
  v1::ListModelsResponse list;
  if (name.empty()) {
    for (const v1::Model& model : connection.Models()) *list.add_models() = model;
  } else {
    *list.add_models() = connection.Model(name);
  }
  if (global.json) return PrintJson(list);
  std::printf("%-12s %-8s %-8s %-6s %10s %9s  %s\n", "NAME", "STATE", "BACKEND", "DEVICE",
              "PARAMETERS", "CONTEXT", "LAYERS");
  for (const v1::Model& model : list.models()) {
    const std::string state = v1::ModelState_Name(model.state()).substr(12);
    std::printf("%-12s %-8s %-8s %-6s %10llu %9llu  %s\n", model.name().c_str(), state.c_str(),
                model.backend().c_str(), model.device().c_str(),
                static_cast<unsigned long long>(model.parameters()),
                static_cast<unsigned long long>(model.context_limit()),
                model.error().empty() ? PlanOf(model).c_str() : model.error().c_str());
  }
}

struct SessionOptions {
  std::string model;
  std::string close;
  std::string fork;
};

void Sessions(const Global& global, const SessionOptions& options) {
  Connection connection = Connect(global);
  if (!options.close.empty()) {
    const v1::CloseSessionResponse closed = connection.Close(options.close);
    if (global.json) PrintJson(closed);
    return;
  }
  if (!options.fork.empty()) {
    const v1::Session fork = connection.Fork(options.fork);
    return global.json ? PrintJson(fork) : Print(fork.session_id() + "\n");
  }
  v1::ListSessionsResponse list;
  for (const v1::Session& session : connection.Sessions(options.model)) {
    *list.add_sessions() = session;
  }
  if (global.json) return PrintJson(list);
  std::printf("%-32s  %-12s %10s %10s %10s %10s %10s  %s\n", "SESSION", "MODEL", "POSITION", "KV",
              "WINDOW", "STATE", "HOST", "TURN");
  for (const v1::Session& session : list.sessions()) {
    std::printf(
        "%-32s  %-12s %10llu %10s %10s %10s %10s  %s\n", session.session_id().c_str(),
        session.model().c_str(), static_cast<unsigned long long>(session.position()),
        HumanBytes(session.bytes().kv()).c_str(), HumanBytes(session.bytes().window()).c_str(),
        HumanBytes(session.bytes().state()).c_str(), HumanBytes(session.bytes().host()).c_str(),
        session.turn_running() ? "running" : "idle");
  }
}

}  // namespace

void AddModels(CLI::App* app, const Global* global) {
  auto name = std::make_shared<std::string>();
  CLI::App* command = app->add_subcommand("models", "List the models");
  command->add_option("name", *name, "only this model");
  command->footer("Example:\n  longstream models --json | jq '.models[].memory'");
  command->callback([=] { Models(*global, *name); });
}

void AddSessions(CLI::App* app, const Global* global) {
  auto options = std::make_shared<SessionOptions>();
  CLI::App* command = app->add_subcommand("sessions", "List, close or fork sessions");
  command->add_option("-m,--model", options->model, "only sessions of this model");
  CLI::Option* close = command->add_option("--close", options->close, "close this session");
  command->add_option("--fork", options->fork, "fork this session and print the new id")
      ->excludes(close);
  command->footer("Example:\n  longstream sessions --close 0123456789abcdef0123456789abcdef");
  command->callback([=] { Sessions(*global, *options); });
}

}  // namespace longstream::client
