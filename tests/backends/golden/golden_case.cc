// Reading golden cases and opening their checkpoints.
#include "tests/backends/golden/golden_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "backends/architectures/hypenet/hypenet_plan.h"
#include "backends/architectures/placement/dense_plan.h"
#include "backends/architectures/placement/hwfa2_plan.h"
#include "backends/checkpoint/config.h"
#include "backends/checkpoint/safetensors.h"

namespace longstream {
namespace {

const std::string kRoot = std::string(LONGSTREAM_SOURCE_DIR) + "/tests/golden";

constexpr BackendDefinition kBackends[] = {{"dense", "", DenseFit, DensePlan},
                                           {"hwfa2", "", Hwfa2Fit, Hwfa2Plan},
                                           {"hypenet", "", HypenetFit, HypenetPlan}};

std::string TextOf(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

template <typename Element>
std::vector<Element> Elements(const SafetensorsFile& file, const std::string& name,
                              const std::string& type) {
  for (const StoredTensor& tensor : file.tensors()) {
    if (tensor.name != name) continue;
    if (tensor.type_name != type) throw std::runtime_error(name + " is " + tensor.type_name);
    std::vector<Element> elements(tensor.num_bytes / sizeof(Element));
    file.Read(tensor.offset, std::as_writable_bytes(std::span(elements)), Executor());
    return elements;
  }
  throw std::runtime_error(file.path() + " has no tensor " + name);
}

}  // namespace

const BackendDefinition& BestBackend(const std::string& directory) {
  std::string why;
  for (const BackendDefinition& backend : kBackends) {
    if (backend.fit(Config(directory), &why) == 100) return backend;
  }
  throw std::runtime_error("no backend names " + directory + " its own: " + why);
}

std::vector<std::string> GoldenDirectories() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kRoot)) {
    if (std::filesystem::exists(entry.path() / "config.json")) {
      names.push_back(entry.path().filename());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> GoldenCasesOfReadme() {
  std::vector<std::string> names;
  std::ifstream readme(kRoot + "/README.md");
  const std::string prefix = "| `";
  for (std::string line; std::getline(readme, line);) {
    if (!line.starts_with(prefix)) continue;
    names.push_back(line.substr(prefix.size(), line.find('`', prefix.size()) - prefix.size()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

const std::string& GoldenRoot() { return kRoot; }

GoldenCase ReadGoldenCase(const std::string& name) {
  return ReadGoldenFile(name, kRoot + "/" + name + "/golden.safetensors");
}

GoldenCase ReadGoldenFile(const std::string& name, const std::string& path) {
  const SafetensorsFile file(path);
  return {name, Elements<int32_t>(file, "tokens", "I32"), Elements<int32_t>(file, "rows", "I32"),
          Elements<float>(file, "logits", "F32"), Elements<int32_t>(file, "greedy", "I32")};
}

bool HasExperts(const std::string& name) {
  const std::string directory = kRoot + "/" + name;
  return BestBackend(directory).plan(Config(directory), LoadOptions("{}")).has_experts();
}

std::unique_ptr<Model> OpenGoldenCase(const std::string& name, const std::string& options,
                                      const OpTable& ops, Device& device) {
  const std::string directory = kRoot + "/" + name;
  const std::string overrides_file = directory + "/overrides.json";
  const bool overridden = std::filesystem::exists(overrides_file);
  std::string json = "{" + options + "}";
  if (overridden) {
    json = TextOf(overrides_file);
    json.insert(json.find('{') + 1, options + (options.empty() ? "" : ","));
  }
  // With overrides, a dense checkpoint becomes one of the backend hwfa2.
  return OpenCheckpoint(overridden ? kBackends[1] : BestBackend(directory), directory, json, ops,
                        device);
}

std::unique_ptr<Model> OpenCheckpoint(const BackendDefinition& backend, const std::string& path,
                                      const std::string& options, const OpTable& ops,
                                      Device& device) {
  ls_host host{};
  host.struct_size = sizeof(host);
  host.num_threads = 1;
  ls_model_options open{};
  open.struct_size = sizeof(open);
  open.directory = path.c_str();
  open.options = options.c_str();
  open.max_batch_tokens = 1024;
  open.max_batch_sequences = 8;
  if (!device.host_memory()) open.cache_bytes_budget = uint64_t{64} << 20;
  open.host = &host;
  return OpenModel(backend, open, ops, device);
}

}  // namespace longstream
