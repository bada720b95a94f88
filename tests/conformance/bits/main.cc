// bits_driver: runs a fixed workload on the plugins of one build and writes every result to files.
#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/instruction_set.h"
#include "kernels/core/pinned_isa.h"
#include "kernels/cpu/cpu_ops.h"
#include "tests/conformance/bits/workload.h"
#include "tests/conformance/model.h"
#include "tests/conformance/plugin_file.h"
#include "tests/conformance/report.h"
#include "tests/conformance/test_host.h"

namespace longstream::conformance {
namespace {

namespace fs = std::filesystem;

constexpr char kUsage[] =
    "usage: bits_driver BUILD SET OUT MODEL_DIR...\n"
    "Loads the plugins of the build directory BUILD, goes through a fixed workload on each model,\n"
    "and writes what the model gives to OUT/<parent>/<model>.<types>.txt.\n"
    "  SET  baseline, avx2, avx512_f32, avx512, amx: BUILD/plugins with this CPU instruction set, "
    "on\n"
    "       1 and on 2 threads; simt: BUILD/test_plugins, whose CUDA kernels the CPU executes\n"
    "Exit code: 0; 1 where a model fails or 2 threads give other bits than 1; 2: wrong usage; 3:\n"
    "this processor does not have SET.\n";

enum ExitCode { kDone = 0, kFailed = 1, kUsageError = 2, kNoSuchSet = 3 };

// The types of weights and caches with which a model is opened.
struct Types {
  const char* name;
  const char* options;  // members of a JSON object
};

// An instruction set or the simulated GPU (simt): the names of its plugins and the size of its
// workload.
struct Set {
  std::string kernels;  // ls_model_info.kernels
  const char* plugin_prefix;
  const char* plugin_suffix;
  WorkloadSize size;
  uint64_t cache_bytes_budget;
  std::vector<uint32_t> threads;
  std::vector<Types> types;       // used for every model
  std::vector<Types> more_types;  // also used for a few models (HasMoreTypes)
};

constexpr Types kStored = {"stored", ""};
constexpr Types kF32 = {"f32", R"("weights": "f32", "cache": "f32")"};
constexpr Types kBF16 = {"bf16", R"("weights": "bf16", "cache": "bf16")"};
constexpr Types kInt8 = {"int8", R"("weights": "int8")"};
constexpr Types kInt4 = {"int4", R"("weights": "int4")"};
constexpr Types kInt8Cache = {"int8_cache", R"("cache": "int8")"};
constexpr Types kInt4Int8Cache = {"int4_int8_cache", R"("weights": "int4", "cache": "int8")"};

Set SetNamed(const std::string& name) {
  if (name == "simt") {
    return {.kernels = "cuda",
            .plugin_prefix = "test_plugins/simt_",
            .plugin_suffix = ".so",
            .size = {.prompt = 134, .scored = 40, .decode = 4, .streams = 6},
            .cache_bytes_budget = 16 << 20,
            .threads = {1},
            .types = {kStored},
            .more_types = {kInt8, kInt4}};
  }
  return {.kernels = name,
          .plugin_prefix = "plugins/",
          .plugin_suffix = ".cpu.so",
          .size = {.prompt = 430, .scored = 430, .decode = 24, .streams = 15},
          .cache_bytes_budget = 0,
          .threads = {1, 2},
          .types = {kStored, kInt8, kInt4, kInt8Cache},
          .more_types = {kF32, kBF16, kInt4Int8Cache}};
}

// Whether a model is opened with `more_types` too. This is so for demo models, and for one golden
// model per kind of layers.
bool HasMoreTypes(const fs::path& name) {
  const std::vector<std::string> golden = {"qwen2", "hwfa2_leaky", "gau_hwfa2",
                                           "hypenet_published_odd", "hypenet_chunked"};
  return name.parent_path() == "demo" ||
         std::find(golden.begin(), golden.end(), name.filename()) != golden.end();
}

bool IsKnown(const std::string& set) {
  return set == "simt" ||
         std::find(std::begin(kIsaNames), std::end(kIsaNames), set) != std::end(kIsaNames);
}

bool IsHere(const std::string& set) { return set == "simt" || CanRunIsa(set); }

std::string TextOf(const fs::path& path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Returns the options of a model: its overrides, if the checkpoint has any, and the members of
// `types` and `more`. Packed weights are not stored, because one build would read the weights that
// the other packed.
std::string OptionsFor(const fs::path& directory, const Types& types, const std::string& more) {
  std::string members = R"("packed_cache": "off")" + more;
  if (*types.options != '\0') members += std::string(", ") + types.options;
  std::string json = "{}";
  if (fs::exists(directory / "overrides.json")) {
    json = TextOf(directory / "overrides.json");
    members += ",";
  }
  return json.insert(json.find('{') + 1, members);
}

// The plugins of a build for one set.
class Plugins {
 public:
  Plugins(const fs::path& build, const Set& set) {
    for (const char* name : {"dense", "hwfa2", "hypenet"}) {
      const fs::path path = build / (set.plugin_prefix + std::string(name) + set.plugin_suffix);
      files_.push_back(std::make_unique<PluginFile>(path));
      if (files_.back()->backend() == nullptr) throw CheckFailed{path.string() + ": no plugin"};
    }
  }

  // Returns the backend for a checkpoint. Overrides mean hwfa2, even for a checkpoint that the
  // dense backend would serve.
  const ls_backend& For(const fs::path& directory) const {
    if (fs::exists(directory / "overrides.json")) return *files_[1]->backend();
    ErrorText error;
    for (const auto& file : files_) {
      int32_t fit = 0;
      const ls_code code = file->backend()->probe(directory.c_str(), &fit, error.get());
      if (code == LS_OK && fit == 100) return *file->backend();
    }
    throw CheckFailed{"no backend names it its own: " + error.str()};
  }

 private:
  std::vector<std::unique_ptr<PluginFile>> files_;
};

// A golden model with a context limit below this is opened with a larger limit.
constexpr uint64_t kFewPositions = 256;

std::string TraceOf(const ls_backend& backend, const fs::path& directory, const Set& set,
                    const Types& types, uint32_t num_threads) {
  const TestHost host(num_threads);
  WorkloadSize size = set.size;
  OpenOptions options;
  options.cache_bytes_budget = set.cache_bytes_budget;
  options.max_batch_tokens = 2 * size.prompt;
  options.max_batch_sequences = size.streams;
  options.options = OptionsFor(directory, types, "");
  auto model = std::make_unique<Model>(backend, directory, options, host);
  if (model->info().context_limit < kFewPositions) {
    model.reset();
    options.options =
        OptionsFor(directory, types, R"(, "context_limit": )" + std::to_string(size.positions()));
    model = std::make_unique<Model>(backend, directory, options, host);
  }
  // If the model still has too few positions, the prompts become shorter.
  const uint64_t limit = model->info().context_limit;
  if (limit < size.positions()) size.prompt -= size.positions() - static_cast<uint32_t>(limit);
  size.scored = std::min(size.scored, size.prompt);
  if (model->info().kernels != set.kernels) {
    throw CheckFailed{std::string("the plugin computes with ") + model->info().kernels};
  }
  std::string text = std::string("backend ") + backend.name + "\n" + RunWorkload(*model, size);
  if (!host.misuse().empty()) throw CheckFailed{"host: " + host.misuse()};
  return text;
}

// Writes the trace of one model, whose weights and caches have `types`, to `file`.
void WriteTrace(const ls_backend& backend, const fs::path& directory, const Set& set,
                const Types& types, const fs::path& file) {
  const std::string text = TraceOf(backend, directory, set, types, set.threads.front());
  fs::create_directories(file.parent_path());
  std::ofstream stream(file, std::ios::binary);
  stream << text;
  if (!stream.flush()) throw CheckFailed{"cannot write " + file.string()};
  for (size_t i = 1; i < set.threads.size(); ++i) {
    if (TraceOf(backend, directory, set, types, set.threads[i]) == text) continue;
    throw CheckFailed{std::to_string(set.threads[i]) + " threads give other bits than 1"};
  }
}

ExitCode Run(const fs::path& build, const std::string& set_name, const fs::path& out,
             const std::vector<fs::path>& models) {
  if (!IsHere(set_name)) return kNoSuchSet;
  const Set set = SetNamed(set_name);
  // The plugins read these environment variables when they choose their device.
  if (set_name == "simt") {
    setenv("LONGSTREAM_SIMT_MACHINE", "memory=64000000", 1);
  } else {
    setenv("LONGSTREAM_ISA", set_name.c_str(), 1);
  }
  const Plugins plugins(build, set);
  ExitCode result = kDone;
  for (const fs::path& directory : models) {
    const fs::path name = directory.parent_path().filename() / directory.filename();
    std::vector<Types> all = set.types;
    if (HasMoreTypes(name)) all.insert(all.end(), set.more_types.begin(), set.more_types.end());
    for (const Types& types : all) {
      const std::string file = name.string() + "." + types.name + ".txt";
      try {
        WriteTrace(plugins.For(directory), directory, set, types, out / file);
      } catch (const CheckFailed& failure) {
        std::cerr << set_name << " " << file << ": " << failure.why << "\n";
        result = kFailed;
      }
    }
  }
  return result;
}

}  // namespace
}  // namespace longstream::conformance

int main(int argc, char** argv) {
  using namespace longstream::conformance;
  if (argc < 5 || !IsKnown(argv[2])) {
    std::cerr << kUsage;
    return kUsageError;
  }
  try {
    return Run(argv[1], argv[2], argv[3], {argv + 4, argv + argc});
  } catch (const CheckFailed& failure) {
    std::cerr << argv[2] << ": " << failure.why << "\n";
  } catch (const std::exception& failure) {
    std::cerr << argv[2] << ": " << failure.what() << "\n";
  }
  return kFailed;
}
