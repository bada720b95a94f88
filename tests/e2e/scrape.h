// What Prometheus would read from a server.
#ifndef LONGSTREAM_TESTS_E2E_SCRAPE_H_
#define LONGSTREAM_TESTS_E2E_SCRAPE_H_

#include <map>
#include <optional>
#include <string>

namespace longstream {

// To 127.0.0.1:PORT. Says nothing by itself.
class TcpConnection {
 public:
  // Throws std::runtime_error.
  explicit TcpConnection(int port);
  ~TcpConnection();
  TcpConnection(const TcpConnection&) = delete;
  TcpConnection& operator=(const TcpConnection&) = delete;

  int fd() const { return fd_; }

 private:
  int fd_;
};

// The text of GET http://127.0.0.1:PORT/metrics. Throws std::runtime_error unless it is answered
// with 200.
std::string Scrape(int port);

// The value of the first sample of this name with all of these labels.
std::optional<double> SampleValue(const std::string& text, const std::string& name,
                                  const std::map<std::string, std::string>& labels);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_E2E_SCRAPE_H_
