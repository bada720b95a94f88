// Owners of the ABI's handles. If a call fails, a method ends the check (CheckFailed); the methods
// Try... return the code instead.
#ifndef LONGSTREAM_TESTS_CONFORMANCE_MODEL_H_
#define LONGSTREAM_TESTS_CONFORMANCE_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "backends/api/backend.h"
#include "tests/conformance/report.h"
#include "tests/conformance/test_host.h"

namespace longstream::conformance {

// A buffer for a plugin's sentence. Detects writes past the buffer's end.
class ErrorText {
 public:
  ErrorText();
  ls_error get() { return {text_, kCapacity}; }
  // Throws CheckFailed if the sentence is not terminated or the plugin wrote past the buffer's end.
  std::string str() const;

 private:
  static constexpr size_t kCapacity = 400;
  char text_[kCapacity + 8];
};

// "LS_OK", "LS_INVALID_ARGUMENT", ...
std::string NameOf(ls_code code);

// Notes a failure, with both names, if a call gave another code than expected.
void ExpectCode(Check& check, const std::string& what, ls_code expected, ls_code found);

struct OpenOptions {
  std::string options = "{}";
  std::string device{};  // "": the plugin's first device
  uint64_t cache_bytes_budget = 0;
  uint32_t max_batch_tokens = 1024;
  uint32_t max_batch_sequences = 16;
};

// Calls model_open and returns its code. A correct plugin sets *model only with LS_OK.
ls_code TryOpen(const ls_backend& backend, const std::string& directory, const OpenOptions& options,
                const TestHost& host, ls_model** model, std::string* error);

class Sequence;
struct Entry;
struct Output;

// An opened model; the destructor closes it. `backend` and `host` must outlive it. Not thread-safe.
class Model {
 public:
  Model(const ls_backend& backend, const std::string& directory, const OpenOptions& options,
        const TestHost& host);
  ~Model();

  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const ls_backend& backend() const { return backend_; }
  ls_model* handle() const { return handle_; }
  const ls_model_info& info() const { return info_; }
  ls_memory Memory() const;

  Sequence Create();
  // Creates a sequence with a reservation for `tokens` tokens.
  Sequence Create(uint64_t tokens);
  // Create or import a sequence and return the code. On a failure *sequence does not change.
  ls_code TryCreate(Sequence* sequence, std::string* error);
  ls_code TryImport(const std::string& snapshot, Sequence* sequence, std::string* error = nullptr,
                    size_t* consumed = nullptr);
  Sequence Import(const std::string& snapshot);

  // Submits a batch and waits for it. Throws CheckFailed if the plugin refuses the batch. Returns
  // one output per entry; an output may be a failure.
  std::vector<Output> Step(const std::vector<Entry>& entries);
  // Submits one entry and waits for it. Throws CheckFailed unless its code is LS_OK.
  Output Step(const Entry& entry);
  // Submits a batch and returns its ticket. Throws CheckFailed if the plugin refuses the batch.
  uint64_t Submit(const std::vector<Entry>& entries);
  ls_code TrySubmit(const std::vector<Entry>& entries, uint64_t* ticket,
                    std::string* error = nullptr);
  std::vector<Output> Wait(uint64_t ticket, const std::vector<Entry>& entries);

 private:
  const ls_backend& backend_;
  ls_model* handle_ = nullptr;
  ls_model_info info_{};
};

// A sequence; the destructor frees it. Destroy it before its model. Movable.
class Sequence {
 public:
  Sequence() = default;
  Sequence(Model* model, ls_sequence* handle) : model_(model), handle_(handle) {}
  Sequence(Sequence&& other) noexcept;
  Sequence& operator=(Sequence&& other) noexcept;
  ~Sequence() { Free(); }

  ls_sequence* handle() const { return handle_; }
  Model& model() const { return *model_; }
  uint64_t position() const;
  ls_sequence_bytes Bytes() const;

  void Free();
  Sequence Fork();
  void Reserve(uint64_t tokens);
  void Checkpoint();
  uint64_t Truncate(uint64_t position);
  std::string Export();

  ls_code TryFork(Sequence* fork, std::string* error = nullptr);
  ls_code TryReserve(uint64_t tokens, std::string* error = nullptr);
  ls_code TryCheckpoint(std::string* error = nullptr);
  ls_code TryTruncate(uint64_t position, uint64_t* restored, std::string* error = nullptr);
  // Exports through a writer that fails after `limit` bytes.
  ls_code TryExport(std::string* snapshot, std::string* error = nullptr, size_t limit = SIZE_MAX);

 private:
  Model* model_ = nullptr;
  ls_sequence* handle_ = nullptr;
};

// One sequence's part of a step. Owns the memory that ls_batch_entry points to, except `sampling`.
struct Entry {
  Sequence* sequence = nullptr;
  std::vector<int32_t> tokens;
  bool is_decode = false;
  int32_t logit_rows = LS_ROWS_LAST;
  int32_t log_prob_rows = LS_ROWS_NONE;
  uint32_t num_top = 0;
  std::vector<int32_t> targets;           // empty: the plugin gets NULL
  const ls_sampling* sampling = nullptr;  // nullptr: nothing is sampled
};

// Returns tokens[begin, end).
std::vector<int32_t> Part(const std::vector<int32_t>& tokens, size_t begin, size_t end);

Entry Prefill(Sequence& sequence, std::vector<int32_t> tokens);
Entry Decode(Sequence& sequence, int32_t token);

// A copy of an ls_result, independent of the plugin's memory.
struct Output {
  ls_code code = LS_OK;
  std::string message;
  int32_t sampled = -1;
  std::vector<float> log_probs;
  std::vector<ls_top_token> top;  // [log_probs.size(), num_top]
  std::vector<float> logits;      // [num_logit_rows, vocabulary_size]
};

// Parameters for greedy sampling: temperature 0, no truncation, penalty or bias.
ls_sampling Greedy();

}  // namespace longstream::conformance

#endif  // LONGSTREAM_TESTS_CONFORMANCE_MODEL_H_
