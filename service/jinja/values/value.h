// Values of a template: Python's None, bool, int, float, str, list, tuple and dict, and the types
// that Jinja adds.
#ifndef LONGSTREAM_SERVICE_JINJA_VALUES_VALUE_H_
#define LONGSTREAM_SERVICE_JINJA_VALUES_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "service/jinja/values/text.h"

namespace longstream::chat {

class Value;
struct Statement;

// Jinja's Undefined: prints nothing, is false and empty. Any other use fails with the sentence
// `why`, which names the missing thing.
struct Undefined {
  std::shared_ptr<const std::string> why;
};

struct None {};

// The origin of a list decides its operations: a generator has no length and gives each element
// once, a view (dict.items()) has no index.
enum class ListKind { kList, kTuple, kGenerator, kView };

struct List;
class Dict;

// Attributes that a template may change. Owned by the rendering (Interpreter), not by values,
// because it may hold itself.
struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
};

// `loop` within a for loop.
struct Loop {
  std::shared_ptr<const List> items;
  size_t index = 0;
};

// A macro, a function of the environment, or a method of a value.
struct Callable {
  enum class Kind { kMacro, kFunction, kMethod };
  Kind kind = Kind::kFunction;
  std::string name;
  const Statement* macro = nullptr;   // kMacro
  std::shared_ptr<const Value> self;  // kMethod
};

// A text that `safe` has marked: text added to it is escaped (&lt; for <).
struct SafeText {
  std::shared_ptr<const Text> text;
};

// Immutable, except namespaces, loops and the progress of generators; cheap to copy.
class Value {
 public:
  Value() : data_(None{}) {}
  static Value MakeUndefined(std::string why);
  static Value MakeBool(bool value) { return Value(Data(value)); }
  static Value MakeInt(int64_t value) { return Value(Data(value)); }
  static Value MakeFloat(double value) { return Value(Data(value)); }
  static Value MakeText(Text text);
  static Value MakeText(std::string bytes) { return MakeText(Text(std::move(bytes))); }
  static Value MakeSafe(const Value& text);
  // Fails if lists and dicts are nested deeper than kMaxDataDepth.
  static Value MakeList(std::vector<Value> items, ListKind kind = ListKind::kList);
  static Value MakeDict(Dict dict);
  static Value MakeNamespace(Namespace* object) { return Value(Data(object)); }
  static Value MakeLoop(std::shared_ptr<const Loop> loop) { return Value(Data(std::move(loop))); }
  static Value MakeCallable(Callable callable);

  bool is_undefined() const { return Is<Undefined>(); }
  bool is_none() const { return Is<None>(); }
  bool is_bool() const { return Is<bool>(); }
  bool is_int() const { return Is<int64_t>(); }
  bool is_float() const { return Is<double>(); }
  bool is_number() const { return is_int() || is_float() || is_bool(); }
  bool is_text() const { return Is<std::shared_ptr<const Text>>() || is_safe(); }
  bool is_safe() const { return Is<SafeText>(); }
  bool is_list() const { return Is<std::shared_ptr<const List>>(); }
  bool is_dict() const { return Is<std::shared_ptr<const Dict>>(); }
  bool is_namespace() const { return Is<Namespace*>(); }
  bool is_loop() const { return Is<std::shared_ptr<const Loop>>(); }
  bool is_callable() const { return Is<std::shared_ptr<const Callable>>(); }

  // REQUIRES: the value has this type.
  const Undefined& undefined() const { return std::get<Undefined>(data_); }
  int64_t integer() const;  // of an int or a bool
  double number() const;    // of an int, a float or a bool
  const Text& text() const;
  const List& list() const { return *std::get<std::shared_ptr<const List>>(data_); }
  const std::shared_ptr<const List>& shared_list() const {
    return std::get<std::shared_ptr<const List>>(data_);
  }
  const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(data_); }
  Namespace* object() const { return std::get<Namespace*>(data_); }
  const Loop& loop() const { return *std::get<std::shared_ptr<const Loop>>(data_); }
  const Callable& callable() const { return *std::get<std::shared_ptr<const Callable>>(data_); }

  // Python's bool(value).
  bool Truth() const;
  // "dict", "str", ...: the name of its type for error messages.
  std::string_view TypeName() const;
  // How deep lists and dicts are nested in it.
  size_t depth() const;
  // Lists, dicts, texts: the same object. Others: of one type and equal.
  bool IsSame(const Value& other) const;

 private:
  using Data =
      std::variant<None, Undefined, bool, int64_t, double, std::shared_ptr<const Text>, SafeText,
                   std::shared_ptr<const List>, std::shared_ptr<const Dict>, Namespace*,
                   std::shared_ptr<const Loop>, std::shared_ptr<const Callable>>;

  explicit Value(Data data) : data_(std::move(data)) {}
  template <typename T>
  bool Is() const {
    return std::holds_alternative<T>(data_);
  }

  Data data_;
};

// Deeper lists and dicts fail.
inline constexpr size_t kMaxDataDepth = 100;

struct List {
  // The elements of an iteration; a generator gives each only once.
  std::vector<Value> Take() const;

  ListKind kind = ListKind::kList;
  std::vector<Value> items;
  size_t depth = 1;
  mutable size_t taken = 0;  // of a generator
};

// Keys are texts, in the order in which they came.
class Dict {
 public:
  struct Entry {
    Text key;
    Value value;
  };

  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  // nullptr where there is none.
  const Value* Find(std::string_view key) const;
  // A key that is there keeps its place.
  void Set(Text key, Value value);
  void Erase(std::string_view key);
  size_t depth() const { return depth_; }

 private:
  std::optional<size_t> IndexOf(std::string_view key) const;

  std::vector<Entry> entries_;
  std::map<std::string, size_t, std::less<>> index_;  // of large ones
  size_t depth_ = 1;
};

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_VALUES_VALUE_H_
