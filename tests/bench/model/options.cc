// Parsing.
#include "tests/bench/model/options.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <sstream>
#include <stdexcept>

#include "backends/checkpoint/load_options.h"
#include "backends/errors/error.h"
#include "tests/bench/plans/bench_plans.h"

namespace longstream {
namespace {

std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> items;
  std::istringstream stream(text);
  for (std::string item; std::getline(stream, item, ',');) items.push_back(item);
  return items;
}

int64_t Number(const std::string& text, int64_t least, int64_t most) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    throw std::invalid_argument("expected a number from " + std::to_string(least) + " to " +
                                std::to_string(most) + ", found " + text);
  }
  return value;
}

// Parses a load option as the plugins do.
LoadOptions Load(const std::string& key, const std::string& value) {
  try {
    return LoadOptions(("{\"" + key + "\": \"" + value + "\"}").c_str());
  } catch (const BackendError& error) {
    throw std::invalid_argument(error.what());
  }
}

uint32_t NumThreads(const std::string& text) {
  return static_cast<uint32_t>(Number(text, 0, 1024));
}

DType WeightType(const std::string& name) {
  return Load("weights", name).weights().value_or(DType::kBF16);
}

std::string CacheName(const std::string& name) {
  Load("cache", name);
  return name;
}

template <typename Item, typename Convert>
std::vector<Item> List(const std::string& text, Convert convert) {
  std::vector<Item> items;
  for (const std::string& item : Split(text)) items.push_back(convert(item));
  if (items.empty()) throw std::invalid_argument("expected a list joined by commas");
  return items;
}

// Checks of several options together.
void Check(const BenchOptions& options) {
  const bool one_plan = options.plans.size() == 1, one_pool = options.threads.size() == 1;
  if (options.serve && (!one_plan || !one_pool || options.weights.size() != 1)) {
    throw std::invalid_argument("--serve: needs one --plan, one of --weights and one of --threads");
  }
  if (!options.checkpoint.empty() && !one_plan) {
    throw std::invalid_argument("--checkpoint: needs one --plan");
  }
  if (!options.load.empty() && (!one_plan || !one_pool)) {
    throw std::invalid_argument("--load: needs one --plan and one of --threads");
  }
  if (options.slices().empty()) {
    throw std::invalid_argument("--tokens, --prefill: nothing to measure, both are 0");
  }
}

using Setter = std::function<void(const std::string&, BenchOptions&)>;

std::string PlanName(const std::string& name) {
  BenchSpec("200m", name);
  return name;
}

const std::map<std::string, Setter>& Setters() {
  constexpr int64_t kMostDepth = int64_t{1} << 19;
  static const std::map<std::string, Setter> setters = {
      {"--shape",
       [](const std::string& v, BenchOptions& o) {
         BenchSpec(v, "dense");
         o.shape = v;
       }},
      {"--plan",
       [](const std::string& v, BenchOptions& o) { o.plans = List<std::string>(v, PlanName); }},
      {"--weights",
       [](const std::string& v, BenchOptions& o) { o.weights = List<DType>(v, WeightType); }},
      {"--cache", [](const std::string& v, BenchOptions& o) { o.cache = CacheName(v); }},
      {"--threads",
       [](const std::string& v, BenchOptions& o) { o.threads = List<uint32_t>(v, NumThreads); }},
      {"--batch", [](const std::string& v,
                     BenchOptions& o) { o.batch = static_cast<uint32_t>(Number(v, 1, 256)); }},
      {"--depths",
       [](const std::string& v, BenchOptions& o) {
         o.depths =
             List<int64_t>(v, [](const std::string& item) { return Number(item, 0, kMostDepth); });
       }},
      {"--prefill",
       [](const std::string& v, BenchOptions& o) { o.prefill = Number(v, 0, kMaxSliceTokens); }},
      {"--tokens",
       [](const std::string& v, BenchOptions& o) { o.tokens = Number(v, 0, kMaxSliceTokens); }},
      {"--rounds", [](const std::string& v,
                      BenchOptions& o) { o.rounds = static_cast<int>(Number(v, 1, 1000)); }},
      {"--json", [](const std::string& v, BenchOptions& o) { o.json = v; }},
      {"--checkpoint", [](const std::string& v, BenchOptions& o) { o.checkpoint = v; }},
      {"--load", [](const std::string& v, BenchOptions& o) { o.load = v; }},
  };
  return setters;
}

}  // namespace

const char kBenchUsage[] =
    R"(usage: model_bench [--shape 0.6b|200m|14b|tiny] [--plan dense,hwfa2,hypenet,chunked]
                   [--weights bf16,int8,int4] [--cache auto] [--threads 1,2] [--batch N]
                   [--depths 0,4096] [--prefill 512] [--tokens 32] [--rounds 3] [--json FILE]
                   [--op-times] [--serve] [--checkpoint DIRECTORY] [--load DIRECTORY]
Whole steps of models with random weights: tokens/s of decode and prefill behind contexts of some
depths, each slice of work under a second between two reads of memory ("probes"). Every plan, type of
weights and number of threads has a table; 0 threads, the default, is one per logical processor.
--op-times adds the part of the time that each op takes, to each row.
--serve reads slices from standard input, as "decode 4096 32" or "prefill 0 512", and answers each
with a line of JSON; see docs/performance-notes.md.
--checkpoint measures nothing: it writes a model of the shape and plan, its random weights in bf16,
as a checkpoint that a server loads.
--load measures how long one that --checkpoint has written takes to load: packed anew, packed and
kept, and read as packed before.
)";

std::vector<SliceKind> BenchOptions::slices() const {
  std::vector<SliceKind> kinds;
  for (const int64_t depth : depths) {
    if (tokens > 0) kinds.push_back({SliceKind::Op::kDecode, depth, tokens});
    if (prefill > 0) kinds.push_back({SliceKind::Op::kPrefill, depth, prefill});
  }
  return kinds;
}

BenchOptions ParseBenchOptions(const std::vector<std::string>& arguments) {
  BenchOptions options;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--serve" || arguments[i] == "--op-times") {
      (arguments[i] == "--serve" ? options.serve : options.op_times) = true;
      continue;
    }
    const auto setter = Setters().find(arguments[i]);
    if (setter == Setters().end()) {
      throw std::invalid_argument(arguments[i] + ": there is no such option");
    }
    if (i + 1 == arguments.size()) {
      throw std::invalid_argument(arguments[i] + ": a value is missing");
    }
    try {
      setter->second(arguments[i + 1], options);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(arguments[i] + ": " + error.what());
    }
    ++i;
  }
  Check(options);
  return options;
}

}  // namespace longstream
