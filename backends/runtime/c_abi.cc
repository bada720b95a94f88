// The C side of a plugin: the ABI's table for Definition() and DeviceOps(). Every entry catches
// exceptions.
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "backends/api/backend.h"
#include "backends/api/plugin.h"
#include "backends/checkpoint/config.h"
#include "backends/errors/error.h"
#include "backends/runtime/definition.h"
#include "backends/runtime/fitting_ops.h"
#include "backends/runtime/model.h"
#include "kernels/ops/op_table.h"

// The device outlives the model, which uses its memory.
struct ls_model {
  std::unique_ptr<longstream::Device> device;
  std::unique_ptr<longstream::Model> model;
};

namespace longstream {
namespace {

// Calls body() and turns its exceptions into a code and a sentence.
template <typename Body>
ls_code Barrier(ls_error error, Body&& body) noexcept {
  return Guarded(error, [&] {
    try {
      body();
    } catch (const std::exception&) {
      const BackendError failure = HandledError();
      throw Failure{failure.code(), failure.what()};
    }
  });
}

// Refuses a structure of the host's that is smaller than in version 1.0 of the ABI.
void CheckSize(uint32_t struct_size, size_t least, const char* name) {
  Require(struct_size >= least, LS_INVALID_ARGUMENT,
          std::string(name) + ".struct_size: expected at least " + std::to_string(least) +
              ", found " + std::to_string(struct_size));
}

ls_code Probe(const char* directory, int32_t* fit, ls_error error) {
  return Barrier(error, [&] {
    std::string why;
    int found = Definition().fit(Config(directory), &why);
    if (found != 0) {
      why = WhyOpsDoNotFit(Definition(), directory, DeviceOps());
      if (!why.empty()) found = 0;
    }
    if (found == 0) Report(LS_OK, why, error);
    *fit = found;
  });
}

void CheckOptions(const ls_model_options& options) {
  CheckSize(options.struct_size, LS_MODEL_OPTIONS_SIZE_1_0, "options");
  Require(options.directory != nullptr && options.host != nullptr, LS_INVALID_ARGUMENT,
          "options: directory and host are needed");
  CheckSize(options.host->struct_size, LS_HOST_SIZE_1_0, "host");
  Require(options.host->num_threads >= 1, LS_INVALID_ARGUMENT,
          "host.num_threads: expected at least 1, found 0");
  CheckBatchLimits(options);
  Require(options.num_devices == 1, LS_INVALID_ARGUMENT,
          "devices: expected one, found " + std::to_string(options.num_devices));
}

OpenedDevice DeviceOf(const ls_model_options& options) {
  OpenedDevice opened = OpenDevice(options.devices[0]);
  Require(opened.device != nullptr, opened.unknown ? LS_NOT_FOUND : LS_UNAVAILABLE, opened.why);
  return opened;
}

void LogOpened(const ls_host& host, const char* directory, const Model& model,
               const std::string& device) {
  if (host.log == nullptr) return;
  const std::string text = std::string(Definition().name) + ": " + directory + ": " +
                           std::to_string(model.info().num_layers) + " layers, " +
                           std::to_string(model.info().num_parameters) + " parameters, " +
                           std::to_string(model.weights().bytes) + " bytes of weights, at most " +
                           std::to_string(model.memory().budget) + " for caches, ops " +
                           DeviceOps().name + ", device " + device;
  host.log(host.context, /*severity=*/1, text.c_str());
}

ls_code Open(const ls_model_options* options, ls_model** model, ls_error error) {
  return Barrier(error, [&] {
    CheckOptions(*options);
    auto opened = std::make_unique<ls_model>();
    OpenedDevice device = DeviceOf(*options);
    opened->device = std::move(device.device);
    opened->device->OnWarning([host = options->host](const std::string& sentence) {
      if (host->log != nullptr) host->log(host->context, /*severity=*/2, sentence.c_str());
    });
    opened->model = OpenModel(Definition(), *options, DeviceOps(), *opened->device);
    LogOpened(*options->host, options->directory, *opened->model, device.name);
    *model = opened.release();
  });
}

void Close(ls_model* model) { delete model; }

ls_code Info(const ls_model* model, ls_model_info* info) {
  Fill(info, model->model->info());
  return LS_OK;
}

ls_code Memory(const ls_model* model, ls_memory* memory) {
  Fill(memory, model->model->memory());
  return LS_OK;
}

ls_code SetBudget(ls_model* model, uint64_t cache_bytes_budget, ls_error error) {
  return Barrier(error, [&] { model->model->SetBudget(cache_bytes_budget); });
}

ls_code Create(ls_model* model, ls_sequence** sequence, ls_error error) {
  return Barrier(error, [&] { *sequence = model->model->Create().release(); });
}

ls_code Fork(ls_model* model, ls_sequence* source, ls_sequence** sequence, ls_error error) {
  return Barrier(error, [&] { *sequence = model->model->Fork(*source).release(); });
}

void Free(ls_model*, ls_sequence* sequence) { delete sequence; }

ls_code Reserve(ls_model* model, ls_sequence* sequence, uint64_t tokens, ls_error error) {
  return Barrier(error, [&] { model->model->Reserve(*sequence, tokens); });
}

ls_code Checkpoint(ls_model* model, ls_sequence* sequence, ls_error error) {
  return Barrier(error, [&] { model->model->MarkRollbackPoint(*sequence); });
}

ls_code Truncate(ls_model* model, ls_sequence* sequence, uint64_t position, uint64_t* restored,
                 ls_error error) {
  return Barrier(error, [&] { *restored = model->model->Truncate(*sequence, position); });
}

uint64_t Position(const ls_sequence* sequence) {
  return static_cast<uint64_t>(sequence->cache->position());
}

ls_code Bytes(const ls_model*, const ls_sequence* sequence, ls_sequence_bytes* bytes) {
  const CacheBytes held = sequence->cache->bytes();
  // Shared pages are counted only if the caller asks for them, because that looks at every page.
  const bool wants_shared = bytes->struct_size >= sizeof(ls_sequence_bytes);
  Fill(bytes, ls_sequence_bytes{0, held.pages, held.rings, held.states, held.rollback,
                                wants_shared ? sequence->cache->SharedBytes() : 0});
  return LS_OK;
}

ls_code Export(ls_model* model, ls_sequence* sequence, const ls_writer* writer, ls_error error) {
  return Barrier(error, [&] { model->model->Export(*sequence, *writer); });
}

ls_code Import(ls_model* model, const ls_reader* reader, ls_sequence** sequence, ls_error error) {
  return Barrier(error, [&] { *sequence = model->model->Import(*reader).release(); });
}

ls_code Submit(ls_model* model, const ls_batch* batch, uint64_t* ticket, ls_error error) {
  return Barrier(error, [&] {
    CheckSize(batch->struct_size, LS_BATCH_SIZE_1_0, "batch");
    for (uint32_t i = 0; i < batch->num_entries; ++i) {
      const ls_sampling* sampling = batch->entries[i].sampling;
      if (sampling == nullptr) continue;
      CheckSize(sampling->struct_size, LS_SAMPLING_SIZE_1_0, "sampling");
    }
    *ticket = model->model->Submit(*batch);
  });
}

ls_code Wait(ls_model* model, uint64_t ticket, ls_results* results, ls_error error) {
  return Barrier(error, [&] { *results = model->model->Wait(ticket); });
}

ls_code SnapshotBegin(ls_model* model, ls_sequence* sequence, uint64_t from, ls_snapshot** snapshot,
                      ls_snapshot_info* info, ls_error error) {
  return Barrier(error, [&] {
    std::unique_ptr<ls_snapshot> begun = model->model->BeginSnapshot(*sequence, from);
    Fill(info, begun->caches.info());
    *snapshot = begun.release();
  });
}

ls_code SnapshotRead(ls_snapshot* snapshot, int32_t segment, void* data, size_t capacity,
                     size_t* size, ls_error error) {
  return Barrier(error, [&] {
    RequireSegment(segment);
    *size = snapshot->caches.Read(static_cast<SegmentKind>(segment),
                                  {static_cast<std::byte*>(data), capacity});
  });
}

void SnapshotFree(ls_model*, ls_snapshot* snapshot) { delete snapshot; }

ls_code ImportBegin(ls_model* model, uint64_t position, ls_import** import, ls_error error) {
  return Barrier(error, [&] { *import = model->model->BeginImport(position).release(); });
}

ls_code ImportWrite(ls_import* import, const void* data, size_t size, ls_error error) {
  return Barrier(error, [&] { import->caches.Write({static_cast<const std::byte*>(data), size}); });
}

ls_code ImportAttach(ls_model* model, ls_import* import, ls_sequence** sequence, ls_error error) {
  return Barrier(error, [&] {
    *sequence = model->model->Attach(*import).release();
    delete import;
  });
}

void ImportFree(ls_model*, ls_import* import) { delete import; }

uint64_t Capabilities() {
  // The pools of a device that runs beside the host are allocated with the size of the budget.
  return kCapabilities | (DeviceRunsBesideHost() ? LS_CAP_LOOK_AHEAD : LS_CAP_SET_BUDGET);
}

const ls_backend& Table() {
  static const ls_backend table = {
      .abi_major = LS_ABI_MAJOR,
      .abi_minor = LS_ABI_MINOR,
      .struct_size = sizeof(ls_backend),
      .name = Definition().name,
      .device = DeviceKind(),
      .version = Definition().version,
      .capabilities = Capabilities(),
      .probe = Probe,
      .model_open = Open,
      .model_close = Close,
      .model_info = Info,
      .model_memory = Memory,
      .sequence_create = Create,
      .sequence_fork = Fork,
      .sequence_free = Free,
      .sequence_reserve = Reserve,
      .sequence_checkpoint = Checkpoint,
      .sequence_truncate = Truncate,
      .sequence_position = Position,
      .sequence_bytes = Bytes,
      .sequence_export = Export,
      .sequence_import = Import,
      .submit = Submit,
      .wait = Wait,
      .model_set_budget = SetBudget,
      .snapshot_begin = SnapshotBegin,
      .snapshot_read = SnapshotRead,
      .snapshot_free = SnapshotFree,
      .import_begin = ImportBegin,
      .import_write = ImportWrite,
      .import_attach = ImportAttach,
      .import_free = ImportFree,
  };
  return table;
}

}  // namespace
}  // namespace longstream

// The only symbol that the version script exports.
extern "C" __attribute__((visibility("default"))) const ls_backend* longstream_backend() {
  return &longstream::Table();
}
