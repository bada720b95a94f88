// A library for LD_PRELOAD that makes writes to the files of a store fail, or kills the process at
// one of them. LONGSTREAM_FAULT_DIRECTORY is the store's directory. The file LONGSTREAM_FAULT_FILE
// says what happens; it is read at every call, so a test can change it while the process runs:
//
//   none           nothing fails; so does an empty file
//   count          the number of calls so far is written to the file LONGSTREAM_FAULT_FILE.count
//   kill N WHEN    the process is killed (SIGKILL) at its Nth call: WHEN is 0 before it, 1 after
//   half
//                  of its bytes (before it, if it writes none), 2 after it
//   full 0 S       writes fail with ENOSPC
//   full-segments 0 S
//                  those to the files of segments do
//   read-only 0 S  writes, truncations and removals fail with EROFS
//   fsync 0 S      fsync and fdatasync fail with EIO, and the bytes may not be on the disk
//   slow N S       fsync and fdatasync take N ms longer
//   hang 0 S       fsync and fdatasync wait until the file says something else
//
// These begin after S calls of fsync and fdatasync since the file changed; S may be left out. A
// call is a write, a truncation, an fsync, a rename or a removal of a file in the directory.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>

namespace {

enum class Call { kWrite, kTruncate, kSync, kRename, kRemove };
enum When { kBefore = 0, kHalf = 1, kAfter = 2 };

std::atomic<long> num_calls{0};

struct Fault {
  char kind[16] = "none";
  long number = 0;
  int option = 0;  // WHEN or S
};

std::mutex mutex;          // guards both:
std::string last_content;  // of the file
long num_syncs = 0;        // since it changed

const char* Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool IsStored(std::string_view path) {
  static const std::string directory = Variable("LONGSTREAM_FAULT_DIRECTORY");
  return !directory.empty() && path.starts_with(directory);
}

bool IsStored(int descriptor) {
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  char path[512];
  const ssize_t size = readlink(link.c_str(), path, sizeof(path));
  return size > 0 && IsStored(std::string_view(path, static_cast<size_t>(size)));
}

std::string ReadFile() {
  static const std::string path = Variable("LONGSTREAM_FAULT_FILE");
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return "";
  char text[64] = {};
  const ssize_t size = read(file, text, sizeof(text) - 1);
  close(file);
  return size <= 0 ? "" : text;
}

Fault ReadFault(Call call) {
  Fault fault;
  const std::string text = ReadFile();
  if (text.empty()) return fault;
  std::sscanf(text.c_str(), "%15s %ld %d", fault.kind, &fault.number, &fault.option);
  const std::lock_guard<std::mutex> lock(mutex);
  if (last_content != text) num_syncs = 0;
  last_content = text;
  if (std::string_view(fault.kind) != "kill" && num_syncs < fault.option) fault = Fault();
  if (call == Call::kSync) ++num_syncs;
  return fault;
}

template <typename Function>
Function* Real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

void WriteCount(long number) {
  static const std::string path = std::string(Variable("LONGSTREAM_FAULT_FILE")) + ".count";
  static auto* const real = Real<ssize_t(int, const void*, size_t)>("write");
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const std::string text = std::to_string(number);
  if (file >= 0) real(file, text.data(), text.size());
  close(file);
}

void Die() {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

// The error number with which a call fails, or 0. Sleeps or dies if the fault says so.
int ErrorOf(Call call, const Fault& fault) {
  const std::string_view kind = fault.kind;
  if (kind == "full") return call == Call::kWrite ? ENOSPC : 0;
  if (kind == "read-only") return call == Call::kSync || call == Call::kRename ? 0 : EROFS;
  if (call != Call::kSync) return 0;
  if (kind == "fsync") return EIO;
  while (kind == "hang" && ReadFile().starts_with("hang")) usleep(1000);
  if (kind == "slow") usleep(static_cast<useconds_t>(fault.number) * 1000);
  return 0;
}

// Makes a call that returns -1 if it fails. `half` writes the first half of its bytes.
template <typename Whole, typename Half>
auto Make(Call call, const Whole& whole, const Half& half) -> decltype(whole()) {
  const Fault fault = ReadFault(call);
  const long number = ++num_calls;
  const std::string_view kind = fault.kind;
  const bool dies = kind == "kill" && number == fault.number;
  if (kind == "count") WriteCount(number);
  if (dies && fault.option == kHalf) half();
  if (dies && fault.option != kAfter) Die();
  if (const int error = ErrorOf(call, fault); error != 0) {
    errno = error;
    return -1;
  }
  const auto result = whole();
  if (dies) Die();
  return result;
}

template <typename Whole>
auto Make(Call call, const Whole& whole) -> decltype(whole()) {
  return Make(call, whole, [] {});
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED ssize_t write(int file, const void* bytes, size_t size) {
  static auto* const real = Real<ssize_t(int, const void*, size_t)>("write");
  if (!IsStored(file)) return real(file, bytes, size);
  // SQLite writes by pwrite.
  if (std::string_view(ReadFault(Call::kWrite).kind) == "full-segments") {
    errno = ENOSPC;
    return -1;
  }
  return Make(
      Call::kWrite, [&] { return real(file, bytes, size); }, [&] { real(file, bytes, size / 2); });
}

EXPORTED ssize_t pwrite64(int file, const void* bytes, size_t size, off64_t offset) {
  static auto* const real = Real<ssize_t(int, const void*, size_t, off64_t)>("pwrite64");
  if (!IsStored(file)) return real(file, bytes, size, offset);
  return Make(
      Call::kWrite, [&] { return real(file, bytes, size, offset); },
      [&] { real(file, bytes, size / 2, offset); });
}

EXPORTED ssize_t pwrite(int file, const void* bytes, size_t size, off_t offset) {
  return pwrite64(file, bytes, size, offset);
}

EXPORTED int ftruncate64(int file, off64_t size) noexcept {
  static auto* const real = Real<int(int, off64_t)>("ftruncate64");
  if (!IsStored(file)) return real(file, size);
  return Make(Call::kTruncate, [&] { return real(file, size); });
}

EXPORTED int ftruncate(int file, off_t size) noexcept { return ftruncate64(file, size); }

EXPORTED int fsync(int file) {
  static auto* const real = Real<int(int)>("fsync");
  if (!IsStored(file)) return real(file);
  return Make(Call::kSync, [&] { return real(file); });
}

EXPORTED int fdatasync(int file) {
  static auto* const real = Real<int(int)>("fdatasync");
  if (!IsStored(file)) return real(file);
  return Make(Call::kSync, [&] { return real(file); });
}

EXPORTED int rename(const char* from, const char* to) noexcept {
  static auto* const real = Real<int(const char*, const char*)>("rename");
  if (!IsStored(std::string_view(to))) return real(from, to);
  return Make(Call::kRename, [&] { return real(from, to); });
}

EXPORTED int unlink(const char* path) noexcept {
  static auto* const real = Real<int(const char*)>("unlink");
  if (!IsStored(std::string_view(path))) return real(path);
  return Make(Call::kRemove, [&] { return real(path); });
}
