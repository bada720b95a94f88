// Checks that a plugin leaves nothing behind after it is loaded, opened, used, closed and unloaded
// many times.
#include <unistd.h>

#include "tests/conformance/checks.h"
#include "tests/conformance/plugin_file.h"
#include "tests/conformance/process_usage.h"
#include "tests/conformance/script.h"

namespace longstream::conformance {
namespace {

constexpr int kRounds = 20;

// Opens a model, uses it and closes it.
void UseModel(const Kit& kit) {
  Model model = kit.Open();
  Script script;
  const std::vector<int32_t> tokens = kit.Tokens(91, kit.grid() + 2);
  AddPrefill(script, tokens, 0, kit.grid());
  AddDecode(script, tokens, kit.grid(), kit.grid() + 2);
  RunAlone(model, script);
}

void ExpectFlat(Check& check, const std::function<void()>& round) {
  const ProcessUsage growth = MeasureGrowth(kRounds, round);
  const auto expect = [&](int64_t grown, int64_t allowed, const char* what) {
    check.Expect(grown <= allowed, std::string(what) + " grew by " + std::to_string(grown) +
                                       " in " + std::to_string(kRounds) + " rounds");
  };
  expect(growth.file_descriptors, 0, "open files");
  expect(growth.threads, 0, "threads");
  if (!CanMeasureHeap()) return;  // a sanitizer keeps freed memory, and finds leaks itself
  // The limit is half of malloc's smallest block per round, so a leak of one block per round
  // exceeds it.
  expect(growth.heap_bytes, kRounds * 16, "the heap's bytes");
  expect(growth.mappings, kRounds / 2, "memory mappings");
  // The limit is half of the smallest mapping per round.
  expect(growth.address_bytes, kRounds * sysconf(_SC_PAGESIZE) / 2, "the address space's bytes");
  // The allocator may keep a few more pages after one round than after another.
  expect(growth.resident_bytes, 1 << 20, "resident bytes");
}

}  // namespace

void RunReloadChecks(const Target& target, Report& report) {
  report.Run("reload.model", [&](Check& check) {
    const PluginFile plugin(target.plugin);
    const Kit kit(*plugin.backend(), target);
    ExpectFlat(check, [&] { UseModel(kit); });
  });
  report.Run("reload.plugin", [&](Check& check) {
    ExpectFlat(check, [&] {
      {
        const PluginFile plugin(target.plugin);
        UseModel(Kit(*plugin.backend(), target));
      }
      check.Expect(!IsMapped(target.plugin), "dlclose leaves the file mapped after use");
    });
  });
}

}  // namespace longstream::conformance
