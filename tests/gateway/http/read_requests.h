// Gives bytes to a RequestReader in pieces, and collects its requests.
#ifndef LONGSTREAM_TESTS_GATEWAY_HTTP_READ_REQUESTS_H_
#define LONGSTREAM_TESTS_GATEWAY_HTTP_READ_REQUESTS_H_

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/http/request_reader.h"

namespace longstream::gateway {

inline void Add(RequestReader& reader, std::string_view bytes) {
  reader.Add(bytes.data(), bytes.size());
}

// Adds pieces of `piece` bytes, and takes each request when it is complete.
inline std::vector<HttpRequest> ReadIn(size_t piece, RequestReader& reader,
                                       std::string_view bytes) {
  std::vector<HttpRequest> requests;
  while (!bytes.empty()) {
    Add(reader, bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    while (reader.state() == RequestReader::State::kComplete) requests.push_back(reader.Take());
  }
  return requests;
}

// The problem of these bytes, when they come at once. Status 0: there is none.
inline RequestReader::Problem ProblemIn(std::string_view bytes, const RequestLimits& limits = {}) {
  RequestReader reader(limits);
  ReadIn(bytes.size(), reader, bytes);
  return reader.problem();
}

}  // namespace longstream::gateway

#endif  // LONGSTREAM_TESTS_GATEWAY_HTTP_READ_REQUESTS_H_
