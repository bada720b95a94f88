// The keys of scalerMetadata, and their limits.
#include "service/server/cluster/scaler_trigger.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace longstream {
namespace {

constexpr double kLeastTarget = 0.001;  // KEDA rounds targets to thousandths
constexpr double kMost = 1e15;          // whole numbers up to here are exact, also as an int64

// KEDA sends all of a trigger's metadata, with what it reads itself.
constexpr std::array<std::string_view, 7> kKeysOfKeda = {
    "scalerAddress", "enableTLS",     "unsafeSsl",   "tlsCertFile",
    "caCert",        "tlsClientCert", "tlsClientKey"};

// A text of the client, as short as an error message should quote it.
std::string Quoted(const std::string& text) {
  constexpr size_t kMostBytes = 64;
  const std::string start = absl::CHexEscape(text.substr(0, kMostBytes));
  return absl::StrCat("'", start, text.size() > kMostBytes ? "...'" : "'");
}

absl::Status Error(const std::string& key, const std::string& expected, const std::string& found) {
  return absl::InvalidArgumentError(
      absl::StrCat("scalerMetadata.", key, ": expected ", expected, ", found ", found));
}

std::string NumberFrom(double least) { return absl::StrCat("a number from ", least, " to 1e15"); }

absl::Status ReadNumber(const std::string& key, const std::string& text, double least,
                        double* number) {
  if (absl::SimpleAtod(text, number) && std::isfinite(*number) && *number >= least &&
      *number <= kMost) {
    return absl::OkStatus();
  }
  return Error(key, NumberFrom(least), Quoted(text));
}

absl::Status ReadSignal(const std::string& text, const LoadSignal** signal) {
  *signal = FindLoadSignal(text);
  if (*signal != nullptr) return absl::OkStatus();
  return Error("metricName", absl::StrCat("one of: ", LoadSignalNames()), Quoted(text));
}

}  // namespace

absl::StatusOr<ScalerTrigger> ReadTrigger(const externalscaler::ScaledObjectRef& object) {
  ScalerTrigger trigger;
  for (const auto& [key, value] : object.scalermetadata()) {
    absl::Status status;
    if (key == "metricName") {
      status = ReadSignal(value, &trigger.signal);
    } else if (key == "targetValue") {
      status = ReadNumber(key, value, kLeastTarget, &trigger.target);
    } else if (key == "activationTargetValue") {
      status = ReadNumber(key, value, /*least=*/0, &trigger.activation);
    } else if (std::find(kKeysOfKeda.begin(), kKeysOfKeda.end(), key) == kKeysOfKeda.end()) {
      status = absl::InvalidArgumentError(
          absl::StrCat("scalerMetadata: unknown key ", Quoted(key),
                       "; expected one of: metricName, targetValue, activationTargetValue"));
    }
    if (!status.ok()) return status;
  }
  if (trigger.signal == nullptr) {
    return Error("metricName", absl::StrCat("one of: ", LoadSignalNames()), "nothing");
  }
  if (trigger.target == 0) return Error("targetValue", NumberFrom(kLeastTarget), "nothing");
  return trigger;
}

}  // namespace longstream
