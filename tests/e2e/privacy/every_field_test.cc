// Each text that a request can have gets a canary of its own. None is in a log, in a metric, in a
// file outside the store, or in an error of another caller. The methods and their fields are those
// that the server's reflection shows, so a new field is tested without a change of this file.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/connection.h"
#include "tests/e2e/minimal_server.h"
#include "tests/e2e/privacy/text_fields.h"
#include "tests/e2e/scrape.h"
#include "tests/processes/server_process.h"
#include "tests/service/server/transport/raw_call.h"
#include "tests/service/server/transport/reflected_methods.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MethodDescriptor;
using testing::Contains;
using testing::HasSubstr;

constexpr char kTemplateOfFields[] =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

class EveryFieldTest : public testing::Test {
 protected:
  EveryFieldTest() {
    minimal_.Write("chat_template.jinja", kTemplateOfFields);
    setenv("TMPDIR", temporary_.string().c_str(), 1);
    server_ = std::make_unique<ServerProcess>(
        kServerBinary, std::vector<std::string>{"--model", minimal_.Flag(), "--store", store_,
                                                "--log-level", "debug"});
    channel_ = grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials());
    client::Connection(server_->address()).WaitUntilServing("m", std::chrono::seconds(60));
    methods_ = std::make_unique<ReflectedMethods>(channel_);
  }
  ~EveryFieldTest() override { unsetenv("TMPDIR"); }

  // Makes the session, which is empty, in the place of the former one.
  void RenewSession() {
    client::Connection connection(server_->address());
    connection.Open("m", session_);  // a call may have closed it
    connection.Close(session_);
    connection.Open("m", session_);
  }

  // Sets fields without which a call fails before the server looks at the others.
  void SetUsual(Message* message) const {
    const std::map<std::string, std::string> texts = {
        {"session_id", session_}, {"role", "user"}, {"name", "m"}};
    for (const auto& [name, text] : texts) {
      const FieldDescriptor* const field = message->GetDescriptor()->FindFieldByName(name);
      if (field == nullptr || field->is_repeated()) continue;
      if (field->cpp_type() != FieldDescriptor::CPPTYPE_STRING) continue;
      message->GetReflection()->SetString(message, field, text);
    }
    const FieldDescriptor* const tokens = message->GetDescriptor()->FindFieldByName("max_tokens");
    if (tokens != nullptr && tokens->cpp_type() == FieldDescriptor::CPPTYPE_UINT32) {
      message->GetReflection()->SetUInt32(message, tokens, 2);
    }
  }
  // The usual request of the method, with `text` at the end of `path`. An empty path: without.
  std::string Request(const MethodDescriptor& method, const Path& path, const std::string& text) {
    const std::unique_ptr<Message> request(factory_.GetPrototype(method.input_type())->New());
    SetText(request.get(), path, text, [this](Message* message) { SetUsual(message); });
    return request->SerializeAsString();
  }
  grpc::Status Call(const MethodDescriptor& method, const std::string& request) {
    // Watch has no end of its own.
    const auto timeout =
        method.name() == "Watch" ? std::chrono::milliseconds(50) : std::chrono::minutes(5);
    return CallRaw(channel_, ReflectedMethods::PathOf(method), {request}, GRPC_COMPRESS_NONE, {},
                   timeout)
        .status;
  }

  // Another caller calls every method with the id of the session.
  void ExpectOthersLearnNothing(const std::string& after) {
    for (const MethodDescriptor* method : methods_->all()) {
      if (method->name() == "CloseSession" || method->name() == "Watch") continue;
      const grpc::Status status = Call(*method, Request(*method, {}, ""));
      EXPECT_EQ(status.error_message().find(kCanary), std::string::npos)
          << method->name() << " after " << after << ": " << status.error_message();
    }
  }
  const TemporaryDirectory temporary_;  // the server's files must not be anywhere else
  const MinimalModelDirectory minimal_;
  const std::string store_ = temporary_.string() + "/store";
  std::unique_ptr<ServerProcess> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<ReflectedMethods> methods_;
  google::protobuf::DynamicMessageFactory factory_;
  const std::string session_ = "000000000000000000000000000000aa";
};

TEST_F(EveryFieldTest, ItsTextIsOnlyWhereItBelongs) {
  std::map<std::string, std::string> names;
  std::set<std::string> accepted;             // fields with a call that succeeded
  std::map<std::string, std::string> errors;  // of the last call for a field
  for (const MethodDescriptor* method : methods_->all()) {
    std::vector<Path> paths;
    AddPaths(*method->input_type(), {}, {}, &paths);
    for (const Path& path : paths) {
      const std::string name = NameOf(*method, path);
      // As it is, and as a JSON value, for fields that are read as JSON.
      for (const char* const form : {"$", R"({"a": "$"})", R"([{"name": "$"}])"}) {
        const std::string canary = Canary(names.size());
        names[canary] = name;
        std::string text = form;
        text.replace(text.find('$'), 1, canary);
        RenewSession();
        const grpc::Status status = Call(*method, Request(*method, path, text));
        if (status.ok()) accepted.insert(name);
        errors[name] = status.error_message();
      }
      ExpectOthersLearnNothing(name);
    }
  }
  // The test finds the fields, and its requests get as far as these fields.
  for (const char* const name :
       {"Append.input.text", "Generate.input.text", "Generate.input.messages.messages.content"}) {
    EXPECT_THAT(accepted, Contains(name)) << errors[name];
  }
  EXPECT_THAT(server_->Log(), HasSubstr("\"event\":\"call_failed\"")) << "failed calls are logged";

  ExpectNoCanary(Scrape(server_->metrics_port()), "a metric", names);
  EXPECT_EQ(server_->Stop(), 0);
  ExpectNoCanary(server_->Log(), "the log", names);
  ExpectNoFileHasCanary(temporary_.path(), store_, names);
}

}  // namespace
}  // namespace longstream
