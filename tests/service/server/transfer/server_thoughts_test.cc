// TurnStarted names the model and the marks of its thoughts, also when a turn is replayed.
#include <gtest/gtest.h>

#include <string>

#include "tests/service/server/transfer/server_files_fixture.h"

namespace longstream {
namespace {

class ServerThoughtsTest : public ServerFilesTest {
 protected:
  ServerThoughtsTest()
      : ServerFilesTest(0,
                        "{% for m in messages %}<{{ m.role }}>{{ m.content.split('</think>')[-1] }}"
                        "{% endfor %}{% if add_generation_prompt %}<assistant>"
                        "{{ '' if quiet else '<think>\n' }}{% endif %}") {}

  v1::GenerateRequest Chat(const std::string& session, int number, bool quiet) const {
    v1::GenerateRequest request = Turn(session, number);
    v1::Messages* const messages = request.mutable_input()->mutable_messages();
    v1::Message* const message = messages->add_messages();
    message->set_role("user");
    message->set_content("hi");
    messages->set_template_arguments(quiet ? R"({"quiet": true})" : R"({"quiet": false})");
    return request;
  }
  void ExpectMarks(const v1::TurnStarted& started, bool begun) {
    EXPECT_EQ(started.model(), "m");
    EXPECT_EQ(started.thoughts().begin(), "<think>");
    EXPECT_EQ(started.thoughts().end(), "</think>");
    EXPECT_EQ(started.thoughts().begun(), begun);
  }
};

TEST_F(ServerThoughtsTest, TheTemplateBeginsThem) {
  const std::string id = Open();
  ExpectMarks(Generate(Chat(id, 1, /*quiet=*/false)).started, true);
  ExpectMarks(Generate(Chat(id, 2, /*quiet=*/true)).started, false);
  const Generated replayed = Generate(Chat(id, 1, /*quiet=*/false));
  EXPECT_EQ(replayed.started.how(), v1::ATTACH_REPLAYED);
  ExpectMarks(replayed.started, true);
  ExpectMarks(Generate(Turn(Open(), 1)).started, false);

  // From the store.
  const std::string file = Exported(id);
  Close(id);
  v1::Session session;
  ASSERT_TRUE(Import(file, &session).ok());
  ExpectMarks(Generate(Chat(id, 1, /*quiet=*/false)).started, true);
  ExpectMarks(Generate(Chat(id, 2, /*quiet=*/true)).started, false);
}

TEST_F(ServerFilesTest, ATemplateWithoutMarksHasNone) {
  const Generated generated = Generate(Turn(Open(), 1));
  EXPECT_FALSE(generated.started.has_thoughts());
  EXPECT_EQ(generated.started.model(), "m");
}

}  // namespace
}  // namespace longstream
