// llama.cpp as a peer of compare.py: runs slices of work and answers as `model_bench --serve` does
// (docs/performance-notes.md). Uses only llama.h. The CMakeLists.txt in this folder builds it with
// a checkout of llama.cpp.
//
// usage: llama_slices MODEL.gguf FLASH THREADS CONTEXT
//   FLASH: flash attention, 0 or 1. CONTEXT: the maximum number of tokens of a slice's context.
#include <llama.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr double kMostSeconds = 0.8;  // limit for a decode slice
constexpr int kMostPrefill = 2048;    // limit for the tokens of a prefill slice

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// ---------------------------------------------------------------- the probe

class Probe {
 public:
  explicit Probe(int threads) : threads_(threads), memory_(kBytes / sizeof(uint64_t), 1) {}

  // Measures how fast memory is read, in GB/s: the median of three passes.
  double Measure() const {
    std::array<double, 3> seconds{};
    for (double& pass : seconds) {
      const auto begin = std::chrono::steady_clock::now();
      std::vector<std::thread> readers;
      for (int i = 0; i < threads_; ++i) readers.emplace_back([this, i] { Read(i); });
      for (std::thread& reader : readers) reader.join();
      pass = SecondsSince(begin);
    }
    std::sort(seconds.begin(), seconds.end());
    return static_cast<double>(kBytes) / seconds[1] / 1e9;
  }

 private:
  static constexpr size_t kBytes = size_t{512} << 20;

  void Read(int part) const {
    const size_t count = memory_.size() / threads_ / 4;
    const uint64_t* from = memory_.data() + part * count * 4;
    std::array<uint64_t, 4> sums{};  // reads at four places at once, as model_bench does
    for (size_t i = 0; i < count; ++i) {
      for (size_t s = 0; s < 4; ++s) sums[s] += from[s * count + i];
    }
    asm volatile("" : : "r"(sums[0] + sums[1] + sums[2] + sums[3]));
  }

  const int threads_;
  const std::vector<uint64_t> memory_;
};

// ---------------------------------------------------------------- a context of random numbers

// Reads the saved state of a sequence of one token, and writes the state of a sequence of many
// tokens with random keys and values. The layout is that of llama_kv_cache::state_write.
// llama_state_seq_set_data refuses data with another layout.
class RandomState {
 public:
  RandomState(const std::vector<uint8_t>& one, uint32_t tokens) : in_(one), tokens_(tokens) {
    Copy(8);  // magic, sequence
    Expect(Copied<uint32_t>(), 1, "streams");
    Expect(Read<uint32_t>(), 1, "cells");
    Write(tokens_);
    Read<int32_t>();  // position
    Expect(Read<uint32_t>(), 1, "sequences of a cell");
    const auto sequence = Read<int32_t>();
    for (uint32_t i = 0; i < tokens_; ++i) {
      Write(static_cast<int32_t>(i));
      Write(uint32_t{1});
      Write(sequence);
    }
    const bool transposed = Copied<uint32_t>() != 0;
    const auto layers = Copied<uint32_t>();
    for (uint32_t i = 0; i < layers; ++i) Rows();
    for (uint32_t i = 0; i < layers; ++i) transposed ? Columns() : Rows();
    Expect(static_cast<uint32_t>(in_.size() - at_), 0, "bytes left");
  }

  const std::vector<uint8_t>& bytes() const { return out_; }

 private:
  template <typename T>
  T Read() {
    T value;
    if (in_.size() - at_ < sizeof(value)) throw std::runtime_error("state: ends early");
    std::memcpy(&value, in_.data() + at_, sizeof(value));
    at_ += sizeof(value);
    return value;
  }
  template <typename T>
  void Write(T value) {
    const auto* from = reinterpret_cast<const uint8_t*>(&value);
    out_.insert(out_.end(), from, from + sizeof(value));
  }
  template <typename T>
  T Copied() {
    const T value = Read<T>();
    Write(value);
    return value;
  }
  void Copy(size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) Copied<uint8_t>();
  }
  static void Expect(uint32_t found, uint32_t expected, const char* what) {
    if (found == expected) return;
    throw std::runtime_error(std::string("state: ") + what + ": expected " +
                             std::to_string(expected) + ", found " + std::to_string(found));
  }

  void Rows() {
    Expect(static_cast<uint32_t>(Copied<int32_t>()), 1, "type (f16 is 1)");
    Numbers(Copied<uint64_t>());
  }
  void Columns() {
    Expect(static_cast<uint32_t>(Copied<int32_t>()), 1, "type (f16 is 1)");
    const auto element = Copied<uint32_t>();
    Numbers(uint64_t{element} * Copied<uint32_t>());
  }
  // Skips `bytes` bytes of the state of one token, and writes as many bytes of random f16 numbers
  // for every token. The numbers have absolute values from 0.5 to 2.
  void Numbers(uint64_t bytes) {
    at_ += bytes;
    for (uint64_t i = 0; i < bytes / 2 * tokens_; ++i) {
      const auto bits = static_cast<uint32_t>(random_());
      Write(static_cast<uint16_t>((bits & 0x87ff) | (0x3800 + (bits & 0x400))));
    }
  }

  const std::vector<uint8_t>& in_;
  const uint32_t tokens_;
  size_t at_ = 0;
  std::vector<uint8_t> out_;
  std::mt19937 random_{1};
};

// ---------------------------------------------------------------- slices

class Peer {
 public:
  Peer(const char* path, bool flash, int threads, uint32_t context) : probe_(threads) {
    model_.reset(llama_model_load_from_file(path, llama_model_default_params()));
    if (!model_) throw std::runtime_error(std::string(path) + ": the model cannot be loaded");
    llama_context_params params = llama_context_default_params();
    params.n_ctx = context + kMostPrefill;
    params.n_batch = kMostPrefill;
    params.n_threads = threads;
    params.n_threads_batch = threads;
    params.flash_attn_type = flash ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    context_.reset(llama_init_from_model(model_.get(), params));
    if (!context_) throw std::runtime_error("llama.cpp refused these parameters of a context");
    vocabulary_ = llama_vocab_n_tokens(llama_model_get_vocab(model_.get()));
    Feed({1});
    one_.resize(llama_state_seq_get_size(context_.get(), 0));
    llama_state_seq_get_data(context_.get(), one_.data(), one_.size(), 0);
  }

  // Runs the slice that a line describes, and returns the answer as a line of JSON.
  std::string Run(const std::string& line) {
    std::array<char, 8> kind{};
    int depth = 0;
    int tokens = 0;
    if (std::sscanf(line.c_str(), "%7s %d %d", kind.data(), &depth, &tokens) != 3 || depth < 0 ||
        tokens < 1 || tokens > kMostPrefill) {
      throw std::runtime_error("expected decode|prefill DEPTH TOKENS, found " + line);
    }
    SetDepth(depth);
    const double before = probe_.Measure();
    const auto begin = std::chrono::steady_clock::now();
    const int fed = kind == std::array<char, 8>{"decode"} ? Decode(tokens, begin) : Prefill(tokens);
    const double seconds = SecondsSince(begin);
    const double after = probe_.Measure();
    std::array<char, 256> answer{};
    std::snprintf(answer.data(), answer.size(),
                  R"({"slice": "%s %d %d", "tokens": %d, "seconds": %.6f, "bytes": 0, )"
                  R"("probes_gbps": [%.2f, %.2f]})",
                  kind.data(), depth, tokens, fed, seconds, before, after);
    return answer.data();
  }

 private:
  void Feed(std::vector<llama_token> tokens) {
    const auto count = static_cast<int32_t>(tokens.size());
    if (llama_decode(context_.get(), llama_batch_get_one(tokens.data(), count)) != 0) {
      throw std::runtime_error("llama_decode failed");
    }
  }

  void SetDepth(int depth) {
    llama_memory_t memory = llama_get_memory(context_.get());
    if (depth != depth_ && depth > 0) {
      const RandomState state(one_, static_cast<uint32_t>(depth));
      if (llama_state_seq_set_data(context_.get(), state.bytes().data(), state.bytes().size(), 0) ==
          0) {
        throw std::runtime_error("refused: a context of " + std::to_string(depth) + " tokens");
      }
    }
    depth_ = depth;
    llama_memory_seq_rm(memory, 0, depth, -1);
  }

  int Decode(int tokens, std::chrono::steady_clock::time_point begin) {
    llama_token next = 1;
    for (int i = 0; i < tokens; ++i) {
      Feed({next});
      const float* logits = llama_get_logits_ith(context_.get(), -1);
      next = static_cast<llama_token>(std::max_element(logits, logits + vocabulary_) - logits);
      if (SecondsSince(begin) > kMostSeconds) return i + 1;
    }
    return tokens;
  }

  int Prefill(int tokens) {
    std::vector<llama_token> prompt(tokens);
    for (int i = 0; i < tokens; ++i) prompt[i] = (i * 7919) % vocabulary_;
    Feed(prompt);
    llama_synchronize(context_.get());
    return tokens;
  }

  struct Free {
    void operator()(llama_model* model) const { llama_model_free(model); }
    void operator()(llama_context* context) const { llama_free(context); }
  };

  const Probe probe_;
  std::unique_ptr<llama_model, Free> model_;
  std::unique_ptr<llama_context, Free> context_;
  int32_t vocabulary_ = 0;
  std::vector<uint8_t> one_;  // the state of a sequence of one token
  int depth_ = 1;             // tokens of the context before each slice
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fputs("usage: llama_slices MODEL.gguf FLASH THREADS CONTEXT\n", stderr);
    return 2;
  }
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  try {
    Peer peer(argv[1], std::atoi(argv[2]) != 0, std::atoi(argv[3]),
              static_cast<uint32_t>(std::atoi(argv[4])));
    std::cout << R"({"ready": "llama.cpp, flash attention )" << argv[2] << "\"}" << std::endl;
    for (std::string line; std::getline(std::cin, line);) {
      try {
        std::cout << peer.Run(line) << std::endl;
      } catch (const std::exception& error) {
        std::cout << R"({"error": ")" << error.what() << "\"}" << std::endl;
      }
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "llama_slices: %s\n", error.what());
    return 1;
  }
  return 0;
}
