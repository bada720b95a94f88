// Writes and reads lines of JSON.
#include "client/compare/state_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>

#include "nlohmann/json.hpp"

namespace longstream::client {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "longstream compare, unfinished, format 1";

[[noreturn]] void Fail(const std::string& path, const std::string& what) {
  throw FileError(path + " " + what + ": " + std::strerror(errno));
}

// JSON has texts, not bytes. Byte b becomes the character U+00b, which UTF-8 writes in one or two
// bytes.
std::string FromBytes(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    if (value >= 0x80) text += static_cast<char>(0xc0 | (value >> 6));
    text += static_cast<char>(value < 0x80 ? value : 0x80 | (value & 0x3f));
  }
  return text;
}

std::string ToBytes(const std::string& text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto value = static_cast<unsigned char>(text[i]);
    if (value < 0x80) {
      bytes += text[i];
    } else {  // the parser accepts only valid UTF-8, so another byte follows
      const auto next = static_cast<unsigned char>(text[++i]);
      bytes += static_cast<char>(((value & 0x03) << 6) | (next & 0x3f));
    }
  }
  return bytes;
}

// JSON has no infinity and no NaN.
Json FromNumber(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

double ToNumber(const Json& json) {
  if (json.is_number()) return json.get<double>();
  const std::string text = json.get<std::string>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  throw std::invalid_argument("not a number: " + text);
}

Json FromRun(const ArmRun& run) {
  Json tokens = Json::array();
  for (const TokenScore& token : run.tokens) {
    tokens.push_back({FromNumber(token.log_prob), token.rank, token.top1, FromBytes(token.text),
                      FromBytes(token.top1_text)});
  }
  Json gaps = Json::array();
  for (const double seconds : run.itl_seconds) gaps.push_back(FromNumber(seconds));
  return {{"error", FromBytes(run.error)},
          {"tokens", tokens},
          {"ttft_seconds", FromNumber(run.ttft_seconds)},
          {"itl_seconds", gaps},
          {"bytes", {run.bytes.kv, run.bytes.window, run.bytes.state}},
          {"reused_tokens", run.reused_tokens},
          {"recomputed_tokens", run.recomputed_tokens},
          {"text", FromBytes(run.text)},
          {"bits_per_byte", FromNumber(run.bits_per_byte)}};
}

ArmRun ToRun(const Json& json) {
  ArmRun run;
  run.error = ToBytes(json.at("error"));
  for (const Json& token : json.at("tokens")) {
    run.tokens.push_back({ToNumber(token.at(0)), token.at(1), token.at(2), ToBytes(token.at(3)),
                          ToBytes(token.at(4))});
  }
  run.ttft_seconds = ToNumber(json.at("ttft_seconds"));
  for (const Json& gap : json.at("itl_seconds")) run.itl_seconds.push_back(ToNumber(gap));
  const Json& bytes = json.at("bytes");
  run.bytes = {bytes.at(0), bytes.at(1), bytes.at(2)};
  run.reused_tokens = json.at("reused_tokens");
  run.recomputed_tokens = json.at("recomputed_tokens");
  run.text = ToBytes(json.at("text"));
  run.bits_per_byte = ToNumber(json.at("bits_per_byte"));
  return run;
}

Json FromPrompt(const FinishedPrompt& prompt) {
  Json json = {{"id", FromBytes(prompt.run.id)},
               {"tokens", prompt.run.tokens},
               {"tokenizers", Json::array()},
               {"arms", Json::array()},
               {"pairs", Json::array()}};
  for (const std::string& name : prompt.tokenizers) json["tokenizers"].push_back(FromBytes(name));
  for (const ArmRun& run : prompt.run.arms) json["arms"].push_back(FromRun(run));
  for (const std::vector<PairToken>& pair : prompt.run.pairs) {
    Json tokens = Json::array();
    for (const PairToken& token : pair) {
      tokens.push_back({FromNumber(token.kl), token.agrees, FromNumber(token.delta_p)});
    }
    json["pairs"].push_back(std::move(tokens));
  }
  return json;
}

FinishedPrompt ToPrompt(const Json& json) {
  FinishedPrompt prompt;
  prompt.run.id = ToBytes(json.at("id"));
  prompt.run.tokens = json.at("tokens");
  for (const Json& name : json.at("tokenizers")) prompt.tokenizers.push_back(ToBytes(name));
  for (const Json& run : json.at("arms")) prompt.run.arms.push_back(ToRun(run));
  for (const Json& tokens : json.at("pairs")) {
    std::vector<PairToken>& pair = prompt.run.pairs.emplace_back();
    for (const Json& token : tokens) {
      pair.push_back({ToNumber(token.at(0)), token.at(1), ToNumber(token.at(2))});
    }
  }
  return prompt;
}

Json FromConditions(const Conditions& conditions) {
  Json json = {{"format", kFormat}};
  for (const auto& [name, value] : conditions) json[name] = FromBytes(value);
  return json;
}

// Throws if `header` was written under other conditions.
void Check(const std::string& path, const Json& header, const Conditions& conditions) {
  const std::string advice = ". Repeat the command that made it, or remove the file to begin anew";
  const auto format = header.find("format");  // end() if the header is no object
  if (format == header.end() || *format != kFormat) {
    throw std::invalid_argument(path + " is not an unfinished comparison of this version" + advice);
  }
  for (const auto& [name, value] : conditions) {
    const auto found = header.find(name);
    const std::string there =
        found == header.end() || !found->is_string() ? "" : ToBytes(found->get<std::string>());
    if (there == value) continue;
    std::string error = path + " is an unfinished comparison with other ";
    error.append(name).append(": there \"").append(there);
    error.append("\", here \"").append(value).append("\"").append(advice);
    throw std::invalid_argument(error);
  }
}

}  // namespace

StateFile::StateFile(std::string path, const Conditions& conditions) : path_(std::move(path)) {
  if (path_.empty()) return;
  // The file has prompts and answers, so only its user reads it.
  descriptor_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor_ < 0) Fail(path_, "cannot be opened");
  try {
    if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      Fail(path_, "is in use by another comparison");
    }
    Load(ReadAll(), conditions);
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

StateFile::~StateFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

std::string StateFile::ReadAll() const {
  std::string text;
  std::array<char, 65536> bytes;
  while (true) {
    const ssize_t count = read(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) Fail(path_, "cannot be read");
    if (count == 0) return text;
    text.append(bytes.data(), static_cast<size_t>(count));
  }
}

void StateFile::Load(const std::string& text, const Conditions& conditions) {
  const size_t end = text.rfind('\n') + 1;  // npos + 1 is 0
  if (ftruncate(descriptor_, static_cast<off_t>(end)) != 0 ||
      lseek(descriptor_, static_cast<off_t>(end), SEEK_SET) < 0) {
    Fail(path_, "cannot be written");
  }
  if (end == 0) return WriteLine(FromConditions(conditions).dump());
  size_t line = 1;
  for (size_t begin = 0; begin < end; ++line) {
    const size_t newline = text.find('\n', begin);
    try {
      const Json json = Json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                    text.begin() + static_cast<std::ptrdiff_t>(newline));
      if (line == 1) {
        Check(path_, json, conditions);
      } else {
        finished_.push_back(ToPrompt(json));
      }
    } catch (const Json::exception& error) {
      throw std::invalid_argument(path_ + " is damaged in line " + std::to_string(line) +
                                  "; remove the file to begin anew (" + error.what() + ")");
    }
    begin = newline + 1;
  }
}

void StateFile::WriteLine(std::string line) {
  line += '\n';
  for (size_t done = 0; done < line.size();) {
    const ssize_t count = write(descriptor_, line.data() + done, line.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) Fail(path_, "cannot be written");
    done += static_cast<size_t>(count);
  }
}

void StateFile::Append(FinishedPrompt prompt) {
  if (!path_.empty()) WriteLine(FromPrompt(prompt).dump());
  finished_.push_back(std::move(prompt));
}

void StateFile::Remove() {
  if (!path_.empty()) std::remove(path_.c_str());
}

void ReplaceFile(const std::string& path, std::string_view content) {
  const std::string temporary = path + ".new";
  std::FILE* const file = std::fopen(temporary.c_str(), "wb");
  if (file == nullptr) Fail(temporary, "cannot be opened");
  const bool written = std::fwrite(content.data(), 1, content.size(), file) == content.size();
  if (std::fclose(file) != 0 || !written) Fail(temporary, "cannot be written");
  if (std::rename(temporary.c_str(), path.c_str()) != 0) Fail(path, "cannot be replaced");
}

std::string Digest(std::string_view content) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : content) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  }
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

}  // namespace longstream::client
