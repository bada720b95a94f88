// Random bytes, and requests with random faults, in random pieces. The reader must not crash, must
// not hold more than its limits, and must read the same whatever the pieces are.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/http/request_reader.h"
#include "tests/fuzz_trials.h"
#include "tests/gateway/http/read_requests.h"

namespace longstream::gateway {
namespace {

using Random = std::mt19937;
using State = RequestReader::State;

constexpr RequestLimits kLimits{.header_bytes = 300, .header_fields = 8, .body_bytes = 200};

size_t Below(Random& random, size_t bound) {
  return std::uniform_int_distribution<size_t>(0, bound - 1)(random);
}

std::string Chunks(Random& random) {
  std::string text;
  for (size_t i = Below(random, 4); i > 0; --i) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    const size_t size = 1 + Below(random, 15);
    text += kDigits[size];
    text += (Below(random, 4) == 0 ? ";x=y\r\n" : "\r\n") + std::string(size, 'c') + "\r\n";
  }
  return text + (Below(random, 3) == 0 ? "0\r\nAfter: 1\r\n\r\n" : "0\r\n\r\n");
}

std::string RandomRequest(Random& random) {
  constexpr std::string_view kFields[] = {"Host: a\r\n", "Connection: close\r\n", "X: y\r\n",
                                          "Expect: 100-continue\r\n",
                                          "Long: aaaaaaaaaaaaaaaaaa\r\n"};
  std::string text = Below(random, 2) == 0 ? "POST /v1?a" : "GET /";
  text += Below(random, 8) == 0 ? " HTTP/1.0\r\n" : " HTTP/1.1\r\n";
  for (size_t i = Below(random, 4); i > 0; --i) text += kFields[Below(random, std::size(kFields))];
  switch (Below(random, 3)) {
    case 0:
      return text + "\r\n";
    case 1: {
      const size_t size = Below(random, 60);
      return text + "Content-Length: " + std::to_string(size) + "\r\n\r\n" + std::string(size, 'b');
    }
    default:
      return text + "Transfer-Encoding: chunked\r\n\r\n" + Chunks(random);
  }
}

// A change of some bytes, or a piece of it that is lost or comes again.
void Mutate(Random& random, std::string* text) {
  constexpr std::string_view kBytes{"\r\n :;,/0aF\0\xff\"", 14};
  constexpr std::string_view kTexts[] = {"\r\n",
                                         "\r\n\r\n",
                                         "0\r\n\r\n",
                                         "Content-Length: 7\r\n",
                                         "Transfer-Encoding: chunked\r\n",
                                         "ffffffffffffffff"};
  const size_t at = Below(random, text->size());
  const size_t size = 1 + Below(random, 20);
  switch (Below(random, 5)) {
    case 0:
      (*text)[at] = kBytes[Below(random, kBytes.size())];
      return;
    case 1:
      text->erase(at, size);
      return;
    case 2:
      text->insert(at, text->substr(Below(random, text->size()), size));
      return;
    case 3:
      text->insert(at, kTexts[Below(random, std::size(kTexts))]);
      return;
    default:
      text->insert(at, std::string(Below(random, 600), 'a'));
  }
}

struct Read {
  std::vector<HttpRequest> requests;
  State state;
  int status;
};

Read ReadInPieces(std::string_view bytes, size_t longest, Random& random) {
  RequestReader reader(kLimits);
  Read read;
  while (!bytes.empty()) {
    const size_t size = std::min(bytes.size(), 1 + Below(random, longest));
    Add(reader, bytes.substr(0, size));
    bytes.remove_prefix(size);
    EXPECT_LE(reader.held_bytes(), 2 * size + 4000);
    reader.TakeExpectsContinue();
    while (reader.state() == State::kComplete) {
      read.requests.push_back(reader.Take());
      EXPECT_LE(read.requests.back().headers.size(), kLimits.header_fields);
      EXPECT_LE(read.requests.back().body.size(), kLimits.body_bytes);
    }
  }
  read.state = reader.state();
  read.status = reader.problem().status;
  return read;
}

// Of two readers that got different pieces, one may see later that a request is bad. A line between
// chunks that is too long only counts if it comes in pieces.
void ExpectSame(const Read& a, const Read& b) {
  const size_t count = std::min(a.requests.size(), b.requests.size());
  if (a.status != 431 && b.status != 431) {
    ASSERT_EQ(a.requests.size(), b.requests.size());
  }
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(a.requests[i].method, b.requests[i].method);
    EXPECT_EQ(a.requests[i].path, b.requests[i].path);
    EXPECT_EQ(a.requests[i].headers, b.requests[i].headers);
    EXPECT_EQ(a.requests[i].body, b.requests[i].body);
    EXPECT_EQ(a.requests[i].keep_alive, b.requests[i].keep_alive);
  }
}

TEST(RequestReaderFuzzTest, RequestsWithFaults) {
  Random random(1);
  FuzzTrials trials(3000);
  size_t bad = 0;
  size_t requests = 0;
  while (trials.Next()) {
    SCOPED_TRACE(trials.name());
    std::string bytes;
    for (size_t i = 1 + Below(random, 4); i > 0; --i) bytes += RandomRequest(random);
    for (size_t i = Below(random, 4); i > 0 && !bytes.empty(); --i) Mutate(random, &bytes);
    const Read whole = ReadInPieces(bytes, 2 * bytes.size() + 1, random);
    ExpectSame(whole, ReadInPieces(bytes, 1, random));
    ExpectSame(whole, ReadInPieces(bytes, 30, random));
    bad += whole.state == State::kBad ? 1 : 0;
    requests += whole.requests.size();
  }
  EXPECT_GT(bad, 500u);
  EXPECT_GT(requests, 3000u);
}

TEST(RequestReaderFuzzTest, RandomBytes) {
  Random random(2);
  FuzzTrials trials(2000);
  while (trials.Next()) {
    SCOPED_TRACE(trials.name());
    std::string bytes =
        Below(random, 2) == 0 ? "" : "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (size_t i = Below(random, 1000); i > 0; --i) bytes += static_cast<char>(Below(random, 256));
    ExpectSame(ReadInPieces(bytes, bytes.size() + 1, random), ReadInPieces(bytes, 1, random));
  }
}

}  // namespace
}  // namespace longstream::gateway
