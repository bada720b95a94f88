#include "tests/e2e/http/chat_server.h"

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "tests/e2e/scrape.h"

namespace longstream {
namespace {

constexpr std::chrono::seconds kPatience{60};

constexpr char kTemplate[] =
    "{%- for m in messages %}# {{ m.role }}\n{{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}# assistant\n{% endif %}";

}  // namespace

ChatModelDirectory::ChatModelDirectory(const std::string& architecture) {
  Write("chat_template.jinja", kTemplate);
  if (architecture == "minimal") {
    Write("config.json", R"({"model_type": "minimal"})");
    return;
  }
  const auto demo = std::filesystem::path(LONGSTREAM_SOURCE_DIR) / "models" / "demo" / architecture;
  for (const char* file : {"config.json", "model.safetensors"}) {
    std::filesystem::create_symlink(demo / file, path() / file);
  }
}

std::vector<std::string> ChatModelDirectory::Arguments(const std::string& options,
                                                       const std::string& yaml) const {
  return {"--plugins", LONGSTREAM_BINARY_DIR "/plugins",  "--model",       Flag(options),
          "--config",  Write("server.yaml", yaml + "\n"), "--http-listen", "127.0.0.1:0"};
}

Json ChatBody(const Conversation& conversation, int max_tokens) {
  Json messages = Json::array();
  for (const auto& [role, content] : conversation) {
    messages.push_back({{"role", role}, {"content", content}});
  }
  return {{"model", "m"},
          {"messages", std::move(messages)},
          {"max_tokens", max_tokens},
          {"temperature", 0}};
}

Json StreamBody(const Conversation& conversation, int max_tokens) {
  Json body = ChatBody(conversation, max_tokens);
  body["stream"] = true;
  return body;
}

std::string TextOf(const HttpReply& reply) {
  return reply.json().at("choices").at(0).at("message").at("content");
}

std::string SessionOf(const HttpReply& reply) {
  return reply.json().at("longstream").at("session");
}

std::string JoinedText(const std::vector<std::string>& events) {
  std::string text;
  for (const std::string& event : events) {
    if (event == "[DONE]") continue;
    const Json chunk = Json::parse(event);
    for (const Json& choice : chunk.at("choices")) {
      text += choice.at("delta").value("content", "");
    }
  }
  return text;
}

v1::GenerateRequest WholeTurn(const std::string& session, const Conversation& conversation,
                              int max_tokens) {
  v1::GenerateRequest request;
  request.set_session_id(session);
  request.set_max_tokens(static_cast<uint32_t>(max_tokens));
  request.mutable_sampling()->set_temperature(0);
  v1::Messages* const messages = request.mutable_input()->mutable_messages();
  messages->set_whole_conversation(true);
  for (const auto& [role, content] : conversation) {
    v1::Message* const message = messages->add_messages();
    message->set_role(role);
    message->set_content(content);
  }
  return request;
}

std::string FreshAnswer(client::Connection& connection, const Conversation& conversation,
                        int max_tokens) {
  const std::string session = connection.Open("m").session_id();
  std::string text = connection.Generate(WholeTurn(session, conversation, max_tokens)).text;
  connection.Close(session);
  return text;
}

ChatServer::ChatServer(const std::vector<std::string>& arguments,
                       const client::ChannelSecurity& security)
    : process_(kServerBinary, arguments), connection_(process_.address(), security) {
  connection_.WaitUntilServing("m", kPatience);
}

HttpReply ChatServer::Chat(const Json& body, const Headers& headers) const {
  try {
    return Post(http(), kChatPath, body, headers);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(error.what() + std::string("\n") + process_.Log());
  }
}

double ChatServer::Metric(const std::string& name,
                          const std::map<std::string, std::string>& labels) const {
  return SampleValue(Scrape(process_.metrics_port()), name, labels).value_or(0);
}

double ChatServer::PlainMetric(const std::string& name) const {
  const std::string text = Scrape(process_.metrics_port());
  const size_t found = text.find("\n" + name + " ");
  return found == std::string::npos ? 0 : std::atof(text.c_str() + found + name.size() + 2);
}

}  // namespace longstream
