// Makes a CPU plugin (kInnerPlugin) behave like a device's plugin: a step begins when the previous
// step has ended, and runs while the host continues. `wait` returns the results of a step when the
// step's time is over. Also checks the host: if the host does something that the ABI forbids while
// a step is in flight, the process ends with a sentence.
//
// Option step_delay_us: the time that a step takes. In place of the workspace's size, ls_memory
// gives the number of steps that were submitted while another step was in flight. Tests read it
// there.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "backends/api/backend.h"
#include "tests/conformance/asynchronous/inner_plugin.h"

namespace {
using Clock = std::chrono::steady_clock;

struct Step {
  Clock::time_point done;
  std::vector<ls_sequence*> sequences;
};
}  // namespace

struct ls_sequence {
  ls_sequence* inner = nullptr;
  std::deque<uint64_t> in_flight;  // the sequence's position after each of its steps in flight
};

struct ls_model {
  ls_model* inner = nullptr;
  std::chrono::microseconds step_delay{0};
  std::deque<Step> in_flight;
  Clock::time_point device_free;
  std::atomic<uint64_t> steps_ahead{0};
};

namespace {

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "the host broke the ABI: %s\n", what.c_str());
  std::abort();
}

// The inner plugin. The first call loads it, and it is unloaded together with this plugin.
struct InnerPlugin {
  InnerPlugin() {
    if (library == nullptr) Die(dlerror());
  }
  ~InnerPlugin() { dlclose(library); }
  InnerPlugin(const InnerPlugin&) = delete;
  InnerPlugin& operator=(const InnerPlugin&) = delete;

  void* const library = dlopen(kInnerPlugin, RTLD_NOW | RTLD_LOCAL);
};

const ls_backend& Inner() {
  static const InnerPlugin plugin;
  static const ls_backend& backend =
      *reinterpret_cast<ls_backend_function>(dlsym(plugin.library, LS_BACKEND_SYMBOL))();
  return backend;
}

void RequireIdle(const ls_sequence* sequence, const char* function) {
  if (!sequence->in_flight.empty()) Die(std::string(function) + " of a sequence in flight");
}

// Makes a handle for a sequence of the inner backend.
ls_code Wrap(ls_code code, ls_sequence* inner, ls_sequence** sequence) {
  if (code == LS_OK) *sequence = new ls_sequence{inner, {}};
  return code;
}

// ---------------------------------------------------------------- models

ls_code Open(const ls_model_options* options, ls_model** model, ls_error error) {
  auto opened = std::make_unique<ls_model>();
  ls_model_options inner_options = *options;
  std::string rest = options->options != nullptr ? options->options : "{}";
  auto json = nlohmann::json::parse(rest, nullptr, /*allow_exceptions=*/false);
  if (json.is_object()) {
    opened->step_delay = std::chrono::microseconds(json.value("step_delay_us", 0));
    json.erase("step_delay_us");
    rest = json.dump();
  }
  inner_options.options = rest.c_str();
  const ls_code code = Inner().model_open(&inner_options, &opened->inner, error);
  if (code == LS_OK) *model = opened.release();
  return code;
}

void Close(ls_model* model) {
  if (!model->in_flight.empty()) Die("model_close with a step in flight");
  Inner().model_close(model->inner);
  delete model;
}

ls_code Info(const ls_model* model, ls_model_info* info) {
  return Inner().model_info(model->inner, info);
}

ls_code Memory(const ls_model* model, ls_memory* memory) {
  const ls_code code = Inner().model_memory(model->inner, memory);
  memory->workspace = model->steps_ahead;
  return code;
}

ls_code SetBudget(ls_model* model, uint64_t cache_bytes_budget, ls_error error) {
  return Inner().model_set_budget(model->inner, cache_bytes_budget, error);
}

// ---------------------------------------------------------------- sequences

ls_code Create(ls_model* model, ls_sequence** sequence, ls_error error) {
  ls_sequence* inner = nullptr;
  const ls_code code = Inner().sequence_create(model->inner, &inner, error);
  return Wrap(code, inner, sequence);
}

ls_code Fork(ls_model* model, ls_sequence* source, ls_sequence** sequence, ls_error error) {
  RequireIdle(source, "sequence_fork");
  ls_sequence* inner = nullptr;
  const ls_code code = Inner().sequence_fork(model->inner, source->inner, &inner, error);
  return Wrap(code, inner, sequence);
}

void Free(ls_model* model, ls_sequence* sequence) {
  RequireIdle(sequence, "sequence_free");
  Inner().sequence_free(model->inner, sequence->inner);
  delete sequence;
}

ls_code Reserve(ls_model* model, ls_sequence* sequence, uint64_t tokens, ls_error error) {
  RequireIdle(sequence, "sequence_reserve");
  return Inner().sequence_reserve(model->inner, sequence->inner, tokens, error);
}

ls_code Checkpoint(ls_model* model, ls_sequence* sequence, ls_error error) {
  RequireIdle(sequence, "sequence_checkpoint");
  return Inner().sequence_checkpoint(model->inner, sequence->inner, error);
}

ls_code Truncate(ls_model* model, ls_sequence* sequence, uint64_t position, uint64_t* restored,
                 ls_error error) {
  RequireIdle(sequence, "sequence_truncate");
  return Inner().sequence_truncate(model->inner, sequence->inner, position, restored, error);
}

uint64_t Position(const ls_sequence* sequence) {
  return sequence->in_flight.empty() ? Inner().sequence_position(sequence->inner)
                                     : sequence->in_flight.back();
}

ls_code Bytes(const ls_model* model, const ls_sequence* sequence, ls_sequence_bytes* bytes) {
  return Inner().sequence_bytes(model->inner, sequence->inner, bytes);
}

ls_code Export(ls_model* model, ls_sequence* sequence, const ls_writer* writer, ls_error error) {
  RequireIdle(sequence, "sequence_export");
  return Inner().sequence_export(model->inner, sequence->inner, writer, error);
}

ls_code Import(ls_model* model, const ls_reader* reader, ls_sequence** sequence, ls_error error) {
  ls_sequence* inner = nullptr;
  const ls_code code = Inner().sequence_import(model->inner, reader, &inner, error);
  return Wrap(code, inner, sequence);
}

ls_code SnapshotBegin(ls_model* model, ls_sequence* sequence, uint64_t from, ls_snapshot** snapshot,
                      ls_snapshot_info* info, ls_error error) {
  RequireIdle(sequence, "snapshot_begin");
  return Inner().snapshot_begin(model->inner, sequence->inner, from, snapshot, info, error);
}

void SnapshotFree(ls_model* model, ls_snapshot* snapshot) {
  Inner().snapshot_free(model->inner, snapshot);
}

ls_code ImportBegin(ls_model* model, uint64_t position, ls_import** import, ls_error error) {
  return Inner().import_begin(model->inner, position, import, error);
}

ls_code ImportAttach(ls_model* model, ls_import* import, ls_sequence** sequence, ls_error error) {
  ls_sequence* inner = nullptr;
  const ls_code code = Inner().import_attach(model->inner, import, &inner, error);
  return Wrap(code, inner, sequence);
}

void ImportFree(ls_model* model, ls_import* import) { Inner().import_free(model->inner, import); }

// ---------------------------------------------------------------- steps

ls_code Submit(ls_model* model, const ls_batch* batch, uint64_t* ticket, ls_error error) {
  Step step;
  // The positions if no entry fails; only `wait` tells which entries failed.
  std::vector<uint64_t> ends;
  std::vector<ls_batch_entry> entries(batch->entries, batch->entries + batch->num_entries);
  for (ls_batch_entry& entry : entries) {
    step.sequences.push_back(entry.sequence);
    ends.push_back(Position(entry.sequence) + entry.num_tokens);
    entry.sequence = entry.sequence->inner;
  }
  const ls_batch inner_batch = {sizeof(ls_batch), entries.data(), batch->num_entries};
  const ls_code code = Inner().submit(model->inner, &inner_batch, ticket, error);
  if (code != LS_OK) return code;

  for (size_t i = 0; i < ends.size(); ++i) step.sequences[i]->in_flight.push_back(ends[i]);
  model->steps_ahead += model->in_flight.empty() ? 0 : 1;
  model->device_free = std::max(model->device_free, Clock::now()) + model->step_delay;
  step.done = model->device_free;
  model->in_flight.push_back(std::move(step));
  return LS_OK;
}

ls_code Wait(ls_model* model, uint64_t ticket, ls_results* results, ls_error error) {
  const ls_code code = Inner().wait(model->inner, ticket, results, error);
  if (code != LS_OK) return code;
  const Step& step = model->in_flight.front();
  std::this_thread::sleep_until(step.done);
  for (ls_sequence* sequence : step.sequences) sequence->in_flight.pop_front();
  model->in_flight.pop_front();
  return LS_OK;
}

ls_backend Table() {
  ls_backend table = Inner();
  table.abi_minor = LS_ABI_MINOR;
  table.capabilities |= LS_CAP_LOOK_AHEAD;
  table.model_set_budget = SetBudget;
  table.model_open = Open;
  table.model_close = Close;
  table.model_info = Info;
  table.model_memory = Memory;
  table.sequence_create = Create;
  table.sequence_fork = Fork;
  table.sequence_free = Free;
  table.sequence_reserve = Reserve;
  table.sequence_checkpoint = Checkpoint;
  table.sequence_truncate = Truncate;
  table.sequence_position = Position;
  table.sequence_bytes = Bytes;
  table.sequence_export = Export;
  table.sequence_import = Import;
  table.snapshot_begin = SnapshotBegin;
  table.snapshot_free = SnapshotFree;
  table.import_begin = ImportBegin;
  table.import_attach = ImportAttach;
  table.import_free = ImportFree;
  table.submit = Submit;
  table.wait = Wait;
  return table;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const ls_backend* longstream_backend() {
  static const ls_backend kTable = Table();
  return &kTable;
}
