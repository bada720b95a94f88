// The syntax tree of a template.
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
  kConditional,  // parts: condition, value, and an optional value for a false condition
  kAttribute,    // the attribute `name` of parts[0]
  kSubscript,    // parts[0][parts[1]]
  kSlice,        // parts[0][parts[1]:parts[2]:parts[3]]; nullptr if a bound is absent
  kCall,         // calls parts[0] with the other parts, `named`, `all` and `all_named` as arguments
  kFilter,       // the filter `name` applied to parts[0], or to a block's text if it is nullptr
  kTest,         // the test `name` applied to parts[0]
};

struct Expression {
  ExpressionKind kind = ExpressionKind::kConstant;
  Place place;
  std::string name;
  Value value;
  std::vector<ExpressionPtr> parts;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr all;        // f(*all): a value whose elements are further arguments, or nullptr
  ExpressionPtr all_named;  // f(**all_named): a dict of further named arguments, or nullptr
  std::vector<std::string> operators;
  size_t depth = 1;  // levels of the tree below this expression, itself included
};

struct Statement;
using Body = std::vector<std::unique_ptr<Statement>>;

// The target of {% set %}, {% for %} or {% with %}: a name, an attribute of a namespace, or several
// targets that the elements of the value are assigned to.
struct Target {
  Place place;
  std::string name;
  std::string attribute;  // the attribute of the namespace `name`; empty if the target is a name
  bool is_tuple = false;
  std::vector<Target> parts;  // only if is_tuple
};

enum class StatementKind {
  kText,      // text
  kPrint,     // expression
  kIf,        // branches, otherwise
  kFor,       // target, expression, condition (may be nullptr), uses_loop, is_recursive, body,
              // otherwise
  kSet,       // target, expression
  kSetBlock,  // target, expression (a chain of filters, may be nullptr), body
  kFilter,    // expression (a chain of filters), body
  kMacro,     // name, parameters, uses_caller, uses_varargs, uses_kwargs, body
  kCall,      // expression (a call), and a macro without a name that the call gets as `caller`
  kScope,     // body: {% generation %}
  kWith,      // assignments, body
  kBreak,
  kContinue,
  kUnsupported,  // name: a tag of Jinja that is not supported
};

struct Branch {
  ExpressionPtr condition;
  Body body;
};

struct Parameter {
  std::string name;
  ExpressionPtr otherwise;  // the default value; nullptr: none
};

// One `target = value` of {% with %}.
struct Assignment {
  Target target;
  ExpressionPtr value;
};

struct Statement {
  StatementKind kind = StatementKind::kText;
  Place place;
  std::string text;
  std::string name;
  ExpressionPtr expression;
  ExpressionPtr condition;
  Target target;
  bool uses_loop = false;     // the body names `loop`
  bool is_recursive = false;  // the loop may call itself
  // Whether the body of a macro names `caller`, `varargs` or `kwargs`, which then are variables.
  bool uses_caller = false;
  bool uses_varargs = false;
  bool uses_kwargs = false;
  std::vector<Branch> branches;
  std::vector<Parameter> parameters;
  std::vector<Assignment> assignments;
  Body body;
  Body otherwise;
};

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_SYNTAX_SYNTAX_TREE_H_
