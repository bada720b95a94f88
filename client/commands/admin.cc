// The command `longstream admin`: loads, swaps, unloads and lists models of a running server, and
// changes its aliases.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "client/admin_connection.h"
#include "client/commands/commands.h"
#include "client/output.h"

namespace longstream::client {
namespace {

namespace admin_v1 = admin::v1;

struct AdminOptions {
  std::string address;
  admin_v1::ModelSpec model;
  std::string name;  // of `unload`
  bool recompute_sessions = false;
  std::optional<double> drain_seconds;
  std::optional<double> grace_seconds;
  admin_v1::Alias alias;               // of `alias set`
  std::vector<std::string> arms;       // of `alias set`: MODEL=WEIGHT; of `alias route`: MODEL
  std::string shadow;                  // of both: MODEL=SHARE; empty: none
  double max_time_to_first_token = 0;  // of `alias route`, in seconds; 0: none, here and below
  double max_time_per_token = 0;
  admin_v1::AliasRoute route;
};

std::string NameOf(admin_v1::ModelState state) {
  return admin_v1::ModelState_Name(state).substr(sizeof("MODEL_STATE_") - 1);
}

// Prints the states of a model that is being loaded. With --json, prints only the last one.
class States {
 public:
  explicit States(bool json) : json_(json) {}
  ~States() = default;

  void Show(const admin_v1::Model& model) {
    last_ = model;
    if (json_) return;
    const bool is_loading = model.state() == admin_v1::MODEL_STATE_LOADING;
    const std::string bytes = is_loading && model.expected_bytes() > 0
                                  ? ", about " + HumanBytes(model.expected_bytes())
                                  : "";
    Print(model.name() + " version " + model.version() + ": " + NameOf(model.state()) + bytes +
          "\n");
    FlushOutput();
  }
  void End() const {
    if (json_) PrintJson(last_);
  }

 private:
  const bool json_;
  admin_v1::Model last_;
};

void LoadModel(const Global& global, const AdminOptions& options) {
  admin_v1::LoadModelRequest request;
  *request.mutable_model() = options.model;
  States states(global.json);
  ConnectToAdmin(global, options.address).Load(request, [&](const admin_v1::Model& model) {
    states.Show(model);
  });
  states.End();
}

void Swap(const Global& global, const AdminOptions& options) {
  admin_v1::SwapModelRequest request;
  *request.mutable_model() = options.model;
  request.set_recompute_sessions(options.recompute_sessions);
  if (options.drain_seconds) SetSeconds(*options.drain_seconds, request.mutable_drain_timeout());
  States states(global.json);
  ConnectToAdmin(global, options.address).Swap(request, [&](const admin_v1::Model& model) {
    states.Show(model);
  });
  states.End();
}

void Unload(const Global& global, const AdminOptions& options) {
  admin_v1::UnloadModelRequest request;
  request.set_name(options.name);
  if (options.grace_seconds) SetSeconds(*options.grace_seconds, request.mutable_grace());
  ConnectToAdmin(global, options.address).Unload(request);
  Print(global.json ? "{}\n" : options.name + ": unloaded\n");
}

void Models(const Global& global, const AdminOptions& options) {
  const admin_v1::ListModelsResponse list = ConnectToAdmin(global, options.address).Models();
  if (global.json) return PrintJson(list);
  std::printf("%-12s %-8s %-8s %-8s %-6s %10s %10s %6s %8s  %s\n", "NAME", "VERSION", "STATE",
              "BACKEND", "DEVICE", "WEIGHTS", "CACHES", "TURNS", "SESSIONS", "DIRECTORY");
  for (const admin_v1::Model& model : list.models()) {
    const admin_v1::ModelBytes& bytes = model.bytes();
    const uint64_t caches = bytes.pages() + bytes.rings() + bytes.states() + bytes.checkpoints();
    std::printf("%-12s %-8s %-8s %-8s %-6s %10s %10s %6llu %8llu  %s\n", model.name().c_str(),
                model.version().c_str(), NameOf(model.state()).c_str(), model.backend().c_str(),
                model.device().c_str(), HumanBytes(bytes.weights()).c_str(),
                HumanBytes(caches).c_str(), static_cast<unsigned long long>(model.running_turns()),
                static_cast<unsigned long long>(model.sessions()),
                model.error().empty() ? model.directory().c_str() : model.error().c_str());
  }
}

// Reads MODEL=WEIGHT. A model's name may have "=", a weight has not.
admin_v1::AliasArm ReadArm(const std::string& text) {
  constexpr uint64_t kMostWeight = 1'000'000;
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) {
    throw CLI::ValidationError("arms",
                               "expected MODEL=WEIGHT, such as dense=90, found '" + text + "'");
  }
  const std::string weight = text.substr(equals + 1);
  const std::string error = WholeNumber(0, kMostWeight)(weight);
  if (!error.empty()) throw CLI::ValidationError("arms", text + ": " + error);
  admin_v1::AliasArm arm;
  arm.set_model(text.substr(0, equals));
  arm.set_weight(static_cast<uint32_t>(std::stoul(weight)));
  return arm;
}

// Reads MODEL=SHARE.
admin_v1::AliasShadow ReadShadow(const std::string& text) {
  const size_t equals = text.rfind('=');
  const std::string share = equals == std::string::npos ? "" : text.substr(equals + 1);
  double number = 0;
  if (equals == 0 || share.empty() || !CLI::detail::lexical_cast(share, number)) {
    throw CLI::ValidationError("--shadow",
                               "expected MODEL=SHARE, such as hybrid=0.1, found '" + text + "'");
  }
  if (!(number >= 0 && number <= 1)) {
    throw CLI::ValidationError("--shadow", text + ": expected a share from 0 to 1");
  }
  admin_v1::AliasShadow shadow;
  shadow.set_model(text.substr(0, equals));
  shadow.set_share(number);
  return shadow;
}

// A share as the operator writes it.
std::string ShareText(double share) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", share);
  return text;
}

void PrintAlias(const admin_v1::Alias& alias) {
  std::string text = alias.name() + (alias.has_route() ? ": route" : ":");
  for (const admin_v1::AliasArm& arm : alias.arms()) {
    text += " " + arm.model();
    if (!alias.has_route()) text += "=" + std::to_string(arm.weight());
    if (alias.has_route() && !arm.has_costs()) text += " (not measured)";
    const bool is_there = arm.state() != admin_v1::MODEL_STATE_UNSPECIFIED;
    if (arm.state() != admin_v1::MODEL_STATE_READY) {
      text += " (" + (is_there ? NameOf(arm.state()) : std::string("not served")) + ")";
    }
  }
  if (alias.has_shadow()) {
    text += ", shadow " + alias.shadow().model() + "=" + ShareText(alias.shadow().share());
  }
  Print(text + (alias.changed_at_run_time() ? "  [changed at run time]\n" : "\n"));
}

void RouteAlias(const Global& global, const AdminOptions& options) {
  admin_v1::Alias alias = options.alias;
  for (const std::string& arm : options.arms) alias.add_arms()->set_model(arm);
  admin_v1::AliasRoute* const route = alias.mutable_route();
  *route = options.route;
  if (options.max_time_to_first_token > 0) {
    SetSeconds(options.max_time_to_first_token, route->mutable_max_time_to_first_token());
  }
  if (options.max_time_per_token > 0) {
    SetSeconds(options.max_time_per_token, route->mutable_max_time_per_token());
  }
  if (!options.shadow.empty()) *alias.mutable_shadow() = ReadShadow(options.shadow);
  const admin_v1::Alias set = ConnectToAdmin(global, options.address).Set(alias);
  global.json ? PrintJson(set) : PrintAlias(set);
}

void SetAlias(const Global& global, const AdminOptions& options) {
  admin_v1::Alias alias = options.alias;
  for (const std::string& arm : options.arms) *alias.add_arms() = ReadArm(arm);
  if (!options.shadow.empty()) *alias.mutable_shadow() = ReadShadow(options.shadow);
  const admin_v1::Alias set = ConnectToAdmin(global, options.address).Set(alias);
  global.json ? PrintJson(set) : PrintAlias(set);
}

void DeleteAlias(const Global& global, const AdminOptions& options) {
  ConnectToAdmin(global, options.address).Delete(options.alias.name());
  Print(global.json ? "{}\n" : options.alias.name() + ": deleted\n");
}

void Aliases(const Global& global, const AdminOptions& options) {
  const admin_v1::ListAliasesResponse list = ConnectToAdmin(global, options.address).Aliases();
  if (global.json) return PrintJson(list);
  if (list.aliases().empty()) return Print("no aliases\n");
  for (const admin_v1::Alias& alias : list.aliases()) PrintAlias(alias);
}

void AddShadowOption(CLI::App* command, const std::shared_ptr<AdminOptions>& options) {
  command->add_option("--shadow", options->shadow,
                      "MODEL=SHARE; replays this share of the turns on another model, to compare "
                      "the two, while no client's turn runs");
}

void AddRouteCommand(CLI::App* alias, const Global* global,
                     const std::shared_ptr<AdminOptions>& options) {
  constexpr double kMostSeconds = 24 * 3600;
  constexpr uint64_t kMostTokens = uint64_t{1} << 31;
  CLI::App* route = alias->add_subcommand(
      "route", "Make an alias that chooses by the length of the request and by budgets");
  route->add_option("name", *options->alias.mutable_name(), "the alias")->required();
  route->add_option("arms", options->arms, "MODEL; the first one is preferred")->required();
  route
      ->add_option("--max-ttft", options->max_time_to_first_token,
                   "seconds until the first token, of requests that give no limit themselves")
      ->check(Number(0, kMostSeconds));
  route
      ->add_option("--max-time-per-token", options->max_time_per_token,
                   "seconds for each further token, as above")
      ->check(Number(0, kMostSeconds));
  const auto add = [route, options](const char* name, const char* description, uint64_t most,
                                    void (admin_v1::AliasRoute::*set)(uint64_t)) {
    route
        ->add_option_function<uint64_t>(
            name, [options, set](uint64_t value) { (options->route.*set)(value); }, description)
        ->check(WholeNumber(0, most));
  };
  add("--max-session-bytes", "bytes of a session's caches, as above",
      std::numeric_limits<uint64_t>::max(), &admin_v1::AliasRoute::set_max_session_bytes);
  add("--prompt-tokens", "what is expected of requests that do not say it; default: 1024",
      kMostTokens, &admin_v1::AliasRoute::set_prompt_tokens);
  add("--max-tokens", "what is expected of requests that do not say it; default: 256", kMostTokens,
      &admin_v1::AliasRoute::set_max_tokens);
  AddShadowOption(route, options);
  route->callback([=] { RouteAlias(*global, *options); });
}

void AddAliasCommands(CLI::App* admin, const Global* global,
                      const std::shared_ptr<AdminOptions>& options) {
  CLI::App* alias = admin->add_subcommand(
      "alias", "Set, delete and list aliases: names behind which several models serve");
  alias->require_subcommand(1);
  alias->fallthrough();
  CLI::App* set = alias->add_subcommand("set", "Make an alias, or give it other arms");
  set->add_option("name", *options->alias.mutable_name(), "the alias")->required();
  set->add_option("arms", options->arms,
                  "MODEL=WEIGHT; a model gets the part WEIGHT / (sum of the weights) of the "
                  "sessions")
      ->required();
  AddShadowOption(set, options);
  set->callback([=] { SetAlias(*global, *options); });
  AddRouteCommand(alias, global, options);
  CLI::App* remove = alias->add_subcommand("delete", "Remove an alias; its sessions go on");
  remove->add_option("name", *options->alias.mutable_name(), "the alias")->required();
  remove->callback([=] { DeleteAlias(*global, *options); });
  alias->add_subcommand("list", "List all aliases")->callback([=] { Aliases(*global, *options); });
}

// Adds a subcommand with the options that describe a model.
CLI::App* AddModelCommand(CLI::App* admin, const std::string& name, const std::string& description,
                          AdminOptions* options) {
  CLI::App* command = admin->add_subcommand(name, description);
  admin_v1::ModelSpec* const model = &options->model;
  command->add_option("name", *model->mutable_name(), "the model's name for clients")->required();
  command->add_option("--directory", *model->mutable_directory(),
                      "the name of its directory in admin.model_directories; default: its name");
  command->add_option("--backend", *model->mutable_backend(),
                      "the plugin; default: what fits best");
  command->add_option("--device", *model->mutable_device(), "auto, cpu, cuda or cuda:N");
  command->add_option("--version", *model->mutable_version(), "the label of this version");
  command
      ->add_option_function<uint64_t>(
          "--cache-bytes", [model](uint64_t bytes) { model->set_cache_bytes(bytes); },
          "bytes for caches; default: a share of what is left")
      ->check(WholeNumber());
  command->add_option("--options", *model->mutable_options(), "a JSON object for the backend");
  return command;
}

}  // namespace

void AddAdmin(CLI::App* app, const Global* global) {
  auto options = std::make_shared<AdminOptions>();
  CLI::App* admin = app->add_subcommand(
      "admin", "Load, swap and unload models of a running server, and change aliases");
  AddAdminOption(admin, &options->address);
  admin->require_subcommand(1);
  admin->fallthrough();
  const CLI::Validator seconds = Number(0.0, 1e8);

  AddModelCommand(admin, "load", "Load a model under a new name", options.get())->callback([=] {
    LoadModel(*global, *options);
  });
  CLI::App* swap = AddModelCommand(admin, "swap",
                                   "Load another version of a model; new sessions "
                                   "begin on it",
                                   options.get());
  swap->add_flag("--recompute-sessions", options->recompute_sessions,
                 "idle sessions move to the new version, which reads their histories anew");
  swap->add_option("--drain", options->drain_seconds,
                   "seconds after which the earlier version is unloaded although it has sessions")
      ->check(seconds);
  swap->callback([=] { Swap(*global, *options); });
  CLI::App* unload = admin->add_subcommand("unload", "Unload a model and free its memory");
  unload->add_option("name", options->name, "the model")->required();
  unload
      ->add_option("--grace", options->grace_seconds,
                   "seconds for running turns; default: the server's grace")
      ->check(seconds);
  unload->callback([=] { Unload(*global, *options); });
  admin->add_subcommand("models", "List all versions of all models")->callback([=] {
    Models(*global, *options);
  });
  AddAliasCommands(admin, global, options);
  admin->footer(
      "Examples:\n"
      "  longstream admin --admin unix:/run/longstream/admin.sock load tiny\n"
      "  longstream admin --admin unix:/run/longstream/admin.sock swap tiny --directory tiny-v2\n"
      "  longstream admin --admin unix:/run/longstream/admin.sock unload tiny --grace 10\n"
      "  longstream admin --admin unix:/run/longstream/admin.sock alias set chat tiny=90 new=10\n"
      "  longstream admin --admin unix:/run/longstream/admin.sock alias route chat dense hypenet "
      "--max-ttft 20");
}

}  // namespace longstream::client
