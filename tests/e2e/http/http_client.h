// A client of HTTP/1.1 for tests, with one connection a request. It reads whole answers and streams
// of server-sent events, and can leave in the middle of a stream.
#ifndef LONGSTREAM_TESTS_E2E_HTTP_HTTP_CLIENT_H_
#define LONGSTREAM_TESTS_E2E_HTTP_HTTP_CLIENT_H_

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/tcp_client.h"

namespace longstream {

using Json = nlohmann::json;
using Headers = std::map<std::string, std::string>;

struct HttpReply {
  int status = 0;
  Headers headers;  // names in lower case
  std::string body;

  // Throws if the body is no JSON.
  Json json() const { return Json::parse(body); }
};

// The bytes of a request, after whose answer the connection ends.
std::string RequestText(const std::string& method, const std::string& path, std::string_view body,
                        const Headers& headers = {});

// The answer in these bytes, which must be a whole one. Throws std::runtime_error.
HttpReply ParseReply(const std::string& bytes);

// Makes one request. Throws std::runtime_error if its answer is not whole.
HttpReply Ask(int port, const std::string& method, const std::string& path,
              std::string_view body = "", const Headers& headers = {});
HttpReply Post(int port, const std::string& path, const Json& body, const Headers& headers = {});
inline HttpReply Get(int port, const std::string& path, const Headers& headers = {}) {
  return Ask(port, "GET", path, "", headers);
}

// One request whose answer comes piece by piece. Functions throw std::runtime_error if the server
// ends the connection too early, breaks a rule of HTTP, or sends nothing for 30 s.
class HttpStream {
 public:
  // Sends the request, and returns at once. Call one of the other functions next.
  HttpStream(int port, const std::string& path, const Json& body, const Headers& headers = {});
  // A GET.
  HttpStream(int port, const std::string& path);

  // Waits for the header of the answer.
  int status();
  const Headers& headers();

  // The data of the next event. Comments are skipped. Absent: the stream has ended as it should.
  std::optional<std::string> Next();
  // The data of all further events.
  std::vector<std::string> Rest();
  // The body of an answer that is no stream of events.
  std::string Body();

  // Closes the connection.
  void Leave() { client_.Close(); }
  // Closes it with a reset.
  void Reset() { client_.Reset(); }

 private:
  void ReadHeader();
  // Reads more bytes of the connection. False: the server has closed it.
  bool Receive();
  // Reads up to the end of a line, which is not returned.
  std::string Line();
  // Appends the next chunk to text_. False: it was the last one.
  bool ReadChunk();

  TcpClient client_;
  std::string bytes_;  // received and not parsed
  std::string text_;   // of the stream, not returned
  HttpReply reply_;
  bool has_header_ = false;
  bool ended_ = false;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_E2E_HTTP_HTTP_CLIENT_H_
