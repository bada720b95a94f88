// Reads, merges and replaces the file of choices.
#include "kernels/cuda/cublaslt/algorithm_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

namespace longstream::cuda {
namespace {

constexpr std::string_view kFormat = "longstream prefill algorithms 1";
constexpr size_t kWordDigits = 16;

// FNV-1a. It shows whether a line is damaged.
uint64_t Checksum(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

std::string Hex(uint64_t word) {
  std::string digits(kWordDigits, '0');
  for (size_t i = kWordDigits; i-- > 0; word >>= 4) digits[i] = "0123456789abcdef"[word & 15];
  return digits;
}

// Whether `text` is one word in hex. If so, stores it in *word.
bool ParseHex(std::string_view text, uint64_t* word) {
  if (text.size() != kWordDigits) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *word, 16);
  return error == std::errc() && end == text.data() + text.size();
}

std::string LineOf(const std::string& key, const Algorithm& algorithm) {
  std::string line = key + "\t";
  for (const uint64_t word : algorithm) line += Hex(word);
  return line + "\t" + Hex(Checksum(line));
}

// Whether a line is undamaged. If so, stores its parts in *key and *algorithm.
bool ParseLine(std::string_view line, std::string* key, Algorithm* algorithm) {
  const size_t key_end = line.find('\t');
  const size_t words_end = line.rfind('\t');
  if (key_end == std::string_view::npos || words_end == key_end) return false;
  uint64_t checksum = 0;
  if (!ParseHex(line.substr(words_end + 1), &checksum)) return false;
  if (checksum != Checksum(line.substr(0, words_end))) return false;
  const std::string_view words = line.substr(key_end + 1, words_end - key_end - 1);
  if (words.size() != algorithm->size() * kWordDigits) return false;
  for (size_t i = 0; i < algorithm->size(); ++i) {
    if (!ParseHex(words.substr(i * kWordDigits, kWordDigits), &(*algorithm)[i])) return false;
  }
  *key = line.substr(0, key_end);
  return true;
}

std::string OneLine(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\t' || c == '\n' || c == '\r'; }, ' ');
  return text;
}

// Holds <path>.lock while it lives, so that one process at a time reads, adds and replaces. If that
// file cannot be made it holds nothing; then the file of choices cannot be written either.
class Lock {
 public:
  explicit Lock(const std::string& path)
      : file_(open((path + ".lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644)) {
    while (file_ >= 0 && flock(file_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~Lock() {
    if (file_ >= 0) close(file_);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  const int file_;
};

}  // namespace

std::string ChoiceKey(const std::string& device, const std::string& capability,
                      const std::string& version, const ProductShape& shape) {
  return OneLine(device + ", " + capability + ", cuBLASLt " + version + ", bf16 x bf16 to f32, n " +
                 std::to_string(shape.n) + " k " + std::to_string(shape.k) + " stride " +
                 std::to_string(shape.out_stride) + " aligned " +
                 std::to_string(shape.out_alignment));
}

std::string DefaultAlgorithmFile() {
  if (const char* file = std::getenv("LONGSTREAM_CUDA_ALGORITHMS")) return file;
  const auto below = [](const char* variable, const char* directory) -> std::string {
    const char* base = std::getenv(variable);
    if (base == nullptr || *base == '\0') return "";
    return std::string(base) + directory + "/longstream/cuda-algorithms";
  };
  const std::string cache = below("XDG_CACHE_HOME", "");
  return cache.empty() ? below("HOME", "/.cache") : cache;
}

AlgorithmFile::AlgorithmFile(std::string path, Warning warn)
    : path_(std::move(path)), warn_(std::move(warn)) {}

std::optional<AlgorithmFile::Choices> AlgorithmFile::Read() {
  Choices choices;
  std::ifstream file(path_);
  if (!file) return choices;
  std::string line;
  if (!std::getline(file, line) || line != kFormat) {
    warn_(path_ + ": not a file of '" + std::string(kFormat) +
          "'; it stays as it is and choices are not stored; remove it, or name another one in "
          "LONGSTREAM_CUDA_ALGORITHMS");
    return std::nullopt;
  }
  for (int number = 2; std::getline(file, line); ++number) {
    std::string key;
    Algorithm algorithm{};
    if (ParseLine(line, &key, &algorithm)) {
      choices.emplace(std::move(key), algorithm);
    } else {
      warn_(path_ + ":" + std::to_string(number) + ": damaged, left out and measured anew");
    }
  }
  return choices;
}

bool AlgorithmFile::Write(const Choices& choices) {
  const std::string temporary = path_ + "." + std::to_string(getpid());
  {
    std::ofstream file(temporary, std::ios::trunc);
    file << kFormat << '\n';
    for (const auto& [key, algorithm] : choices) file << LineOf(key, algorithm) << '\n';
    if (!file.flush()) {
      unlink(temporary.c_str());
      return false;
    }
  }
  if (std::rename(temporary.c_str(), path_.c_str()) == 0) return true;
  unlink(temporary.c_str());
  return false;
}

std::optional<Algorithm> AlgorithmFile::Find(const std::string& key) {
  if (path_.empty()) return std::nullopt;
  const std::optional<Choices> choices = Read();
  if (!choices.has_value()) return std::nullopt;
  const auto found = choices->find(key);
  if (found == choices->end()) return std::nullopt;
  return found->second;
}

Algorithm AlgorithmFile::Keep(const std::string& key, const Algorithm& algorithm,
                              const std::optional<Algorithm>& before) {
  if (path_.empty()) return algorithm;
  std::error_code ignored;  // if there is no such directory, Write reports it
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  const Lock lock(path_);
  std::optional<Choices> choices = Read();
  if (!choices.has_value()) return algorithm;
  const auto [entry, is_new] = choices->emplace(key, algorithm);
  if (!is_new && entry->second != before) return entry->second;
  entry->second = algorithm;
  if (!Write(*choices)) {
    warn_(path_ + ": cannot be written (" + std::strerror(errno) +
          "); the next start may choose another algorithm, and so other bits");
  }
  return algorithm;
}

std::optional<Algorithm> StoredOrChosen(AlgorithmFile& file, const std::string& key,
                                        AlgorithmSource& source, const ProductShape& shape) {
  const std::optional<Algorithm> stored = file.Find(key);
  if (stored.has_value() && ServesAll(source, shape, *stored)) return stored;
  const std::optional<AlgorithmChoice> choice = ChooseAlgorithm(source, shape);
  if (!choice.has_value()) return std::nullopt;
  if (choice->is_timed) return file.Keep(key, choice->algorithm, stored);
  file.Warn("no algorithm could be timed for " + key + "; the first that serves is used");
  return choice->algorithm;
}

}  // namespace longstream::cuda
