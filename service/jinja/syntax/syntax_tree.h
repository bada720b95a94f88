// A template as its parser leaves it.
#ifndef LONGSTREAM_SERVICE_JINJA_SYNTAX_SYNTAX_TREE_H_
#define LONGSTREAM_SERVICE_JINJA_SYNTAX_SYNTAX_TREE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "service/jinja/values/error.h"
#include "service/jinja/values/value.h"

namespace longstream::chat {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

enum class ExpressionKind {
  kConstant,     // value
  kName,         // name
  kList,         // parts
  kTuple,        // parts
  kDict,         // parts: key, value, key, value ...
  kUnary,        // name: "-", "+", "not"
  kBinary,       // name: "+", "-", "*", "/", "//", "%", "**"
  kCompare,      // parts: operands; operators: "==", "in", "not in" ... between them
  kAnd,          // two parts
  kOr,           // two parts
  kConcat,       // parts, joined by ~
  kConditional,  // condition, value, and the value otherwise, which may be left out
  kAttribute,    // of parts[0], name
  kSubscript,    // of parts[0], by parts[1]
  kSlice,        // of parts[0]: begin, end, step, each of which may be nullptr
  kCall,         // parts[0] with the other parts and `named`
  kFilter,       // name, on parts[0]; nullptr: on the text of a block
  kTest,         // name, of parts[0]
};

struct Expression {
  ExpressionKind kind = ExpressionKind::kConstant;
  Place place;
  std::string name;
  Value value;
  std::vector<ExpressionPtr> parts;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  std::vector<std::string> operators;
  size_t depth = 1;  // of the tree under it
};

struct Statement;
using Body = std::vector<std::unique_ptr<Statement>>;

// The target of {% set %} and {% for %}: names, or one attribute of a namespace.
struct Target {
  Place place;
  std::vector<std::string> names;
  bool is_tuple = false;
  std::string attribute;  // not empty: of names[0]
};

enum class StatementKind {
  kText,      // text
  kPrint,     // expression
  kIf,        // branches, otherwise
  kFor,       // target, expression, condition (may be nullptr), uses_loop, body, otherwise
  kSet,       // target, expression
  kSetBlock,  // target, expression (a chain of filters, may be nullptr), body
  kFilter,    // expression (a chain of filters), body
  kMacro,     // name, parameters, body
  kScope,     // body: {% generation %}
  kBreak,
  kContinue,
};

struct Branch {
  ExpressionPtr condition;
  Body body;
};

struct Parameter {
  std::string name;
  ExpressionPtr otherwise;  // nullptr: none
};

struct Statement {
  StatementKind kind = StatementKind::kText;
  Place place;
  std::string text;
  std::string name;
  ExpressionPtr expression;
  ExpressionPtr condition;
  Target target;
  bool uses_loop = false;  // `loop` is named in the body
  std::vector<Branch> branches;
  std::vector<Parameter> parameters;
  Body body;
  Body otherwise;
};

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_SYNTAX_SYNTAX_TREE_H_
