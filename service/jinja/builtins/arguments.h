// The arguments of a call, and a reader that assigns them to the parameters of the called function.
#ifndef LONGSTREAM_SERVICE_JINJA_BUILTINS_ARGUMENTS_H_
#define LONGSTREAM_SERVICE_JINJA_BUILTINS_ARGUMENTS_H_

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "service/jinja/values/error.h"
#include "service/jinja/values/value.h"

namespace longstream::chat {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<Text, Value>> named;
};

// Throws TemplateError if the arguments do not fit the parameters.
class ArgumentReader {
 public:
  // `what` names the called function in error messages, such as "the filter 'join'". The first
  // `required` parameters must be given.
  ArgumentReader(std::string what, const Arguments& arguments,
                 std::initializer_list<std::string_view> parameters, size_t required = 0)
      : what_(std::move(what)), values_(parameters.size(), nullptr) {
    if (arguments.positional.size() > parameters.size()) {
      Fail(what_ + " takes at most " + std::to_string(parameters.size()) + " arguments, found " +
           std::to_string(arguments.positional.size()));
    }
    for (size_t i = 0; i < arguments.positional.size(); ++i) {
      values_[i] = &arguments.positional[i];
    }
    for (const auto& [text, value] : arguments.named) {
      const std::string& name = text.bytes();
      const auto* found = std::find(parameters.begin(), parameters.end(), name);
      if (found == parameters.end()) Fail(what_ + " has no parameter '" + name + "'");
      const Value*& place = values_[static_cast<size_t>(found - parameters.begin())];
      if (place != nullptr) Fail(what_ + " was given '" + name + "' twice");
      place = &value;
    }
    for (size_t i = 0; i < required; ++i) {
      if (values_[i] == nullptr) {
        Fail(what_ + " needs '" + std::string(*(parameters.begin() + i)) + "'");
      }
    }
  }

  bool Has(size_t index) const { return index < values_.size() && values_[index] != nullptr; }
  Value Get(size_t index, const Value& otherwise = Value()) const {
    return Has(index) ? *values_[index] : otherwise;
  }
  bool Flag(size_t index, bool otherwise = false) const {
    return Has(index) ? values_[index]->Truth() : otherwise;
  }
  // Returns the argument, which must be a whole number. Returns `otherwise` if the argument is
  // absent or None.
  int64_t Integer(size_t index, int64_t otherwise) const {
    if (!Has(index) || values_[index]->is_none()) return otherwise;
    if (!values_[index]->is_int() && !values_[index]->is_bool()) {
      Fail(what_ + ": expected a whole number, found " + std::string(values_[index]->TypeName()));
    }
    return values_[index]->integer();
  }
  const std::string& what() const { return what_; }

 private:
  const std::string what_;
  std::vector<const Value*> values_;
};

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_BUILTINS_ARGUMENTS_H_
