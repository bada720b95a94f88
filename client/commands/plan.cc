// `longstream plan`: how many replicas a load needs.
#include <cstdio>
#include <iostream>
#include <memory>
#include <set>
#include <string>

#include "client/admin_connection.h"
#include "client/commands/commands.h"
#include "client/output.h"
#include "client/plan/capacity.h"
#include "nlohmann/json.hpp"

namespace longstream::client {
namespace {

namespace admin_v1 = admin::v1;

struct PlanOptions {
  std::string address;
  Load load;
  double cache_gib = 0;
  double busy = 0.7;
};

TurnCosts CostsOf(const admin_v1::ArmCosts& costs) {
  return {.prompt_token = Seconds(costs.prompt_token()),
          .prompt_token_per_1000 = Seconds(costs.prompt_token_per_1000()),
          .generated_token = Seconds(costs.generated_token()),
          .generated_token_per_1000 = Seconds(costs.generated_token_per_1000()),
          .bytes_per_token = static_cast<double>(costs.bytes_per_token()),
          .bytes_fixed = static_cast<double>(costs.bytes_fixed())};
}

nlohmann::ordered_json JsonOf(const std::string& model, const Capacity& capacity,
                              uint64_t measured_depth) {
  return {{"model", model},
          {"session_bytes", capacity.session_bytes},
          {"sessions_per_gib", capacity.sessions_per_gib},
          {"sessions_per_replica", capacity.sessions_per_replica},
          {"first_token_seconds", capacity.first_token_seconds},
          {"turn_seconds", capacity.turn_seconds},
          {"turns_per_minute_per_replica", capacity.turns_per_minute},
          {"replicas_for_sessions", capacity.for_sessions},
          {"replicas_for_turns", capacity.for_turns},
          {"replicas", capacity.replicas},
          {"measured_depth", measured_depth}};
}

void PrintCapacity(const std::string& model, const Capacity& capacity) {
  std::string text =
      model + ": " + HumanBytes(static_cast<uint64_t>(capacity.session_bytes)) + " a session, ";
  char numbers[256];
  std::snprintf(numbers, sizeof(numbers),
                "%.1f sessions a GiB; alone, a turn takes %.3g s, %.3g s of them to the first "
                "token\n  ",
                capacity.sessions_per_gib, capacity.turn_seconds, capacity.first_token_seconds);
  text += numbers;
  std::snprintf(numbers, sizeof(numbers),
                "%llu replicas: %llu for the sessions, at most %llu for the turns, and one that "
                "may leave\n",
                static_cast<unsigned long long>(capacity.replicas),
                static_cast<unsigned long long>(capacity.for_sessions),
                static_cast<unsigned long long>(capacity.for_turns));
  Print(text + numbers);
}

// Why a model cannot serve the load, however many replicas there are. Empty: it can.
std::string WhyNot(const admin_v1::ArmCosts& costs, const PlanOptions& options,
                   const Capacity& capacity) {
  // A server of an earlier version does not tell the limit.
  const uint64_t tokens = options.load.session_tokens;
  if (costs.context_limit() > 0 && tokens > costs.context_limit()) {
    return "--session-tokens: " + std::to_string(tokens) + ": a session has at most " +
           std::to_string(costs.context_limit()) + " tokens";
  }
  if (capacity.replicas > 0) return "";
  char cache_gib[32];
  std::snprintf(cache_gib, sizeof(cache_gib), "%g", options.cache_gib);
  return std::string("--cache-gib: ") + cache_gib + ": a session needs " +
         HumanBytes(static_cast<uint64_t>(capacity.session_bytes)) +
         ", so no replica has room for one";
}

void Plan(const Global& global, const PlanOptions& options) {
  if (options.load.prompt_tokens + options.load.generated_tokens > options.load.session_tokens) {
    throw CLI::ValidationError("--session-tokens",
                               std::to_string(options.load.session_tokens) +
                                   ": less than --prompt-tokens and --max-tokens of one turn");
  }
  constexpr double kGib = 1024.0 * 1024 * 1024;
  const ReplicaSize replica = {.cache_bytes = options.cache_gib * kGib, .busy = options.busy};
  const admin_v1::ListAliasesResponse list = ConnectToAdmin(global, options.address).Aliases();
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  std::set<std::string> planned;  // a model may be an arm of several aliases
  bool fits = false;              // at least one of them
  for (const admin_v1::Alias& alias : list.aliases()) {
    for (const admin_v1::AliasArm& arm : alias.arms()) {
      if (!arm.has_costs() || !planned.insert(arm.model()).second) continue;
      const Capacity capacity = CapacityFor(CostsOf(arm.costs()), options.load, replica);
      const std::string why_not = WhyNot(arm.costs(), options, capacity);
      fits = fits || why_not.empty();
      if (!why_not.empty()) {
        json.push_back({{"model", arm.model()}, {"error", why_not}});
        std::cerr << "longstream: " << arm.model() << ": " << why_not << "\n";
      } else if (global.json) {
        json.push_back(JsonOf(arm.model(), capacity, arm.costs().measured_depth()));
      } else {
        PrintCapacity(arm.model(), capacity);
      }
    }
  }
  if (global.json) Print(json.dump(2) + "\n");
  if (fits) return;
  if (!planned.empty()) throw ToldFailure{kCallFailed};
  std::cerr
      << "longstream: no costs have been measured: make an alias with a route, such as "
         "`longstream admin alias route plan MODEL`, and wait until `alias list` does not say "
         "\"not measured\"\n";
  throw ToldFailure{kCallFailed};
}

void AddLoadOptions(CLI::App* command, Load* load) {
  constexpr uint64_t kMostTokens = uint64_t{1} << 31;
  constexpr uint64_t kMostSessions = uint64_t{1} << 40;
  command->add_option("--sessions", load->sessions, "sessions whose caches are to stay in memory")
      ->required()
      ->check(WholeNumber(0, kMostSessions));
  command->add_option("--turns-per-minute", load->turns_per_minute, "of all sessions, at most")
      ->required()
      ->check(Number(0, 1e12));
  command->add_option("--session-tokens", load->session_tokens, "the length that sessions reach")
      ->required()
      ->check(WholeNumber(1, kMostTokens));
  load->prompt_tokens = 512;
  load->generated_tokens = 256;
  command->add_option("--prompt-tokens", load->prompt_tokens, "of a turn")
      ->check(WholeNumber(0, kMostTokens))
      ->capture_default_str();
  command->add_option("--max-tokens", load->generated_tokens, "that a turn generates")
      ->check(WholeNumber(0, kMostTokens))
      ->capture_default_str();
}

}  // namespace

void AddPlan(CLI::App* app, const Global* global) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app->add_subcommand(
      "plan", "Say how many replicas a load needs, from the costs that a server has measured");
  AddAdminOption(command, &options->address);
  AddLoadOptions(command, &options->load);
  command->add_option("--cache-gib", options->cache_gib, "GiB that a replica has for caches")
      ->required()
      ->check(Number(1e-3, 1e9));
  command
      ->add_option("--busy", options->busy,
                   "share of its time that a replica may compute; the rest is for waiting less")
      ->check(Number(0.01, 1))
      ->capture_default_str();
  command->footer(
      "The costs are those of the arms of aliases with a route, on that server.\n"
      "Example:\n  longstream plan --admin unix:/run/longstream/admin.sock --sessions 2000 "
      "--turns-per-minute 300 --session-tokens 32768 --cache-gib 24");
  command->callback([=] { Plan(*global, *options); });
}

}  // namespace longstream::client
