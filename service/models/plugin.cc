// Loads and checks backend plugins.
#include "service/models/plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace longstream {
namespace {

absl::Status Refuse(const std::filesystem::path& file, std::string_view reason) {
  return absl::FailedPreconditionError(absl::StrCat(
      "plugin ", file.string(), ": ", absl::string_view(reason.data(), reason.size())));
}

// Whether the table reaches as far as `size` and has a function there. A table of an earlier minor
// version ends before the functions of later ones, so nothing may be read behind its end.
template <typename Function>
bool Has(const ls_backend& table, size_t size, Function ls_backend::*function) {
  return table.struct_size >= size && table.*function != nullptr;
}

// A function of the table, and the capability that requires it. 0: every plugin needs the function.
struct RequiredFunction {
  const char* name;
  bool present;
  uint64_t capability;
};

absl::Status CheckFunctions(const std::filesystem::path& file, const ls_backend& table) {
  const RequiredFunction functions[] = {
      {"probe", table.probe != nullptr, 0},
      {"model_open", table.model_open != nullptr, 0},
      {"model_close", table.model_close != nullptr, 0},
      {"model_info", table.model_info != nullptr, 0},
      {"model_memory", table.model_memory != nullptr, 0},
      {"sequence_create", table.sequence_create != nullptr, 0},
      {"sequence_fork", table.sequence_fork != nullptr, LS_CAP_FORK},
      {"sequence_free", table.sequence_free != nullptr, 0},
      {"sequence_reserve", table.sequence_reserve != nullptr, 0},
      {"sequence_checkpoint", table.sequence_checkpoint != nullptr, 0},
      {"sequence_truncate", table.sequence_truncate != nullptr, 0},
      {"sequence_position", table.sequence_position != nullptr, 0},
      {"sequence_bytes", table.sequence_bytes != nullptr, 0},
      {"sequence_export", table.sequence_export != nullptr, LS_CAP_SNAPSHOT},
      {"sequence_import", table.sequence_import != nullptr, LS_CAP_SNAPSHOT},
      {"model_set_budget", Has(table, LS_BACKEND_SIZE_1_2, &ls_backend::model_set_budget),
       LS_CAP_SET_BUDGET},
      {"snapshot_begin", Has(table, LS_BACKEND_SIZE_1_3, &ls_backend::snapshot_begin),
       LS_CAP_SEGMENTS},
      {"snapshot_read", Has(table, LS_BACKEND_SIZE_1_3, &ls_backend::snapshot_read),
       LS_CAP_SEGMENTS},
      {"snapshot_free", Has(table, LS_BACKEND_SIZE_1_3, &ls_backend::snapshot_free),
       LS_CAP_SEGMENTS},
      {"import_begin", Has(table, LS_BACKEND_SIZE_1_3, &ls_backend::import_begin), LS_CAP_SEGMENTS},
      {"import_write", Has(table, LS_BACKEND_SIZE_1_3, &ls_backend::import_write), LS_CAP_SEGMENTS},
      {"import_attach", Has(table, LS_BACKEND_SIZE_1_3, &ls_backend::import_attach),
       LS_CAP_SEGMENTS},
      {"import_free", Has(table, LS_BACKEND_SIZE_1_3, &ls_backend::import_free), LS_CAP_SEGMENTS},
      {"submit", table.submit != nullptr, 0},
      {"wait", table.wait != nullptr, 0},
  };
  for (const RequiredFunction& function : functions) {
    const bool required = function.capability == 0 ||
                          (table.capabilities & function.capability) == function.capability;
    if (required && !function.present) {
      return Refuse(file, absl::StrCat("the function ", function.name, " is missing"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTable(const std::filesystem::path& file, const ls_backend* table) {
  if (table == nullptr) return Refuse(file, LS_BACKEND_SYMBOL "() returned no table");
  if (table->abi_major != LS_ABI_MAJOR) {
    return Refuse(file,
                  absl::StrCat("built for backend ABI ", table->abi_major, ".", table->abi_minor,
                               ", this server needs ", LS_ABI_MAJOR, ".", LS_ABI_MINOR));
  }
  if (table->struct_size < LS_BACKEND_SIZE_1_0) {
    return Refuse(file, absl::StrCat("its table has ", table->struct_size,
                                     " bytes, ABI 1.0 needs at least ", LS_BACKEND_SIZE_1_0));
  }
  if (table->name == nullptr || table->name[0] == '\0' || table->device == nullptr ||
      table->version == nullptr) {
    return Refuse(file, "name, device or version is missing in its table");
  }
  return CheckFunctions(file, *table);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Plugin>> Plugin::Load(const std::filesystem::path& file) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    return Refuse(file, reason != nullptr ? reason : "dlopen failed without a reason");
  }
  const auto symbol = reinterpret_cast<ls_backend_function>(dlsym(library, LS_BACKEND_SYMBOL));
  absl::Status status = symbol == nullptr ? Refuse(file, "it exports no symbol " LS_BACKEND_SYMBOL)
                                          : absl::OkStatus();
  const ls_backend* table = status.ok() ? symbol() : nullptr;
  if (status.ok()) status = CheckTable(file, table);
  if (!status.ok()) {
    dlclose(library);
    return status;
  }
  return std::shared_ptr<const Plugin>(new Plugin(file, library, table));
}

Plugin::Plugin(std::filesystem::path file, void* library, const ls_backend* table)
    : file_(std::move(file)), library_(library), table_(table) {}

Plugin::~Plugin() { dlclose(library_); }

absl::StatusOr<PluginDirectory> LoadPluginDirectory(const std::filesystem::path& directory) {
  std::error_code error;
  std::vector<std::filesystem::path> files;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() == ".so") files.push_back(it->path());
  }
  if (error) {
    return absl::NotFoundError(
        absl::StrCat("plugin directory ", directory.string(), ": ", error.message()));
  }
  std::sort(files.begin(), files.end());

  PluginDirectory found;
  for (const std::filesystem::path& file : files) {
    absl::StatusOr<std::shared_ptr<const Plugin>> plugin = Plugin::Load(file);
    if (!plugin.ok()) {
      found.refused.push_back(plugin.status());
      continue;
    }
    const bool is_second =
        std::any_of(found.plugins.begin(), found.plugins.end(), [&](const auto& other) {
          return other->name() == (*plugin)->name() && other->device() == (*plugin)->device();
        });
    if (is_second) {
      found.refused.push_back(absl::FailedPreconditionError(
          absl::StrCat("plugin ", file.string(), ": an earlier file has the backend ",
                       (*plugin)->name(), " for the device ", (*plugin)->device())));
      continue;
    }
    found.plugins.push_back(*std::move(plugin));
  }
  return found;
}

}  // namespace longstream
