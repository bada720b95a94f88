// Checks of the plugin's file and of the table that it exports.
#include <dlfcn.h>

#include <cfenv>
#include <clocale>
#include <csignal>
#include <cstring>

#include "tests/conformance/checks.h"
#include "tests/conformance/plugin_file.h"
#include "tests/conformance/process_usage.h"

namespace longstream::conformance {
namespace {

void OneExportedSymbol(const std::string& path, Check& check) {
  bool found = false;
  for (const std::string& name : ExportedSymbols(path)) {
    found |= name == LS_BACKEND_SYMBOL;
    check.Expect(name == LS_BACKEND_SYMBOL, "exports " + name + " besides " LS_BACKEND_SYMBOL);
  }
  check.Expect(found, "does not export " LS_BACKEND_SYMBOL);
}

// State of the process that loading a library may change: the floating-point environment (code
// built with -ffast-math flushes denormals for the whole thread), signal handlers and the locale.
struct Surroundings {
  std::fenv_t floating_point;
  void (*handlers[NSIG])(int);
  std::string locale;

  Surroundings() : locale(std::setlocale(LC_ALL, nullptr)) {
    std::memset(&floating_point, 0, sizeof(floating_point));
    std::fegetenv(&floating_point);
    for (int number = 1; number < NSIG; ++number) {
      struct sigaction action;
      handlers[number] = sigaction(number, nullptr, &action) == 0 ? action.sa_handler : nullptr;
    }
    handlers[0] = nullptr;
  }
};

void LoadingChangesNothing(const std::string& path, Check& check) {
  const Surroundings before;
  const ProcessUsage usage_before = MeasureProcess();
  {
    const PluginFile plugin(path);
    const Surroundings after;
    const ProcessUsage usage = MeasureProcess();
    check.Expect(
        std::memcmp(&before.floating_point, &after.floating_point, sizeof(std::fenv_t)) == 0,
        "loading changed the floating-point environment");
    check.Expect(std::equal(std::begin(before.handlers), std::end(before.handlers),
                            std::begin(after.handlers)),
                 "loading installed a signal handler");
    check.Expect(before.locale == after.locale, "loading changed the locale");
    check.Expect(usage.threads == usage_before.threads, "loading started a thread");
    check.Expect(usage.file_descriptors == usage_before.file_descriptors,
                 "loading left a file open");
    check.Expect(dlsym(RTLD_DEFAULT, LS_BACKEND_SYMBOL) == nullptr,
                 "loading with RTLD_LOCAL put the symbol into the global scope");
  }
  check.Expect(!IsMapped(path), "dlclose leaves the file mapped");
}

void TableIsThisAbi(const ls_backend& backend, Check& check) {
  check.Require(backend.abi_major == LS_ABI_MAJOR, "abi_major: expected " +
                                                       std::to_string(LS_ABI_MAJOR) + ", found " +
                                                       std::to_string(backend.abi_major));
  check.Require(backend.struct_size >= LS_BACKEND_SIZE_1_0,
                "struct_size: expected at least " + std::to_string(LS_BACKEND_SIZE_1_0) +
                    ", found " + std::to_string(backend.struct_size));
}

void TableIsComplete(const ls_backend& backend, Check& check) {
  const auto is_text = [](const char* text) { return text != nullptr && text[0] != '\0'; };
  check.Expect(is_text(backend.name), "name is missing");
  check.Expect(is_text(backend.device), "device is missing");
  check.Expect(is_text(backend.version), "version is missing");
  constexpr uint64_t kSince1_0 = LS_CAP_SNAPSHOT | LS_CAP_FORK | LS_CAP_SCORE |
                                 LS_CAP_QUANTISED_WEIGHTS | LS_CAP_IN_FLIGHT_TOKENS;
  uint64_t known = kSince1_0;
  if (backend.abi_minor >= 1) known |= LS_CAP_LOOK_AHEAD;
  if (backend.abi_minor >= 2) known |= LS_CAP_SET_BUDGET;
  if (backend.abi_minor >= 3) known |= LS_CAP_SEGMENTS;
  if (backend.abi_minor >= 4) known |= LS_CAP_ALLOWED_TOKENS;
  check.Expect(backend.abi_minor > LS_ABI_MINOR || (backend.capabilities & ~known) == 0,
               "capabilities: a bit that this minor version does not define");
  check.Expect((backend.capabilities & LS_CAP_LOOK_AHEAD) == 0 ||
                   (backend.capabilities & LS_CAP_IN_FLIGHT_TOKENS) != 0,
               "capabilities: LS_CAP_LOOK_AHEAD without LS_CAP_IN_FLIGHT_TOKENS");

  const auto expect = [&](bool present, const char* name) {
    check.Expect(present, std::string(name) + " is NULL");
  };
  expect(backend.probe != nullptr, "probe");
  expect(backend.model_open != nullptr, "model_open");
  expect(backend.model_close != nullptr, "model_close");
  expect(backend.model_info != nullptr, "model_info");
  expect(backend.model_memory != nullptr, "model_memory");
  expect(backend.sequence_create != nullptr, "sequence_create");
  expect(backend.sequence_free != nullptr, "sequence_free");
  expect(backend.sequence_reserve != nullptr, "sequence_reserve");
  expect(backend.sequence_checkpoint != nullptr, "sequence_checkpoint");
  expect(backend.sequence_truncate != nullptr, "sequence_truncate");
  expect(backend.sequence_position != nullptr, "sequence_position");
  expect(backend.sequence_bytes != nullptr, "sequence_bytes");
  expect(backend.submit != nullptr, "submit");
  expect(backend.wait != nullptr, "wait");
  const bool forks = (backend.capabilities & LS_CAP_FORK) != 0;
  const bool snapshots = (backend.capabilities & LS_CAP_SNAPSHOT) != 0;
  expect(!forks || backend.sequence_fork != nullptr, "sequence_fork");
  expect(!snapshots || backend.sequence_export != nullptr, "sequence_export");
  expect(!snapshots || backend.sequence_import != nullptr, "sequence_import");
  const auto reaches = [&](uint64_t capability, const char* name, size_t size) {
    if ((backend.capabilities & capability) == 0) return false;
    check.Require(backend.struct_size >= size,
                  std::string("struct_size: ") + name + " needs at least " + std::to_string(size) +
                      ", found " + std::to_string(backend.struct_size));
    return true;
  };
  if (reaches(LS_CAP_SET_BUDGET, "LS_CAP_SET_BUDGET", LS_BACKEND_SIZE_1_2)) {
    expect(backend.model_set_budget != nullptr, "model_set_budget");
  }
  if (!reaches(LS_CAP_SEGMENTS, "LS_CAP_SEGMENTS", LS_BACKEND_SIZE_1_3)) return;
  expect(backend.snapshot_begin != nullptr, "snapshot_begin");
  expect(backend.snapshot_read != nullptr, "snapshot_read");
  expect(backend.snapshot_free != nullptr, "snapshot_free");
  expect(backend.import_begin != nullptr, "import_begin");
  expect(backend.import_write != nullptr, "import_write");
  expect(backend.import_attach != nullptr, "import_attach");
  expect(backend.import_free != nullptr, "import_free");
}

}  // namespace

void RunFileChecks(const Target& target, Report& report) {
  const std::string& plugin = target.plugin;
  report.Run("abi.one_symbol", [&](Check& check) { OneExportedSymbol(plugin, check); });
  report.Run("abi.loading_changes_nothing", [&](Check& check) {
    if (!target.is_alone) throw CheckNotApplicable{"other targets use the process"};
    LoadingChangesNothing(plugin, check);
  });
  report.Run("abi.returns_table", [&](Check& check) {
    check.Expect(PluginFile(plugin).backend() != nullptr, "no table is returned");
  });
}

void RunTableChecks(const ls_backend& backend, Report& report) {
  report.Run("abi.version", [&](Check& check) { TableIsThisAbi(backend, check); });
  if (report.num_failed() > 0) return;
  report.Run("abi.table", [&](Check& check) { TableIsComplete(backend, check); });
}

}  // namespace longstream::conformance
