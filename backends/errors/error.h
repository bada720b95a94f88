// How the code of a plugin reports an error in a checkpoint, a snapshot or a budget.
//
// A BackendError is thrown while a model is opened or a sequence is created, resized or moved. The
// functions of the ABI (backends/runtime/c_abi.cc) turn it into a code and a sentence, so no
// exception leaves the shared library. The runtime catches the errors of a step and returns them in
// its results.
#ifndef LONGSTREAM_BACKENDS_ERRORS_ERROR_H_
#define LONGSTREAM_BACKENDS_ERRORS_ERROR_H_

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "backends/api/backend.h"

namespace longstream {

class BackendError : public std::exception {
 public:
  // `message` is one sentence: what failed, where, what was expected and what was found.
  BackendError(ls_code code, std::string message) : code_(code), message_(std::move(message)) {}

  ls_code code() const { return code_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  ls_code code_;
  std::string message_;
};

// Must be called in a handler of std::exception. Returns the exception that the handler has caught,
// as a BackendError. std::bad_alloc becomes LS_RESOURCE_EXHAUSTED; any other exception that is no
// BackendError becomes LS_INTERNAL.
inline BackendError HandledError() {
  try {
    throw;
  } catch (const BackendError& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return BackendError(LS_RESOURCE_EXHAUSTED, "out of memory");
  } catch (const std::exception& exception) {
    return BackendError(LS_INTERNAL, exception.what());
  }
}

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_ERRORS_ERROR_H_
