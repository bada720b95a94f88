// The commands `longstream sessions export` and `longstream sessions import`.
#include <fcntl.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>

#include "client/commands/commands.h"
#include "client/output.h"

namespace longstream::client {
namespace {

constexpr size_t kPieceBytes = size_t{256} << 10;

struct FileOptions {
  std::string session;
  std::string file;
  std::string model;
  bool sealed = false;
};

[[noreturn]] void Refuse(const std::string& file, const std::string& what, int error) {
  std::cerr << "longstream: " << what << " " << file << ": " << std::strerror(error) << "\n";
  throw ToldFailure{kOutputFailed};
}

// A file that appears under its name when it is whole. If it is not kept, it is removed. Only its
// user can read it: an export has the session's prompts.
class NewFile {
 public:
  explicit NewFile(const std::string& name) : name_(name), partial_(name + ".partial") {
    // An earlier export that was killed may have left a file with another mode.
    std::remove(partial_.c_str());
    constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    const int descriptor = open(partial_.c_str(), kFlags, 0600);
    file_ = descriptor < 0 ? nullptr : fdopen(descriptor, "wb");
    if (file_ == nullptr) Refuse(partial_, "cannot write", errno);
  }
  ~NewFile() {
    if (file_ == nullptr) return;
    std::fclose(file_);
    std::remove(partial_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void Write(std::string_view bytes) {
    if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) {
      Refuse(partial_, "cannot write", errno);
    }
  }
  void Keep() {
    if (std::fflush(file_) != 0) Refuse(partial_, "cannot write", errno);
    if (std::rename(partial_.c_str(), name_.c_str()) != 0) Refuse(name_, "cannot write", errno);
    std::fclose(file_);
    file_ = nullptr;
  }

 private:
  const std::string name_;
  const std::string partial_;
  std::FILE* file_ = nullptr;
};

void Export(const Global& global, const FileOptions& options) {
  Connection connection = ConnectToSession(global, options.session);
  if (options.file == "-") {
    connection.Export(options.session, options.sealed,
                      [](std::string_view bytes) { Print(bytes); });
    return;
  }
  NewFile file(options.file);
  uint64_t size = 0;
  connection.Export(options.session, options.sealed, [&](std::string_view bytes) {
    file.Write(bytes);
    size += bytes.size();
  });
  file.Keep();
  if (global.json) {
    Print("{\"bytes\": " + std::to_string(size) + "}\n");
  } else {
    Print(HumanBytes(size) + " in " + options.file + "\n");
  }
}

// As Connection::Import. If the id of the file is taken, says how to give the session another one.
v1::Session ImportFrom(Connection& connection, const v1::ImportSessionRequest& request,
                       const std::function<std::string()>& next_bytes) {
  try {
    return connection.Import(request, next_bytes);
  } catch (const CallError& error) {
    if (error.status().error_code() != grpc::StatusCode::ALREADY_EXISTS) throw;
    throw CallError(
        grpc::Status(error.status().error_code(),
                     error.status().error_message() + "; give --session for another id"));
  }
}

void Import(const Global& global, const FileOptions& options) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> opened(nullptr, std::fclose);
  std::FILE* file = stdin;
  if (options.file != "-") {
    opened.reset(std::fopen(options.file.c_str(), "rbe"));
    file = opened.get();
    if (file == nullptr) {
      throw CLI::ValidationError("file", options.file + " cannot be read: " + std::strerror(errno));
    }
  }
  Connection connection = Connect(global, options.model);
  v1::ImportSessionRequest request;
  request.set_session_id(options.session);
  request.set_model(options.model);
  const v1::Session session = ImportFrom(connection, request, [&] {
    std::string bytes(kPieceBytes, '\0');
    bytes.resize(std::fread(bytes.data(), 1, bytes.size(), file));
    if (bytes.empty() && std::ferror(file) != 0) Refuse(options.file, "cannot read", errno);
    return bytes;
  });
  if (global.json) {
    Print("{\"session_id\": \"" + session.session_id() +
          "\", \"position\": " + std::to_string(session.position()) + "}\n");
  } else {
    Print(session.session_id() + "\n");
  }
}

}  // namespace

void AddSessionFiles(CLI::App* sessions, const Global* global) {
  auto options = std::make_shared<FileOptions>();
  CLI::App* to = sessions->add_subcommand("export", "Write a session to a file");
  to->add_option("session", options->session, "the session's id")->required();
  to->add_option("file", options->file, "the file; -: standard output")->required();
  to->add_flag("--sealed", options->sealed, "only servers with the key of this one can read it");
  to->footer(
      "Example:\n  longstream sessions export 0123456789abcdef0123456789abcdef talk.session");
  to->callback([=] { Export(*global, *options); });

  CLI::App* from = sessions->add_subcommand("import", "Make a session of a file, and print its id");
  from->add_option("file", options->file, "the file; -: standard input")->required();
  from->add_option("--session", options->session, "the session's new id; default: as it was");
  from->add_option("--model", options->model, "the model; default: as it was");
  from->footer("Example:\n  longstream --server other:50051 sessions import talk.session");
  from->callback([=] { Import(*global, *options); });
}

}  // namespace longstream::client
