#include "client/json/history_json.h"

#include <nlohmann/json.hpp>

namespace longstream::client {
namespace {

using Json = nlohmann::json;

// Only the server's check of a message promises that its further members are an object.
Json JsonOf(const v1::Message& message) {
  Json json = Json::parse(message.json(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) json = Json::object();
  json["role"] = message.role();
  if (message.has_content()) json["content"] = message.content();
  return json;
}

}  // namespace

const char* KindName(v1::HistoryKind kind) {
  switch (kind) {
    case v1::HISTORY_KIND_PROMPT:
      return "prompt";
    case v1::HISTORY_KIND_MESSAGE:
      return "message";
    case v1::HISTORY_KIND_ANSWER:
      return "answer";
    default:
      return "unknown";
  }
}

std::string HistoryJson(const v1::HistoryEntry& entry) {
  Json json = {{"kind", KindName(entry.kind())}, {"turn_id", entry.turn_id()}};
  if (entry.has_message()) {
    json["message"] = JsonOf(entry.message());
  } else {
    json["text"] = entry.text();
    json["position"] = entry.position();
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace longstream::client
