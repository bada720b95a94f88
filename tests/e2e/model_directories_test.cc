// Serves a directory of every family with `longstream-server --model name=DIR` and no other option.
// Text, chat and the ids that end a reply must work as the files of the directory say. One server
// has all the models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_split.h"
#include "backends/architectures/families/family.h"
#include "client/connection.h"
#include "tests/e2e/hub_directory.h"
#include "tests/e2e/minimal_server.h"
#include "tests/processes/server_process.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAreArray;

constexpr std::chrono::milliseconds kPatience{30000};
constexpr uint32_t kTokens = 6;

// The checkpoints of tests/golden that are loaded without overrides.
std::vector<fs::path> Checkpoints() {
  std::vector<fs::path> paths;
  const fs::path golden = fs::path(LONGSTREAM_SOURCE_DIR) / "tests" / "golden";
  for (const auto& entry : fs::directory_iterator(golden)) {
    if (fs::exists(entry.path() / "config.json") && !fs::exists(entry.path() / "overrides.json")) {
      paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// One server for all models, started by the first test.
class Server {
 public:
  static const Server& Get() {
    static const Server server;
    return server;
  }
  std::string address() const { return process_->address(); }

 private:
  Server() {
    std::vector<std::string> arguments;
    for (const fs::path& path : Checkpoints()) {
      const std::string name = path.filename();
      const fs::path directory =
          WriteHubDirectory(path, VoiceOf(ModelTypeOf(path)), directory_.path() / name);
      arguments.insert(arguments.end(), {"--model", name + "=" + directory.string()});
    }
    process_ = std::make_unique<ServerProcess>(kServerBinary, std::move(arguments));
  }

  const TemporaryDirectory directory_;
  std::unique_ptr<ServerProcess> process_;
};

class ModelDirectoriesTest : public testing::TestWithParam<fs::path> {
 protected:
  ModelDirectoriesTest()
      : voice_(VoiceOf(ModelTypeOf(GetParam()))), connection_(Server::Get().address()) {}

  void SetUp() override {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    model_ = connection_.Model(name_);
    while (model_.state() == v1::MODEL_STATE_LOADING && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      model_ = connection_.Model(name_);
    }
    ASSERT_EQ(model_.state(), v1::MODEL_STATE_READY) << model_.error();
  }

  v1::GenerateRequest Request(const std::string& session) const {
    v1::GenerateRequest request;
    request.set_session_id(session);
    request.set_max_tokens(kTokens);
    return request;
  }
  static void Say(const std::string& content, v1::Input* input) {
    v1::Message* message = input->mutable_messages()->add_messages();
    message->set_role("user");
    message->set_content(content);
  }
  std::vector<int32_t> Ids(const v1::Input& input) {
    v1::ScoreRequest request;
    request.set_model(name_);
    *request.mutable_input() = input;
    std::vector<int32_t> ids;
    connection_.Score(request, [&](const v1::ScoreResponse& piece) {
      for (const v1::TokenScore& token : piece.tokens()) ids.push_back(token.token_id());
    });
    return ids;
  }

  const std::string name_ = GetParam().filename();
  const Voice& voice_;
  client::Connection connection_;
  v1::Model model_;
};

TEST_P(ModelDirectoriesTest, IsWhatItsFilesSay) {
  EXPECT_EQ(model_.architecture(), voice_.model_type);
  EXPECT_EQ(model_.vocabulary_size(), static_cast<uint64_t>(kHubVocabulary));
  const bool has_windows =
      std::any_of(model_.layers().begin(), model_.layers().end(),
                  [](const v1::Layer& layer) { return layer.kind() == "window"; });
  std::string backend = has_windows ? "hwfa2" : "dense";
  if (voice_.model_type == "hwfa2" || voice_.model_type == "hypenet") backend = voice_.model_type;
  if (voice_.model_type == "minicpm_sala") backend = "hypenet";
  EXPECT_EQ(model_.backend(), backend);
  EXPECT_EQ(model_.tokenizer(), voice_.tokenizer == "unigram" ? "unigram" : "bpe");
  EXPECT_THAT(model_.end_token_ids(), ElementsAreArray(voice_.end_ids));
  EXPECT_EQ(model_.sampling_defaults().temperature(), 0.5f);
  EXPECT_EQ(model_.sampling_defaults().top_k(), 20);
  EXPECT_EQ(model_.sampling_defaults().top_p(), 0.75f);
  EXPECT_EQ(model_.chat(), !voice_.chat_template.empty());
  EXPECT_EQ(model_.chat_error(), "");
}

TEST_P(ModelDirectoriesTest, GoesOnWithAText) {
  const auto [text, ids] = TextWithIds(voice_);
  v1::GenerateRequest request = Request(connection_.Open(name_).session_id());
  request.mutable_input()->set_text(text);
  request.mutable_stop()->set_ignore_eos(true);
  EXPECT_THAT(Ids(request.input()), ElementsAreArray(ids));
  const client::Generation generation = connection_.Generate(request);
  EXPECT_EQ(generation.finish.reason(), v1::FINISH_REASON_MAX_TOKENS);
  EXPECT_EQ(generation.finish.usage().prompt_tokens(), ids.size());
  EXPECT_EQ(generation.token_ids.size(), kTokens);
}

TEST_P(ModelDirectoriesTest, EndsAtEachEndId) {
  for (const int32_t id : voice_.end_ids) {
    v1::GenerateRequest request = Request(connection_.Open(name_).session_id());
    request.mutable_input()->set_text("Hello");
    (*request.mutable_sampling()->mutable_logit_bias())[id] = 100.0f;
    const client::Generation generation = connection_.Generate(request);
    EXPECT_EQ(generation.finish.reason(), v1::FINISH_REASON_STOP_TOKEN);
    EXPECT_EQ(generation.finish.stop_token(), id);
    EXPECT_THAT(generation.token_ids, testing::ElementsAre(id));
  }
}

TEST_P(ModelDirectoriesTest, TalksWhereItHasATemplate) {
  v1::GenerateRequest request = Request(connection_.Open(name_).session_id());
  Say("What is new?", request.mutable_input());
  if (voice_.chat_template.empty()) {
    try {
      connection_.Generate(request);
      ADD_FAILURE() << "a conversation succeeded on a model without a template";
    } catch (const client::CallError& error) {
      EXPECT_EQ(error.status().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    }
    return;
  }
  std::vector<int32_t> ids = Ids(request.input());
  ASSERT_GE(ids.size(), voice_.chat_prefix.size());
  ids.resize(voice_.chat_prefix.size());
  EXPECT_EQ(ids, voice_.chat_prefix);
  const client::Generation first = connection_.Generate(request);
  EXPECT_GT(first.tokens(), 0);
  if (model_.context_limit() < 200) return;  // the context is too short for a second turn
  request.clear_input();
  Say("And then?", request.mutable_input());
  const client::Generation second = connection_.Generate(request);
  EXPECT_GT(second.tokens(), 0);
  EXPECT_GT(second.finish.position(), first.finish.position());
}

INSTANTIATE_TEST_SUITE_P(All, ModelDirectoriesTest, testing::ValuesIn(Checkpoints()),
                         [](const auto& test) { return test.param.filename().string(); });

TEST(ModelDirectoriesTest, EveryFamilyIsAmongThem) {
  std::set<std::string> missing = absl::StrSplit(FamilyNames(), ", ");
  missing.insert({"hwfa2", "hypenet"});
  for (const fs::path& path : Checkpoints()) missing.erase(ModelTypeOf(path));
  EXPECT_THAT(missing, testing::IsEmpty());
}

}  // namespace
}  // namespace longstream
