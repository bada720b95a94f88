// Feeds the parser, and names its errors.
#include "gateway/http/request_reader.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/parser.hpp>
#include <cstdint>
#include <utility>

namespace longstream::gateway {
namespace http = boost::beast::http;

namespace {

// A body that grows as its bytes come. (Beast's string_body takes the memory for all bytes that the
// header announces at once.)
struct GrowingBody {
  using value_type = std::string;

  class reader {
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

RequestReader::Problem ProblemOf(const boost::system::error_code& error,
                                 const RequestLimits& limits) {
  if (error == http::error::header_limit) {
    return {431,
            "the header of a request may have " + std::to_string(limits.header_bytes) + " bytes"};
  }
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

}  // namespace

RequestReader::RequestReader(const RequestLimits& limits) : limits_(limits) { Begin(); }

RequestReader::~RequestReader() = default;

void RequestReader::Begin() {
  parser_ = std::make_unique<Parser>();
  parser_->request.eager(true);
  parser_->request.header_limit(limits_.header_bytes);
  parser_->request.body_limit(limits_.body_bytes);
  told_continue_ = false;
  state_ = State::kIdle;
}

void RequestReader::Add(const char* bytes, size_t size) {
  bytes_.append(bytes, size);
  if (state_ == State::kIdle || state_ == State::kReading) Parse();
}

void RequestReader::Parse() {
  size_t taken = 0;
  while (taken < bytes_.size() && !parser_->request.is_done()) {
    boost::system::error_code error;
    const size_t count = parser_->request.put(
        boost::asio::const_buffer(bytes_.data() + taken, bytes_.size() - taken), error);
    taken += count;
    state_ = State::kReading;
    if (error == http::error::need_more) break;
    if (error) {
      problem_ = ProblemOf(error, limits_);
      state_ = State::kBad;
      bytes_.clear();
      return;
    }
  }
  bytes_.erase(0, taken);
  if (parser_->request.is_done()) state_ = State::kComplete;
}

bool RequestReader::TakeExpectsContinue() {
  if (told_continue_ || state_ != State::kReading || !parser_->request.is_header_done()) {
    return false;
  }
  told_continue_ = true;
  return boost::beast::iequals(parser_->request.get()[http::field::expect], "100-continue");
}

size_t RequestReader::held_bytes() const {
  return bytes_.capacity() + parser_->request.get().body().capacity();
}

HttpRequest RequestReader::Take() {
  http::request<GrowingBody> message = parser_->request.release();
  HttpRequest request;
  request.method = std::string(message.method_string());
  const boost::beast::string_view target = message.target();
  const size_t path_end = std::min(target.find('?'), target.size());
  request.path = std::string(target.substr(0, path_end));
  request.query = std::string(target.substr(std::min(target.size(), path_end + 1)));
  for (const auto& field : message) {
    request.headers.emplace_back(LowerCase(field.name_string()), std::string(field.value()));
  }
  request.http_1_0 = message.version() < 11;
  request.keep_alive = message.keep_alive();
  request.body = std::move(message.body());
  Begin();
  if (!bytes_.empty()) Parse();
  return request;
}

}  // namespace longstream::gateway
