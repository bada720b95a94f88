// Feeds the parser, and names its errors.
#include "gateway/http/request_reader.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/parser.hpp>
#include <cstdint>
#include <iterator>
#include <utility>

namespace longstream::gateway {
namespace http = boost::beast::http;

namespace {

// A body that grows as its bytes come. (Beast's string_body takes the memory for all bytes that the
// header announces at once.)
struct GrowingBody {
  using value_type = std::string;

  class reader {  // NOLINT(readability-identifier-naming): Beast wants this name
   public:
    template <bool kIsRequest, typename Fields>
    reader(http::header<kIsRequest, Fields>& /*header*/, value_type& body) : body_(body) {}

    void init(const boost::optional<std::uint64_t>& /*length*/, boost::system::error_code& error) {
      error = {};
    }
    template <typename Buffers>
    size_t put(const Buffers& buffers, boost::system::error_code& error) {
      error = {};
      size_t count = 0;
      for (const boost::asio::const_buffer buffer : boost::beast::buffers_range_ref(buffers)) {
        body_.append(static_cast<const char*>(buffer.data()), buffer.size());
        count += buffer.size();
      }
      return count;
    }
    void finish(boost::system::error_code& error) { error = {}; }

   private:
    value_type& body_;
  };
};

}  // namespace

struct RequestReader::Parser {
  http::request_parser<GrowingBody> request;
};

namespace {

// The shortest end of a body in chunks is "0", CR, LF, CR, LF. Beast's parser asserts that it gets
// as much.
constexpr size_t kShortestChunks = 5;

RequestReader::Problem ProblemOf(const boost::system::error_code& error,
                                 const RequestLimits& limits) {
  if (error == http::error::body_limit) {
    return {413, "the body of a request may have " + std::to_string(limits.body_bytes) + " bytes"};
  }
  return {400, "this is no request of HTTP/1.1: " + error.message()};
}

std::string LowerCase(boost::beast::string_view text) {
  std::string lower(text.data(), text.size());
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

size_t NumFields(const http::fields& fields) {
  return static_cast<size_t>(std::distance(fields.begin(), fields.end()));
}

// Beast's parser takes a request with another encoding as one without a body. Other programs on the
// way of the request may see its end elsewhere, and then take its body for the next request.
bool HasKnownEncoding(const http::request<GrowingBody>& message) {
  const size_t encodings = message.count(http::field::transfer_encoding);
  if (encodings == 0) return true;
  return encodings == 1 && message.version() >= 11 &&
         boost::beast::iequals(message[http::field::transfer_encoding], "chunked");
}

}  // namespace

RequestReader::RequestReader(const RequestLimits& limits) : limits_(limits) { Begin(); }

RequestReader::~RequestReader() = default;

void RequestReader::Begin() {
  parser_ = std::make_unique<Parser>();
  // Stop after the header, so that it is read before the fields after a body in chunks join it.
  parser_->request.eager(false);
  parser_->request.header_limit(limits_.header_bytes);
  parser_->request.body_limit(limits_.body_bytes);
  request_ = {};
  header_bytes_ = 0;
  told_continue_ = false;
  state_ = State::kIdle;
}

void RequestReader::Refuse(Problem problem) {
  Begin();
  std::string().swap(bytes_);
  problem_ = std::move(problem);
  state_ = State::kBad;
}

void RequestReader::RefuseLongHeader() {
  Refuse({431, "the header of a request may have " + std::to_string(limits_.header_bytes) +
                   " bytes and " + std::to_string(limits_.header_fields) + " fields"});
}

void RequestReader::Add(const char* bytes, size_t size) {
  if (state_ == State::kBad) return;
  bytes_.append(bytes, size);
  if (state_ != State::kComplete) Parse();
}

void RequestReader::Parse() {
  size_t taken = 0;
  while (taken < bytes_.size() && !parser_->request.is_done()) {
    state_ = State::kReading;
    const size_t count = ParseFrom(taken);
    if (state_ == State::kBad) return;
    if (count == 0) break;
    taken += count;
  }
  if (taken > 0) std::string(bytes_, taken).swap(bytes_);  // frees the memory of those taken
  if (parser_->request.is_done()) {
    state_ = State::kComplete;
  } else if (bytes_.size() > limits_.header_bytes) {
    RefuseLongHeader();  // a line between two chunks, or fields after the last one
  }
}

size_t RequestReader::ParseFrom(size_t from) {
  http::request_parser<GrowingBody>& parser = parser_->request;
  const bool in_header = !parser.is_header_done();
  const size_t size = bytes_.size() - from;
  if (!in_header && parser.chunked() && size < kShortestChunks) return 0;
  boost::system::error_code error;
  const size_t count = parser.put(boost::asio::const_buffer(bytes_.data() + from, size), error);
  if (in_header) {
    header_bytes_ += count;
    // Beast's limit does not count the fields that it has taken.
    const size_t known = header_bytes_ + (parser.is_header_done() ? 0 : size - count);
    if (error == http::error::header_limit || known > limits_.header_bytes ||
        NumFields(parser.get()) > limits_.header_fields) {
      RefuseLongHeader();
      return 0;
    }
  }
  if (error && error != http::error::need_more) {
    Refuse(ProblemOf(error, limits_));
    return 0;
  }
  if (in_header && parser.is_header_done() && !ReadHeader()) return 0;
  return count;
}

bool RequestReader::ReadHeader() {
  const http::request<GrowingBody>& message = parser_->request.get();
  if (!HasKnownEncoding(message)) {
    Refuse({400, "the Transfer-Encoding of a request may only be chunked, in HTTP/1.1"});
    return false;
  }
  request_.method = std::string(message.method_string());
  const boost::beast::string_view target = message.target();
  const size_t path_end = std::min(target.find('?'), target.size());
  request_.path = std::string(target.substr(0, path_end));
  request_.query = std::string(target.substr(std::min(target.size(), path_end + 1)));
  for (const auto& field : message) {
    request_.headers.emplace_back(LowerCase(field.name_string()), std::string(field.value()));
  }
  request_.http_1_0 = message.version() < 11;
  request_.keep_alive = message.keep_alive();
  parser_->request.eager(true);
  return true;
}

bool RequestReader::TakeExpectsContinue() {
  if (told_continue_ || state_ != State::kReading || !parser_->request.is_header_done()) {
    return false;
  }
  told_continue_ = true;
  return !request_.http_1_0 &&
         boost::beast::iequals(parser_->request.get()[http::field::expect], "100-continue");
}

size_t RequestReader::held_bytes() const {
  // The parser and request_ both have the header.
  return bytes_.capacity() + 2 * header_bytes_ + parser_->request.get().body().capacity();
}

HttpRequest RequestReader::Take() {
  HttpRequest request = std::move(request_);
  request.body = std::move(parser_->request.get().body());
  Begin();
  if (!bytes_.empty()) Parse();
  return request;
}

}  // namespace longstream::gateway
