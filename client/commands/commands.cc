// Options and output that the commands share.
#include "client/commands/commands.h"

#include <charconv>
#include <cstdio>
#include <string>

namespace longstream::client {
namespace {

std::string CheckWholeNumber(const std::string& text) {
  uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && stop == end) return "";
  return text + " is not a whole number below 2^64";
}

std::string CheckServerAddress(const std::string& text) {
  const bool blank = text.find_first_not_of(" \t\r\n") == std::string::npos;
  return blank ? "an empty address; expected host:port, such as 127.0.0.1:50051" : "";
}

}  // namespace

CLI::Validator ServerAddress() { return {CheckServerAddress, ""}; }

CLI::Validator WholeNumber() { return {CheckWholeNumber, ""}; }

Connection Connect(const Global& global, const std::string& model) {
  Connection connection(global.server);
  if (global.wait_seconds > 0) {
    connection.WaitUntilServing(
        model, std::chrono::milliseconds(static_cast<int64_t>(global.wait_seconds * 1000)));
  }
  return connection;
}

std::string HumanBytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof(text), unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

double Seconds(const google::protobuf::Duration& duration) {
  return static_cast<double>(duration.seconds()) + 1e-9 * duration.nanos();
}

}  // namespace longstream::client
