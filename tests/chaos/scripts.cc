#include "tests/chaos/scripts.h"

#include <atomic>
#include <chrono>
#include <future>
#include <set>

#include "client/connection.h"
#include "tests/processes/server_process.h"

namespace longstream::chaos {

Script MakeScript(const std::string& model, uint64_t seed,
                  const std::vector<uint32_t>& max_tokens) {
  Script script{model, {}};
  for (size_t turn = 0; turn < max_tokens.size(); ++turn) {
    const char* const text = turn % 2 == 0 ? "\ndef f(x):\n" : "\n    # then\n";
    script.turns.push_back({RandomTurn(text, max_tokens[turn], seed), {}});
    if (seed == 0) script.turns.back().request.mutable_sampling()->set_temperature(0);
  }
  return script;
}

void RunOnOneServer(const std::string& server, const std::string& models,
                    std::vector<Script>* scripts) {
  std::set<std::string> names;
  for (const Script& script : *scripts) names.insert(script.model);
  std::vector<std::string> arguments = {"--threads", "1"};
  for (const std::string& name : names) {
    arguments.insert(arguments.end(),
                     {"--model", name + "=" + models + "/" + name + ",device=cpu"});
  }
  const ServerProcess process(server, arguments);
  client::Connection connection(process.address());
  for (const std::string& name : names) {
    connection.WaitUntilServing(name, std::chrono::minutes(2));
  }
  ForEach(scripts->size(), scripts->size(), [&](size_t i) {
    Script& script = (*scripts)[i];
    RunUndisturbed(connection, script.model, &script.turns);
  });
}

void ForEach(size_t count, size_t at_once, const std::function<void(size_t)>& function) {
  std::atomic<size_t> next{0};
  std::vector<std::future<void>> threads;
  for (size_t i = 0; i < at_once; ++i) {
    threads.push_back(std::async(std::launch::async, [&] {
      for (size_t item; (item = next++) < count;) function(item);
    }));
  }
  for (std::future<void>& thread : threads) thread.wait();
  for (std::future<void>& thread : threads) thread.get();
}

}  // namespace longstream::chaos
