// A GGUF file served as it is: its template, its tokenizer and its sampling defaults.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "client/connection.h"
#include "tests/e2e/minimal_server.h"
#include "tests/processes/server_process.h"

namespace longstream {
namespace {

constexpr std::chrono::milliseconds kGgufPatience{60000};

// Two names of one model: the file, and the directory that has it.
TEST(GgufE2eTest, AFileIsServedAsItIs) {
  const std::string directory = LONGSTREAM_SOURCE_DIR "/tests/golden/gguf/served";
  ServerProcess server(kServerBinary,
                       {"--plugins", LONGSTREAM_BINARY_DIR "/plugins", "--model",
                        "file=" + directory + "/served.gguf", "--model", "directory=" + directory});
  client::Connection connection(server.address());
  std::string answers[2];
  for (const bool by_file : {true, false}) {
    const std::string name = by_file ? "file" : "directory";
    connection.WaitUntilServing(name, kGgufPatience);
    const v1::Model model = connection.Model(name);
    EXPECT_TRUE(model.chat());
    EXPECT_EQ(model.sampling_defaults().temperature(), 0.7f);
    v1::GenerateRequest request;
    request.set_session_id(connection.Open(name).session_id());
    request.set_max_tokens(20);
    request.mutable_sampling()->set_seed(7);
    v1::Message* message = request.mutable_input()->mutable_messages()->add_messages();
    message->set_role("user");
    message->set_content("def main():");
    const auto turn = connection.Generate(request);
    // "def", " ma", "in", "(" and "):" between the first and the last token of the template.
    EXPECT_EQ(turn.finish.usage().prompt_tokens(), 7u);
    answers[by_file ? 0 : 1] = turn.text;
  }
  EXPECT_FALSE(answers[0].empty());
  EXPECT_EQ(answers[0], answers[1]);
}

}  // namespace
}  // namespace longstream
