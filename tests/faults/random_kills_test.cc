// Many clients of the demo models, whose server is killed at random. Every client goes on by
// itself, and every token is that of an undisturbed run.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/faults/kept_server.h"
#include "tests/faults/turn_script.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using Clock = std::chrono::steady_clock;

const std::vector<std::string> kModels = {"dense", "hwfa2", "hypenet"};
constexpr int kScripts = 3;  // of each model
constexpr uint32_t kRandomTokens = 24;

// The template keeps only the first letter of every reply but the last message. So each turn of a
// conversation rewrites the history of the turn before.
constexpr char kTemplate[] =
    "{%- for m in messages %}# {{ m.role }}\n"
    "{{ m.content[:1] if m.role == 'assistant' and not loop.last else m.content }}\n"
    "{% endfor %}{% if add_generation_prompt %}# assistant\n{% endif %}";

// The demo models with a chat template.
class ChatModels {
 public:
  ChatModels() {
    for (const std::string& model : kModels) {
      const std::filesystem::path demo =
          std::filesystem::path(LONGSTREAM_SOURCE_DIR) / "models" / "demo" / model;
      std::filesystem::create_directory(directory_.path() / model);
      for (const char* file : {"config.json", "model.safetensors"}) {
        std::filesystem::create_symlink(demo / file, directory_.path() / model / file);
      }
      directory_.Write(model + "/chat_template.jinja", kTemplate);
    }
  }
  std::vector<std::string> Arguments() const {
    std::vector<std::string> arguments;
    for (const std::string& model : kModels) {
      arguments.insert(arguments.end(), {"--model", model + "=" + directory_.string() + "/" +
                                                        model + ",device=cpu"});
    }
    return arguments;
  }

 private:
  const TemporaryDirectory directory_;
};

v1::GenerateRequest Say(const std::string& text, uint64_t seed) {
  v1::GenerateRequest request = RandomTurn("", kRandomTokens, seed);
  request.mutable_input()->clear_text();
  v1::Message* const message = request.mutable_input()->mutable_messages()->add_messages();
  message->set_role("user");
  message->set_content(text);
  return request;
}

class RandomKillsTest : public testing::Test {
 protected:
  using Script = std::vector<ScriptedTurn>;

  RandomKillsTest() : server_(models_.Arguments()) {
    client::Connection connection(server_.address());
    for (const std::string& model : kModels) {
      server_.WaitUntilServing(model);
      for (uint64_t seed = 0; seed < kScripts; ++seed) {
        Script script;
        for (const char* text : {"def main():\n", "\n    # then\n", "\nclass A:\n"}) {
          // The last script is a conversation.
          script.push_back(
              {seed + 1 == kScripts ? Say(text, seed) : RandomTurn(text, kRandomTokens, seed), {}});
        }
        RunUndisturbed(connection, model, &script);
        scripts_[model].push_back(script);
      }
    }
  }

  // Runs sessions one after the other until `until`, or until a call fails.
  void RunSessions(uint32_t seed, Clock::time_point until) {
    try {
      RunSessionsOrThrow(seed, until);
    } catch (const client::CallError& error) {
      ADD_FAILURE() << error.what();
    }
  }
  void RunSessionsOrThrow(uint32_t seed, Clock::time_point until) {
    std::mt19937 random(seed);
    client::Connection connection(server_.address());
    while (Clock::now() < until && !testing::Test::HasFailure()) {
      const std::string& model = kModels[random() % kModels.size()];
      PersistentSession session(&connection, model);
      for (const ScriptedTurn& turn : scripts_.at(model)[random() % kScripts]) session.Run(turn);
      session.CheckTurns();
      session.Close();
      const std::lock_guard<std::mutex> lock(mutex_);
      counts_.Add(session.counts());
    }
  }

  const ChatModels models_;
  KeptServer server_;
  std::map<std::string, std::vector<Script>> scripts_;  // by model
  std::mutex mutex_;
  FaultCounts counts_;
};

TEST_F(RandomKillsTest, ChangeNoTokenOf64Streams) {
  const std::chrono::seconds seconds(NumberFromEnvironment("LONGSTREAM_FAULT_SECONDS", 10));
  const Clock::time_point until = Clock::now() + seconds;
  std::vector<std::thread> clients;
  for (uint32_t i = 0; i < 64; ++i) {
    clients.emplace_back([this, i, until] { RunSessions(i, until); });
  }
  std::mt19937 random(7);
  int kills = 0;
  while (Clock::now() < until) {
    // On a busy machine a server may need seconds until it serves, and every server shall serve.
    for (const std::string& model : kModels) server_.WaitUntilServing(model);
    std::this_thread::sleep_for(std::chrono::milliseconds(500 + random() % 3000));
    server_.Kill();
    ++kills;
  }
  for (std::thread& client : clients) client.join();
  std::cout << kills << " kills; " << counts_.ToString() << '\n';
  EXPECT_GT(counts_.turns, 64u);
  EXPECT_EQ(counts_.different + counts_.missing + counts_.twice, 0u);
}

}  // namespace
}  // namespace longstream
