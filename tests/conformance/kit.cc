// Chooses lengths that fit the model and runs the checks.
#include "tests/conformance/kit.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <ostream>

#include "tests/conformance/checks.h"
#include "tests/conformance/plugin_file.h"

namespace longstream::conformance {
namespace {

// On a device other than the host, the default budget has room for this many of the longest
// sequences. No check makes more sequences.
constexpr uint64_t kDeviceSequences = 64;
// The budget there while the bytes of a sequence are not known yet.
constexpr uint64_t kFirstDeviceBudget = uint64_t{256} << 20;

}  // namespace

std::vector<int32_t> PseudoRandomTokens(uint64_t seed, size_t count, uint32_t vocabulary) {
  std::vector<int32_t> tokens;
  uint64_t state = seed;
  for (size_t i = 0; i < count; ++i) {
    // The generator is SplitMix64 (Steele et al. 2014).
    uint64_t x = state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    tokens.push_back(static_cast<int32_t>((x ^ (x >> 31)) % vocabulary));
  }
  return tokens;
}

Kit::Kit(const ls_backend& backend, const Target& target)
    : backend_(backend), target_(target), host_(2) {
  OpenOptions options;
  options.options = target.options;
  if (IsOnDevice()) options.cache_bytes_budget = kFirstDeviceBudget;
  const Model model(backend_, target_.model, options, host_);
  const ls_model_info& info = model.info();
  vocabulary_ = info.vocabulary_size;
  grid_ = info.prefill_grid;
  page_tokens_ = info.page_tokens;
  context_limit_ = info.context_limit;
  uint64_t reach = 0;
  for (uint32_t i = 0; i < info.num_layers; ++i) reach = std::max(reach, info.layers[i].window);

  if (grid_ == 0 || vocabulary_ < 2) throw CheckFailed{"prefill_grid is 0 or vocabulary_size < 2"};
  // The prompt also spans several pages, even if the grid is finer than a page, because kernels
  // read a context in blocks of pages.
  const uint64_t pages = uint64_t{3} * page_tokens_ + page_tokens_ / 2 + 3;
  const uint64_t wanted = std::max({uint64_t{3} * grid_ + grid_ / 2 + 3, reach + grid_ + 3, pages});
  if (context_limit_ < 2 * grid_ + 8 + tail()) {
    throw CheckFailed{"context_limit " + std::to_string(context_limit_) +
                      " is too short for a grid of " + std::to_string(grid_)};
  }
  prompt_ = static_cast<uint32_t>(std::min(wanted, context_limit_ - tail()));
  device_budget_ =
      kDeviceSequences * (info.kv_bytes_per_token * (prompt_ + tail() + page_tokens_) +
                          info.window_bytes_per_sequence + info.state_bytes_per_sequence +
                          info.checkpoint_bytes_per_sequence);
}

void Kit::Need(uint64_t capability, const char* name) const {
  if (!Has(capability)) throw CheckNotApplicable{std::string("capability: ") + name};
}

bool Kit::IsOnDevice() const { return std::strcmp(backend_.device, "cpu") != 0; }

OpenOptions Kit::Defaults() const {
  OpenOptions options;
  options.options = target_.options;
  options.max_batch_tokens = 8 * (prompt_ + tail());
  // Without a budget, each opened model would take all memory of the GPU and fill it with zeros.
  if (IsOnDevice()) options.cache_bytes_budget = device_budget_;
  return options;
}

Model Kit::Open(const OpenOptions& options) const {
  return Model(backend_, target_.model, options, host_);
}

void ExpectNoMisuse(Check& check, const TestHost& host) {
  check.Expect(host.misuse().empty(), "host: " + host.misuse());
}

namespace {

void RunModelChecks(const Kit& kit, Report& report) {
  for (const Checks& checks :
       {OpenChecks(), DeterminismChecks(), ForkChecks(), RollbackChecks(), SnapshotChecks(),
        SegmentChecks(), MemoryChecks(), SamplingChecks(), BatchChecks(), LookAheadChecks()}) {
    for (const NamedCheck& named : checks) {
      report.Run(named.name, [&](Check& check) {
        named.run(kit, check);
        ExpectNoMisuse(check, kit.host());
      });
    }
  }
}

}  // namespace

int RunConformance(const Target& target, std::ostream& out) {
  Report report(out);
  RunFileChecks(target, report);
  // A plugin that breaks the ABI cannot be called, and a model that does not open cannot be
  // checked.
  bool usable = report.num_failed() == 0;
  int num_run = 0;  // the number of checks that ran before --only takes effect
  if (usable) {
    const PluginFile plugin(target.plugin);
    std::optional<Kit> kit;
    RunTableChecks(*plugin.backend(), report);
    usable = report.num_failed() == 0;
    if (usable) {
      report.Run("model.open", [&](Check&) { kit.emplace(*plugin.backend(), target); });
      usable = report.num_failed() == 0;
    }
    report.RunOnly(target.only);
    num_run = report.num_run();
    if (usable) RunModelChecks(*kit, report);
  }
  if (usable && target.is_alone) RunReloadChecks(target, report);
  if (usable && report.num_run() == num_run) {
    report.RunOnly({});
    report.Run("--only", [](Check&) { throw CheckFailed{"no check's name begins like this"}; });
  }
  if (!usable) out << "the checks that follow were not run\n" << std::flush;
  report.Summarise();
  return report.num_failed();
}

}  // namespace longstream::conformance
