// Objects that enter a scope, an output or a level of the interpreter and leave it when they are
// destroyed.
#ifndef LONGSTREAM_SERVICE_JINJA_INTERPRETER_SCOPE_H_
#define LONGSTREAM_SERVICE_JINJA_INTERPRETER_SCOPE_H_

#include <memory>
#include <string>
#include <utility>

#include "service/jinja/interpreter.h"

namespace longstream::chat {

class Interpreter::InScope {
 public:
  InScope(Interpreter* interpreter, std::shared_ptr<Scope> outer)
      : interpreter_(interpreter), before_(interpreter->scope_) {
    auto scope = std::make_shared<Scope>();
    scope->outer = std::move(outer);
    interpreter->scope_ = std::move(scope);
  }
  ~InScope() { interpreter_->scope_ = before_; }
  InScope(const InScope&) = delete;
  InScope& operator=(const InScope&) = delete;

 private:
  Interpreter* const interpreter_;
  const std::shared_ptr<Scope> before_;
};

class Interpreter::InOutput {
 public:
  InOutput(Interpreter* interpreter, Text* output)
      : interpreter_(interpreter), before_(interpreter->output_) {
    interpreter->output_ = output;
  }
  ~InOutput() { interpreter_->output_ = before_; }
  InOutput(const InOutput&) = delete;
  InOutput& operator=(const InOutput&) = delete;

 private:
  Interpreter* const interpreter_;
  Text* const before_;
};

// A level of nested evaluation. The number of levels is bounded, because each level takes stack
// memory and macros may call themselves.
class Interpreter::Level {
 public:
  Level(Interpreter* interpreter, Place place) : interpreter_(interpreter) {
    constexpr size_t kMaxLevels = 600;
    if (interpreter->depth_ == kMaxLevels) {
      Fail("expressions and calls are nested deeper than " + std::to_string(kMaxLevels) + " levels",
           place);
    }
    ++interpreter->depth_;
    try {
      interpreter->meter_.Step();
    } catch (TemplateError& error) {
      --interpreter->depth_;
      error.place = place;
      throw;
    }
  }
  ~Level() { --interpreter_->depth_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  Interpreter* const interpreter_;
};

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_INTERPRETER_SCOPE_H_
