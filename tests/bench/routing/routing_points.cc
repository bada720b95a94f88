// Compares the choices of a route with what its arms really take: measures the costs of each arm as
// a server does when it loads it, asks the route at each length and budget, and then runs the arms,
// in turns, on prompts of these lengths.
#include <prometheus/registry.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "kernels/core/thread_pool.h"
#include "service/engine/engine.h"
#include "service/engine/turn/turn.h"
#include "service/metrics/model_metrics.h"
#include "service/models/host.h"
#include "service/models/plugin.h"
#include "service/models/served_model.h"
#include "service/routing/route_choice.h"
#include "service/serving/routing/arm_book.h"
#include "service/sessions/turn_lease.h"
#include "tests/bench/plans/bench_plans.h"
#include "tests/bench/plans/random_checkpoint.h"
#include "tests/bench/program/bench_program.h"
#include "tests/bench/routing/point_table.h"

namespace longstream {
namespace {

struct Flags {
  std::string plugins;
  std::string directory;
  std::string shape = "200m";
  std::vector<std::string> plans = {"dense", "hwfa2", "hypenet"};
  std::vector<uint64_t> lengths = {256, 2048, 8192, 32768};
  uint32_t threads = 2;
  uint64_t tokens = 256;
  double measure_seconds = 5;
  uint64_t session_mib = 256;
  std::string json;
};

constexpr uint64_t kPiece = 1024;  // of a prompt, then the next arm has its turn
constexpr uint64_t kDraws = 17;    // tokens of an answer that is timed

// A model with its engine and a session.
class Arm {
 public:
  Arm(const Flags& flags, const std::string& plan, const Host* host) : plan_(plan) {
    const std::string directory = flags.directory + "/" + flags.shape + "-" + plan;
    if (!std::filesystem::exists(directory + "/model.safetensors")) {
      WriteRandomCheckpoint(BenchSpec(flags.shape, plan), BenchConfig(flags.shape, plan),
                            directory);
    }
    const std::string name = plan == "chunked" ? "hypenet" : plan;
    ModelSource source;
    source.name = plan;
    source.directory = directory;
    source.device = "cpu";
    const std::vector<std::shared_ptr<const Plugin>> plugins = {
        Take(Plugin::Load(flags.plugins + "/" + name + ".cpu.so"))};
    std::shared_ptr<ServedModel> model = Take(ServedModel::Load(source, plugins, host));
    metrics_ = std::make_unique<ModelMetrics>(
        &registry_, ModelMetrics::Labels{plan, "1", plugins[0]->name(), plugins[0]->device()});
    engine_ = std::make_shared<Engine>(std::move(model), Engine::Options(), metrics_.get());
  }

  const std::string& plan() const { return plan_; }
  const std::shared_ptr<Engine>& engine() const { return engine_; }
  uint64_t position() const { return position_; }

  // Reads `prompt` more tokens and generates. The answer is not part of the next prompt's length.
  TurnUsage Run(uint64_t prompt, uint64_t tokens) {
    if (session_ == nullptr) Open();
    TurnRequest request;
    for (uint64_t i = 0; i < prompt; ++i) {
      request.prompt.push_back(static_cast<int32_t>((position_ + 13 * i) % 256));
    }
    request.max_tokens = tokens;
    auto turn = std::make_shared<Turn>(std::move(request));
    TurnUsage usage;
    turn->stream.SetReader([] {});
    Check(engine_->Start(turn, Take(TurnLease::Take(session_))));
    while (!Read(*turn, &usage)) absl::SleepFor(absl::Microseconds(200));
    position_ += prompt;
    return usage;
  }

 private:
  void Open() {
    const ServedModel& model = engine_->model();
    TurnLease lease =
        TurnLease::OfNewSession(SessionId{0, 1}, model.name(), model.backend().info().context_limit,
                                absl::InfiniteDuration());
    session_ = lease.session();
    absl::Notification done;
    absl::Status status;
    engine_->Open(std::move(lease), [&](absl::Status opened) {
      status = std::move(opened);
      done.Notify();
    });
    done.WaitForNotification();
    Check(status);
  }
  // Reads what has arrived. Returns whether the turn has ended.
  static bool Read(Turn& turn, TurnUsage* usage) {
    while (true) {
      const TurnStream::Item item = turn.stream.Next();
      if (const auto* end = std::get_if<TurnEnd>(&item)) {
        Check(end->status);
        *usage = end->usage;
        return true;
      }
      const auto* event = std::get_if<TurnEvent>(&item);
      if (event == nullptr) return false;
      if (const auto* delta = std::get_if<DeltaEvent>(event)) {
        turn.stream.Delivered(delta->position);
      }
    }
  }

  const std::string plan_;
  prometheus::Registry registry_;
  std::unique_ptr<ModelMetrics> metrics_;
  std::shared_ptr<Engine> engine_;
  std::shared_ptr<Session> session_;
  uint64_t position_ = 0;
};

using Arms = std::vector<std::unique_ptr<Arm>>;

// Measures the times of all arms at each length: [length][arm].
std::vector<std::vector<ArmTimes>> MeasureAll(const Flags& flags, const Arms& arms) {
  std::vector<std::vector<ArmTimes>> all;
  std::vector<double> read(arms.size());  // seconds of the prompt so far
  // The measurement of the costs has warmed the models up.
  for (const uint64_t length : flags.lengths) {
    while (arms.front()->position() < length) {
      const uint64_t piece = std::min(kPiece, length - arms.front()->position());
      for (size_t i = 0; i < arms.size(); ++i) {
        read[i] += absl::ToDoubleSeconds(arms[i]->Run(piece, 1).prefill_time);
      }
    }
    std::vector<ArmTimes> times;
    for (size_t i = 0; i < arms.size(); ++i) {
      // The prompt of this turn is empty: it draws behind the last token.
      const TurnUsage usage = arms[i]->Run(0, kDraws);
      const SessionBytes& bytes = usage.bytes;
      times.push_back({read[i],
                       absl::ToDoubleSeconds(usage.decode_time) / static_cast<double>(kDraws - 1),
                       bytes.kv + bytes.window + bytes.state});
    }
    all.push_back(std::move(times));
  }
  return all;
}

struct Budget {
  std::string name;
  RouteBudgets budgets;
};

// The budgets of the points. The time per token is 1.5 times that of the first arm without context,
// so that the first arm is within it for short prompts only.
std::vector<Budget> BudgetsOf(const Flags& flags, const std::vector<RouteArm>& arms) {
  std::vector<Budget> all = {{"least time", {}}};
  RouteBudgets time;
  time.time_per_token = absl::Seconds(1.5 * arms.front().costs->decode.base);
  all.push_back({"time per token", time});
  RouteBudgets memory;
  memory.session_bytes = flags.session_mib << 20;
  all.push_back({"session bytes", memory});
  return all;
}

nlohmann::ordered_json ToJson(const RouteArm& arm) {
  const ArmCosts& costs = *arm.costs;
  return {{"arm", arm.model},
          {"prefill", {costs.prefill.base, costs.prefill.slope}},
          {"decode", {costs.decode.base, costs.decode.slope}},
          {"kv_bytes_per_token", costs.kv_bytes_per_token},
          {"fixed_bytes", costs.fixed_bytes},
          {"measured_depth", costs.measured_depth}};
}

int Compare(const Flags& flags, const Arms& arms, const std::vector<RouteArm>& known) {
  const absl::Time begin = absl::Now();
  const std::vector<std::vector<ArmTimes>> measured = MeasureAll(flags, arms);
  std::printf("\n%-8s %-15s %-9s %-9s %7s   %s\n", "prompt", "budget", "chosen", "best", "factor",
              "measured: s to the first token, ms a token, MiB");
  int points = 0;
  int right = 0;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (size_t at = 0; at < flags.lengths.size(); ++at) {
    for (const Budget& budget : BudgetsOf(flags, known)) {
      RouteAsk ask{flags.lengths[at], 0, flags.tokens, budget.budgets};
      const RouteDecision decision = ChooseRoute(known, RouteConfig(), ask);
      const Verdict verdict = Judge(measured[at], budget.budgets, flags.tokens, decision.arm);
      ++points;
      right += verdict.factor <= 1.1 ? 1 : 0;
      std::printf("%-8llu %-15s %-9s %-9s %7.2f  ",
                  static_cast<unsigned long long>(flags.lengths[at]), budget.name.c_str(),
                  known[decision.arm].model.c_str(), known[verdict.best].model.c_str(),
                  verdict.factor);
      nlohmann::ordered_json row = {{"prompt", flags.lengths[at]},
                                    {"budget", budget.name},
                                    {"chosen", known[decision.arm].model},
                                    {"best", known[verdict.best].model},
                                    {"factor", verdict.factor},
                                    {"text", decision.text}};
      for (size_t i = 0; i < known.size(); ++i) {
        const ArmTimes& times = measured[at][i];
        const double mib = static_cast<double>(times.session_bytes) / 1048576.0;
        std::printf(" %s %.2f %.1f %.0f", known[i].model.c_str(), times.first_token,
                    times.per_token * 1e3, mib);
        row["measured"][known[i].model] = {times.first_token, times.per_token, mib};
      }
      std::printf("\n");
      rows.push_back(std::move(row));
    }
  }
  std::printf("\n%d of %d choices are right or within 10 %%; %.0f s\n", right, points,
              absl::ToDoubleSeconds(absl::Now() - begin));
  if (!flags.json.empty()) {
    nlohmann::ordered_json json = {{"shape", flags.shape}, {"threads", flags.threads}};
    for (const RouteArm& arm : known) json["arms"].push_back(ToJson(arm));
    json["points"] = rows;
    std::ofstream(flags.json) << json.dump(1) << "\n";
  }
  // Each choice must be within 10 % of the best one.
  return right == points ? 0 : 1;
}

int Main(const Flags& flags) {
  ThreadPool pool(flags.threads);
  const Host host(pool.AsExecutor(), [](LogSeverity, std::string_view) {});
  ArmBook::Options options;
  options.most_time = absl::Seconds(flags.measure_seconds);
  options.place = [](const ServedModel&) { return CostsPlace(); };  // measures anew
  options.log = [](const std::string& sentence) { std::printf("%s\n", sentence.c_str()); };
  const auto book = std::make_shared<ArmBook>(options);
  book->SetWanted({flags.plans.begin(), flags.plans.end()});
  Arms arms;
  std::vector<RouteArm> known;
  for (const std::string& plan : flags.plans) {
    arms.push_back(std::make_unique<Arm>(flags, plan, &host));
    book->MeasureAndWait(arms.back()->engine());
    known.push_back({plan, book->Find(plan)});
    if (!known.back().costs) throw std::runtime_error(plan + " could not be measured");
  }
  std::fflush(stdout);
  return Compare(flags, arms, known);
}

}  // namespace
}  // namespace longstream

int main(int argc, char** argv) {
  longstream::Flags flags;
  CLI::App app("Compares the choices of a route with what its arms really take.");
  app.option_defaults()->always_capture_default();
  app.add_option("--plugins", flags.plugins, "the directory of the backends")->required();
  app.add_option("--directory", flags.directory, "where the models are, or are written")
      ->required();
  app.add_option("--shape", flags.shape)->check(CLI::IsMember(longstream::BenchShapes()));
  app.add_option("--plans", flags.plans, "the arms, in the order of preference")
      ->delimiter(',')
      ->check(CLI::IsMember(longstream::BenchPlans()));
  app.add_option("--lengths", flags.lengths, "tokens of the prompts, ascending")->delimiter(',');
  app.add_option("--threads", flags.threads);
  app.add_option("--tokens", flags.tokens, "of the answers");
  app.add_option("--measure-seconds", flags.measure_seconds, "for the costs of each arm");
  app.add_option("--session-mib", flags.session_mib, "the budget of a session's caches");
  app.add_option("--json", flags.json, "a file for the results");
  return longstream::RunProgram("routing_points", app, argc, argv,
                                [&] { return longstream::Main(flags); });
}
