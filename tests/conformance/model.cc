// The kit's handles. Each method calls one function of the table.
#include "tests/conformance/model.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

namespace longstream::conformance {
namespace {

constexpr char kCanary = '\x5a';

// Throws CheckFailed unless `code` is LS_OK.
void RequireOk(ls_code code, const char* call, const std::string& error) {
  if (code != LS_OK) throw CheckFailed{std::string(call) + ": " + NameOf(code) + ": " + error};
}

// Calls function(error) and stores the sentence that the plugin wrote. A failure without a sentence
// ends the check.
template <typename Function>
ls_code Call(const char* name, std::string* error, Function&& function) {
  ErrorText text;
  const ls_code code = function(text.get());
  if (code != LS_OK && text.str().empty()) {
    throw CheckFailed{std::string(name) + ": " + NameOf(code) + " without a sentence"};
  }
  if (error != nullptr) *error = text.str();
  return code;
}

Output CopyResult(const ls_result& result, uint32_t num_top, uint32_t vocabulary) {
  Output output;
  output.code = result.code;
  if (result.message == nullptr) throw CheckFailed{"result: message is NULL"};
  output.message = result.message;
  if ((result.code == LS_OK) != output.message.empty()) {
    throw CheckFailed{"result: " + NameOf(result.code) + " with the message '" + output.message +
                      "'"};
  }
  const size_t scored = result.num_log_prob_rows;
  const size_t shown = result.num_logit_rows;
  if (result.code != LS_OK && (result.sampled != -1 || scored != 0 || shown != 0)) {
    throw CheckFailed{"result: " + NameOf(result.code) + " with outputs"};
  }
  output.sampled = result.sampled;
  if (scored > 0) {
    output.log_probs.assign(result.log_probs, result.log_probs + scored);
    if (num_top > 0) output.top.assign(result.top, result.top + scored * num_top);
  }
  if (shown > 0) output.logits.assign(result.logits, result.logits + shown * vocabulary);
  return output;
}

struct Source {
  const std::string& bytes;
  size_t offset = 0;
};

int32_t ReadSource(void* context, void* data, size_t size) {
  auto* source = static_cast<Source*>(context);
  if (size > source->bytes.size() - source->offset) return 1;
  if (size > 0) std::memcpy(data, source->bytes.data() + source->offset, size);
  source->offset += size;
  return 0;
}

struct Sink {
  std::string bytes;
  size_t limit;
};

int32_t WriteSink(void* context, const void* data, size_t size) {
  auto* sink = static_cast<Sink*>(context);
  if (size > sink->limit - sink->bytes.size()) return 1;
  sink->bytes.append(static_cast<const char*>(data), size);
  return 0;
}

}  // namespace

ErrorText::ErrorText() { std::fill(std::begin(text_), std::end(text_), kCanary), text_[0] = '\0'; }

std::string ErrorText::str() const {
  if (std::any_of(text_ + kCapacity, std::end(text_), [](char c) { return c != kCanary; })) {
    throw CheckFailed{"an error's buffer was overrun"};
  }
  const char* end = std::find(text_, text_ + kCapacity, '\0');
  if (end == text_ + kCapacity) throw CheckFailed{"an error's text is not terminated"};
  return std::string(text_, end);
}

std::string NameOf(ls_code code) {
  static const std::map<ls_code, const char*> names = {
      {LS_OK, "LS_OK"},
      {LS_INVALID_ARGUMENT, "LS_INVALID_ARGUMENT"},
      {LS_NOT_FOUND, "LS_NOT_FOUND"},
      {LS_RESOURCE_EXHAUSTED, "LS_RESOURCE_EXHAUSTED"},
      {LS_FAILED_PRECONDITION, "LS_FAILED_PRECONDITION"},
      {LS_UNIMPLEMENTED, "LS_UNIMPLEMENTED"},
      {LS_INTERNAL, "LS_INTERNAL"},
      {LS_UNAVAILABLE, "LS_UNAVAILABLE"},
      {LS_DATA_LOSS, "LS_DATA_LOSS"},
  };
  const auto found = names.find(code);
  return found != names.end() ? found->second : "code " + std::to_string(code);
}

void ExpectCode(Check& check, const std::string& what, ls_code expected, ls_code found) {
  check.Expect(expected == found,
               what + ": expected " + NameOf(expected) + ", found " + NameOf(found));
}

ls_code TryOpen(const ls_backend& backend, const std::string& directory, const OpenOptions& options,
                const TestHost& host, ls_model** model, std::string* error) {
  const char* device = !options.device.empty()                    ? options.device.c_str()
                       : std::strcmp(backend.device, "cuda") == 0 ? "cuda:0"
                                                                  : backend.device;
  const ls_model_options abi_options = {sizeof(ls_model_options),
                                        directory.c_str(),
                                        options.options.c_str(),
                                        &device,
                                        1,
                                        options.cache_bytes_budget,
                                        options.max_batch_tokens,
                                        options.max_batch_sequences,
                                        host.table()};
  return Call("model_open", error,
              [&](ls_error text) { return backend.model_open(&abi_options, model, text); });
}

Model::Model(const ls_backend& backend, const std::string& directory, const OpenOptions& options,
             const TestHost& host)
    : backend_(backend) {
  std::string error;
  RequireOk(TryOpen(backend, directory, options, host, &handle_, &error), "model_open", error);
  info_.struct_size = sizeof(info_);
  RequireOk(backend_.model_info(handle_, &info_), "model_info", "");
}

Model::~Model() { backend_.model_close(handle_); }

ls_memory Model::Memory() const {
  ls_memory memory{};
  memory.struct_size = sizeof(memory);
  RequireOk(backend_.model_memory(handle_, &memory), "model_memory", "");
  return memory;
}

ls_code Model::TryCreate(Sequence* sequence, std::string* error) {
  ls_sequence* created = nullptr;
  const ls_code code = Call("sequence_create", error, [&](ls_error text) {
    return backend_.sequence_create(handle_, &created, text);
  });
  if (code == LS_OK) *sequence = Sequence(this, created);
  return code;
}

Sequence Model::Create() {
  Sequence sequence;
  std::string error;
  RequireOk(TryCreate(&sequence, &error), "sequence_create", error);
  return sequence;
}

Sequence Model::Create(uint64_t tokens) {
  Sequence sequence = Create();
  sequence.Reserve(tokens);
  return sequence;
}

ls_code Model::TryImport(const std::string& snapshot, Sequence* sequence, std::string* error,
                         size_t* consumed) {
  Source source{snapshot};
  const ls_reader reader = {&source, &ReadSource};
  ls_sequence* imported = nullptr;
  const ls_code code = Call("sequence_import", error, [&](ls_error text) {
    return backend_.sequence_import(handle_, &reader, &imported, text);
  });
  if (consumed != nullptr) *consumed = source.offset;
  if (code == LS_OK) *sequence = Sequence(this, imported);
  return code;
}

Sequence Model::Import(const std::string& snapshot) {
  Sequence sequence;
  std::string error;
  RequireOk(TryImport(snapshot, &sequence, &error), "sequence_import", error);
  return sequence;
}

ls_code Model::TrySubmit(const std::vector<Entry>& entries, uint64_t* ticket, std::string* error) {
  std::vector<ls_batch_entry> abi_entries;
  abi_entries.reserve(entries.size());
  for (const Entry& entry : entries) {
    abi_entries.push_back(
        {entry.sequence->handle(), entry.tokens.data(), static_cast<uint32_t>(entry.tokens.size()),
         entry.is_decode ? 1u : 0u, entry.sampling, entry.log_prob_rows,
         entry.targets.empty() ? nullptr : entry.targets.data(), entry.num_top, entry.logit_rows});
  }
  const ls_batch batch = {sizeof(ls_batch), abi_entries.data(),
                          static_cast<uint32_t>(abi_entries.size())};
  return Call("submit", error,
              [&](ls_error text) { return backend_.submit(handle_, &batch, ticket, text); });
}

std::vector<Output> Model::Wait(uint64_t ticket, const std::vector<Entry>& entries) {
  ls_results results{};
  std::string error;
  const ls_code code = Call("wait", &error, [&](ls_error text) {
    return backend_.wait(handle_, ticket, &results, text);
  });
  RequireOk(code, "wait", error);
  if (results.num_results != entries.size()) {
    throw CheckFailed{"wait: " + std::to_string(results.num_results) + " results for " +
                      std::to_string(entries.size()) + " entries"};
  }
  std::vector<Output> outputs;
  for (size_t i = 0; i < entries.size(); ++i) {
    outputs.push_back(CopyResult(results.results[i], entries[i].num_top, info_.vocabulary_size));
  }
  return outputs;
}

uint64_t Model::Submit(const std::vector<Entry>& entries) {
  uint64_t ticket = 0;
  std::string error;
  RequireOk(TrySubmit(entries, &ticket, &error), "submit", error);
  return ticket;
}

std::vector<Output> Model::Step(const std::vector<Entry>& entries) {
  return Wait(Submit(entries), entries);
}

Output Model::Step(const Entry& entry) {
  Output output = Step(std::vector<Entry>{entry}).front();
  RequireOk(output.code, "step", output.message);
  return output;
}

Sequence::Sequence(Sequence&& other) noexcept
    : model_(std::exchange(other.model_, nullptr)),
      handle_(std::exchange(other.handle_, nullptr)) {}

Sequence& Sequence::operator=(Sequence&& other) noexcept {
  if (this != &other) {
    Free();
    model_ = std::exchange(other.model_, nullptr);
    handle_ = std::exchange(other.handle_, nullptr);
  }
  return *this;
}

void Sequence::Free() {
  if (handle_ != nullptr) model_->backend().sequence_free(model_->handle(), handle_);
  handle_ = nullptr;
}

uint64_t Sequence::position() const { return model_->backend().sequence_position(handle_); }

ls_sequence_bytes Sequence::Bytes() const {
  ls_sequence_bytes bytes{};
  bytes.struct_size = sizeof(bytes);
  RequireOk(model_->backend().sequence_bytes(model_->handle(), handle_, &bytes), "sequence_bytes",
            "");
  return bytes;
}

ls_code Sequence::TryFork(Sequence* fork, std::string* error) {
  ls_sequence* forked = nullptr;
  const ls_code code = Call("sequence_fork", error, [&](ls_error text) {
    return model_->backend().sequence_fork(model_->handle(), handle_, &forked, text);
  });
  if (code == LS_OK) *fork = Sequence(model_, forked);
  return code;
}

Sequence Sequence::Fork() {
  Sequence fork;
  std::string error;
  RequireOk(TryFork(&fork, &error), "sequence_fork", error);
  return fork;
}

ls_code Sequence::TryReserve(uint64_t tokens, std::string* error) {
  return Call("sequence_reserve", error, [&](ls_error text) {
    return model_->backend().sequence_reserve(model_->handle(), handle_, tokens, text);
  });
}

void Sequence::Reserve(uint64_t tokens) {
  std::string error;
  RequireOk(TryReserve(tokens, &error), "sequence_reserve", error);
}

ls_code Sequence::TryCheckpoint(std::string* error) {
  return Call("sequence_checkpoint", error, [&](ls_error text) {
    return model_->backend().sequence_checkpoint(model_->handle(), handle_, text);
  });
}

void Sequence::Checkpoint() {
  std::string error;
  RequireOk(TryCheckpoint(&error), "sequence_checkpoint", error);
}

ls_code Sequence::TryTruncate(uint64_t position, uint64_t* restored, std::string* error) {
  return Call("sequence_truncate", error, [&](ls_error text) {
    return model_->backend().sequence_truncate(model_->handle(), handle_, position, restored, text);
  });
}

uint64_t Sequence::Truncate(uint64_t position) {
  uint64_t restored = 0;
  std::string error;
  RequireOk(TryTruncate(position, &restored, &error), "sequence_truncate", error);
  if (restored > position || restored != this->position()) {
    throw CheckFailed{"sequence_truncate: to " + std::to_string(position) + " restored " +
                      std::to_string(restored) + ", position " + std::to_string(this->position())};
  }
  return restored;
}

ls_code Sequence::TryExport(std::string* snapshot, std::string* error, size_t limit) {
  Sink sink{"", limit};
  const ls_writer writer = {&sink, &WriteSink};
  const ls_code code = Call("sequence_export", error, [&](ls_error text) {
    return model_->backend().sequence_export(model_->handle(), handle_, &writer, text);
  });
  *snapshot = std::move(sink.bytes);
  return code;
}

std::string Sequence::Export() {
  std::string snapshot;
  std::string error;
  RequireOk(TryExport(&snapshot, &error), "sequence_export", error);
  return snapshot;
}

std::vector<int32_t> Part(const std::vector<int32_t>& tokens, size_t begin, size_t end) {
  return {tokens.begin() + static_cast<std::ptrdiff_t>(begin),
          tokens.begin() + static_cast<std::ptrdiff_t>(end)};
}

Entry Prefill(Sequence& sequence, std::vector<int32_t> tokens) {
  Entry entry;
  entry.sequence = &sequence;
  entry.tokens = std::move(tokens);
  return entry;
}

Entry Decode(Sequence& sequence, int32_t token) {
  Entry entry = Prefill(sequence, {token});
  entry.is_decode = true;
  return entry;
}

ls_sampling Greedy() {
  ls_sampling sampling{};
  sampling.struct_size = sizeof(sampling);
  sampling.top_p = 1.0f;
  sampling.repetition_penalty = 1.0f;
  return sampling;
}

}  // namespace longstream::conformance
