// The values of a template: Python's None, bool, int, float, str, list, tuple and dict, and types
// of Jinja.
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

// Jinja's Undefined. It prints as an empty text, is false and has no elements. Any other use fails
// with the message `why`, which names the undefined variable, attribute or item.
struct Undefined {
  std::shared_ptr<const std::string> why;
};

struct None {};

// The kind of a list decides its operations. A generator has no length and gives each element once.
// A view (dict.items()) cannot be indexed. A range cannot be added or repeated.
enum class ListKind { kList, kTuple, kGenerator, kView, kRange };

struct List;
class Dict;

// An object whose attributes a template may change. The Interpreter owns it, not the values,
// because a namespace may hold itself.
struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
};

struct Loop;

// A macro, the body of a {% call %} block, a global function, or a method of a value.
struct Callable {
  enum class Kind { kMacro, kFunction, kMethod };
  Kind kind = Kind::kFunction;
  std::string name;                   // empty for the body of a {% call %} block
  const Statement* macro = nullptr;   // only for kMacro: {% macro %} or {% call %}
  size_t closure = 0;                 // only for kMacro: see Interpreter::Keep
  std::shared_ptr<const Value> self;  // only for kMethod
};

// A text that the filter `safe` has marked. Text that is added to it is escaped (&lt; for <).
struct SafeText {
  std::shared_ptr<const Text> text;
};

// Cheap to copy. Immutable, except for namespaces, loops and the progress of generators.
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
  // The numbers of range(from, to, step), which is printed so.
  static Value MakeRange(std::vector<Value> numbers, int64_t from, int64_t to, int64_t step);
  static Value MakeDict(Dict dict);
  static Value MakeNamespace(Namespace* object) { return Value(Data(object)); }
  static Value MakeLoop(std::shared_ptr<Loop> loop) { return Value(Data(std::move(loop))); }
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
  bool is_loop() const { return Is<std::shared_ptr<Loop>>(); }
  bool is_callable() const { return Is<std::shared_ptr<const Callable>>(); }

  // REQUIRES: the value has this type.
  const Undefined& undefined() const { return std::get<Undefined>(data_); }
  int64_t integer() const;  // for int and bool
  double number() const;    // for int, float and bool
  const Text& text() const;
  const List& list() const { return *std::get<std::shared_ptr<const List>>(data_); }
  const std::shared_ptr<const List>& shared_list() const {
    return std::get<std::shared_ptr<const List>>(data_);
  }
  const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(data_); }
  Namespace* object() const { return std::get<Namespace*>(data_); }
  Loop& loop() const { return *std::get<std::shared_ptr<Loop>>(data_); }
  const Callable& callable() const { return *std::get<std::shared_ptr<const Callable>>(data_); }

  // Returns the same value (IsSame). It and its copies keep `object` alive; the values inside it do
  // not. Only texts, lists and dicts can keep an object alive.
  Value KeepingAlive(std::shared_ptr<const void> object) const;

  // Python's bool(value).
  bool Truth() const;
  // The name of the type for error messages: "dict", "str", ...
  std::string_view TypeName() const;
  // How many levels of lists and dicts the value has.
  size_t depth() const;
  // Python's `is`. For lists, dicts and texts: whether both are the same object. For other values:
  // whether both have the same type and are equal.
  bool IsSame(const Value& other) const;

 private:
  using Data = std::variant<None, Undefined, bool, int64_t, double, std::shared_ptr<const Text>,
                            SafeText, std::shared_ptr<const List>, std::shared_ptr<const Dict>,
                            Namespace*, std::shared_ptr<Loop>, std::shared_ptr<const Callable>>;

  explicit Value(Data data) : data_(std::move(data)) {}
  template <typename T>
  bool Is() const {
    return std::holds_alternative<T>(data_);
  }

  Data data_;
};

// The limit of levels of lists and dicts.
inline constexpr size_t kMaxDataDepth = 100;

struct List {
  // Returns the elements of an iteration. A generator gives each element only once.
  std::vector<Value> Take() const;

  ListKind kind = ListKind::kList;
  std::vector<Value> items;
  size_t depth = 1;
  std::shared_ptr<const std::string> repr;  // only for a range: how it is printed
  mutable size_t taken = 0;                 // elements that a generator has given
};

// The variable `loop` of a for loop.
struct Loop {
  // Whether there is an item after the current one. Finds it if `more` can.
  bool HasNext() const;
  // The number of items. Finds all of them.
  size_t Length() const;

  std::vector<Value> items;  // the items found so far
  size_t index = 0;          // of the current item
  // Adds the next item to `items`, or returns false if there is none. Empty if `items` is complete.
  std::function<bool()> more;
  size_t depth = 0;                      // levels of the items, see Value::depth
  size_t level = 0;                      // 0: the loop was not called by itself
  const Statement* recursive = nullptr;  // the statement, if the loop may call itself
  size_t closure = 0;                    // only if `recursive` is set: see Interpreter::Keep
  std::optional<size_t> changed;         // see Interpreter::LoopChanged
};

// A dict, in the order of insertion. As in Python, any value that has a hash may be a key, and
// 1, 1.0 and True are one key.
class Dict {
 public:
  // A dict with fewer entries has no index of its texts; Find compares one key after the other.
  static constexpr size_t kIndexedSize = 16;

  struct Entry {
    Value key;
    Value value;
  };

  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  // Returns nullptr if the dict does not have the key. REQUIRES: the value has a
  // hash in Python.
  const Value* Find(std::string_view key) const;
  const Value* Find(const Value& key) const;
  // Adds the key or replaces its value. An existing key keeps its position. REQUIRES: the key has a
  // hash in Python.
  void Set(Text key, Value value) { Set(Value::MakeText(std::move(key)), std::move(value)); }
  void Set(Value key, Value value);
  void Erase(std::string_view key);
  size_t depth() const { return depth_; }

 private:
  std::optional<size_t> IndexOf(std::string_view key) const;
  std::optional<size_t> IndexOf(const Value& key) const;

  std::vector<Entry> entries_;
  std::map<std::string, size_t, std::less<>> index_;  // of texts, if there are kIndexedSize entries
  std::map<std::string, size_t> others_;              // of all keys that are not texts, by KeyCode
  size_t depth_ = 1;
};

// Returns a text that is equal for two values if and only if they are the same key of a dict.
// REQUIRES: the value has a hash in Python.
std::string KeyCode(const Value& value);

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_VALUES_VALUE_H_
