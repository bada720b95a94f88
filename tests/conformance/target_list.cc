// Reads targets from arguments and files, and runs many of them in threads.
#include "tests/conformance/target_list.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <ostream>
#include <sstream>
#include <thread>

#include "tests/conformance/plugin_file.h"

namespace longstream::conformance {

constexpr uint32_t kMostPrompts = 1000;

std::string ParseTarget(const std::vector<std::string>& arguments, Target* target) {
  target->options = "{}";
  int num_positional = 0;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!argument.starts_with('-')) {
      (num_positional++ == 0 ? target->plugin : target->model) = argument;
      continue;
    }
    const bool is_known = argument == "--options" || argument == "--other-model" ||
                          argument == "--tolerance" || argument == "--prompts" ||
                          argument == "--only";
    if (!is_known) return "unknown flag " + argument;
    if (++i == arguments.size()) return "no value after " + argument;
    const std::string& value = arguments[i];
    if (argument == "--options") target->options = value;
    if (argument == "--other-model") target->other_model = value;
    if (argument == "--only") target->only.push_back(value);
    if (argument == "--tolerance") target->tolerance = std::atof(value.c_str());
    if (argument == "--prompts") target->prompts = static_cast<uint32_t>(std::atoi(value.c_str()));
  }
  if (num_positional != 2) return "expected a plugin and a model";
  if (target->prompts < 1 || target->prompts > kMostPrompts) {
    return "--prompts must be from 1 to " + std::to_string(kMostPrompts);
  }
  return target->tolerance > 0 ? "" : "--tolerance must be greater than 0";
}

std::string ReadTargets(const std::string& path, std::vector<Target>* targets) {
  std::ifstream file(path);
  if (!file) return path + " cannot be read";
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    std::vector<std::string> arguments;
    std::istringstream parts(line);
    for (std::string part; std::getline(parts, part, '\t');) arguments.push_back(part);
    const std::string wrong = ParseTarget(arguments, &targets->emplace_back());
    if (!wrong.empty()) return path + ", target " + std::to_string(targets->size()) + ": " + wrong;
    targets->back().is_alone = false;
  }
  return targets->empty() ? path + " has no target" : "";
}

int RunTargets(const std::vector<Target>& targets, uint32_t num_threads, std::ostream& out) {
  // Keeps the plugins loaded, so that none is initialised anew for each target.
  std::map<std::string, std::unique_ptr<PluginFile>> plugins;
  for (const Target& target : targets) {
    std::unique_ptr<PluginFile>& plugin = plugins[target.plugin];
    if (plugin != nullptr) continue;
    try {
      plugin = std::make_unique<PluginFile>(target.plugin);
    } catch (const CheckFailed& failure) {
      out << "FAILED          " << target.plugin << ": " << failure.why << std::endl;
      return 1;
    }
  }

  std::atomic<size_t> next{0};
  std::mutex mutex;  // protects `out` and the sums
  size_t num_ended = 0;
  int num_failed = 0;
  const auto work = [&] {
    for (size_t i = next++; i < targets.size(); i = next++) {
      const Target& target = targets[i];
      std::ostringstream lines;
      const auto begin = std::chrono::steady_clock::now();
      const int failed = RunConformance(target, lines);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
      const std::lock_guard lock(mutex);
      num_failed += failed;
      out << "=== " << target.model << " " << target.options << "\n"
          << lines.str() << "--- " << ++num_ended << " of " << targets.size() << " targets, "
          << (failed == 0 ? "passed" : "FAILED") << ", " << seconds.count() << " s" << std::endl;
    }
  };
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < num_threads; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  out << targets.size() << " targets, " << num_failed << " checks failed" << std::endl;
  return num_failed;
}

}  // namespace longstream::conformance
