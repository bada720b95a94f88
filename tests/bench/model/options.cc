// The options, their checks, and the text of --help.
#include "tests/bench/model/options.h"

#include "backends/checkpoint/load_options.h"
#include "backends/errors/error.h"
#include "tests/bench/plans/bench_plans.h"

namespace longstream {
namespace {

constexpr char kDescription[] =
    "Whole steps of models with random weights: tokens/s of decode and prefill behind contexts of\n"
    "some depths, each slice of work under a second between two reads of memory (\"probes\"). "
    "Every\n"
    "plan, type of weights and number of threads has a table. Lists are joined by commas.";

LoadOptions Load(const std::string& key, const std::string& value) {
  return LoadOptions(("{\"" + key + "\": \"" + value + "\"}").c_str());
}

// Accepts what the plugins accept as the load option `key`.
CLI::Validator IsLoadOption(const std::string& key) {
  const auto problem_of = [key](const std::string& value) -> std::string {
    try {
      Load(key, value);
    } catch (const BackendError& error) {
      return error.what();
    }
    return "";
  };
  return CLI::Validator(problem_of, "");
}

// Checks combinations of options.
void Check(const BenchOptions& options) {
  const bool one_plan = options.plans.size() == 1, one_pool = options.threads.size() == 1;
  if (options.serve && (!one_plan || !one_pool || options.weights.size() != 1)) {
    throw CLI::ValidationError("--serve",
                               "needs one --plan, one of --weights and one of --threads");
  }
  if (!options.checkpoint.empty() && !one_plan) {
    throw CLI::ValidationError("--checkpoint", "needs one --plan");
  }
  if (!options.load.empty() && (!one_plan || !one_pool)) {
    throw CLI::ValidationError("--load", "needs one --plan and one of --threads");
  }
  if (options.slices().empty()) {
    throw CLI::ValidationError("--tokens, --prefill", "nothing to measure, both are 0");
  }
}

}  // namespace

std::vector<SliceKind> BenchOptions::slices() const {
  std::vector<SliceKind> kinds;
  for (const int64_t depth : depths) {
    if (tokens > 0) kinds.push_back({SliceKind::Op::kDecode, depth, tokens});
    if (prefill > 0) kinds.push_back({SliceKind::Op::kPrefill, depth, prefill});
  }
  return kinds;
}

void AddBenchOptions(CLI::App& app, BenchOptions* options) {
  app.description(kDescription);
  app.option_defaults()->always_capture_default();
  app.add_option("--shape", options->shape)->check(CLI::IsMember(BenchShapes()));
  app.add_option("--plan", options->plans)->delimiter(',')->check(CLI::IsMember(BenchPlans()));
  app.add_option_function<std::vector<std::string>>(
         "--weights",
         [options](const std::vector<std::string>& names) {
           options->weights.clear();
           for (const std::string& name : names) {
             options->weights.push_back(Load("weights", name).weights().value_or(DType::kBF16));
           }
         },
         "such as bf16,int8,int4")
      ->delimiter(',')
      ->check(IsLoadOption("weights"));
  app.add_option("--cache", options->cache)->check(IsLoadOption("cache"));
  app.add_option("--threads", options->threads, "0: one per logical processor")
      ->delimiter(',')
      ->check(CLI::Range(0, 1024));
  app.add_option("--batch", options->batch, "sequences that decode together")
      ->check(CLI::Range(1, 256));
  app.add_option("--depths", options->depths, "tokens of contexts")
      ->delimiter(',')
      ->check(CLI::Range(0, 1 << 19));
  const CLI::Range tokens(int64_t{0}, kMaxSliceTokens);
  app.add_option("--prefill", options->prefill, "tokens of a slice")->check(tokens);
  app.add_option("--tokens", options->tokens, "of a decode slice")->check(tokens);
  app.add_option("--rounds", options->rounds)->check(CLI::Range(1, 1000));
  app.add_option("--json", options->json, "a file for every slice");
  app.add_flag("--op-times", options->op_times, "adds the part of the time of each op to each row");
  app.add_flag("--serve", options->serve,
               "reads slices from standard input, as \"decode 4096 32\" or \"prefill 0 512\", and "
               "answers each with a line of JSON; see docs/performance-notes.md");
  app.add_option("--checkpoint", options->checkpoint,
                 "measures nothing: writes a model of the shape and plan, its random weights in "
                 "bf16, into this directory, as a checkpoint that a server loads");
  app.add_option("--load", options->load,
                 "measures how long such a directory takes to load: packed anew, packed and kept, "
                 "and read as packed before");
  app.final_callback([options] { Check(*options); });
}

}  // namespace longstream
