// How code inside a plugin reports what can go wrong with a checkpoint, a snapshot or a budget.
//
// Thrown while a model is opened or a sequence is created, resized or moved; the plugin shim
// (plugin/) turns it into the ABI's code and sentence, so none leaves the shared library. What
// goes wrong in a step is caught there and travels in its results.
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
  // `message` is one sentence: what, where, expected and found.
  BackendError(ls_code code, std::string message) : code_(code), message_(std::move(message)) {}

  ls_code code() const { return code_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  ls_code code_;
  std::string message_;
};

// What a handler of std::exception has caught, as one: memory that the host does not have is
// LS_RESOURCE_EXHAUSTED, what is no BackendError else LS_INTERNAL. Called in the handler.
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
