// Makes the values of a template, and answers questions about them.
#include "service/jinja/values/value.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "service/jinja/values/error.h"

namespace longstream::chat {
namespace {

void CheckDepth(size_t depth) {
  if (depth <= kMaxDataDepth) return;
  Fail("lists and dicts are nested deeper than " + std::to_string(kMaxDataDepth) + " levels");
}

// Returns a pointer to the same object that keeps `more` alive too.
template <typename T>
std::shared_ptr<const T> Keeping(std::shared_ptr<const T> pointer,
                                 std::shared_ptr<const void> more) {
  using Both = std::pair<std::shared_ptr<const T>, std::shared_ptr<const void>>;
  const T* const object = pointer.get();
  return {std::make_shared<const Both>(std::move(pointer), std::move(more)), object};
}

}  // namespace

Value Value::MakeUndefined(std::string why) {
  return Value(Data(Undefined{std::make_shared<const std::string>(std::move(why))}));
}

Value Value::MakeText(Text text) {
  return Value(Data(std::make_shared<const Text>(std::move(text))));
}

Value Value::MakeSafe(const Value& text) {
  if (text.is_safe()) return text;
  return Value(Data(SafeText{std::get<std::shared_ptr<const Text>>(text.data_)}));
}

Value Value::MakeList(std::vector<Value> items, ListKind kind) {
  List list;
  list.kind = kind;
  for (const Value& item : items) list.depth = std::max(list.depth, item.depth() + 1);
  CheckDepth(list.depth);
  list.items = std::move(items);
  return Value(Data(std::make_shared<const List>(std::move(list))));
}

Value Value::MakeRange(std::vector<Value> numbers, int64_t from, int64_t to, int64_t step) {
  std::string repr = "range(" + std::to_string(from) + ", " + std::to_string(to);
  if (step != 1) repr += ", " + std::to_string(step);
  repr += ')';
  List list;
  list.kind = ListKind::kRange;
  list.items = std::move(numbers);
  list.repr = std::make_shared<const std::string>(std::move(repr));
  return Value(Data(std::make_shared<const List>(std::move(list))));
}

Value Value::MakeDict(Dict dict) {
  CheckDepth(dict.depth());
  return Value(Data(std::make_shared<const Dict>(std::move(dict))));
}

Value Value::MakeCallable(Callable callable) {
  return Value(Data(std::make_shared<const Callable>(std::move(callable))));
}

Value Value::KeepingAlive(std::shared_ptr<const void> object) const {
  if (is_safe()) return Value(Data(SafeText{Keeping(std::get<SafeText>(data_).text, object)}));
  if (is_text()) {
    return Value(Data(Keeping(std::get<std::shared_ptr<const Text>>(data_), std::move(object))));
  }
  if (is_list()) return Value(Data(Keeping(shared_list(), std::move(object))));
  if (is_dict()) {
    return Value(Data(Keeping(std::get<std::shared_ptr<const Dict>>(data_), std::move(object))));
  }
  return *this;
}

int64_t Value::integer() const {
  if (is_bool()) return std::get<bool>(data_) ? 1 : 0;
  return std::get<int64_t>(data_);
}

double Value::number() const {
  return is_float() ? std::get<double>(data_) : static_cast<double>(integer());
}

const Text& Value::text() const {
  if (is_safe()) return *std::get<SafeText>(data_).text;
  return *std::get<std::shared_ptr<const Text>>(data_);
}

bool Value::Truth() const {
  if (is_undefined() || is_none()) return false;
  if (is_number()) return number() != 0.0;
  if (is_text()) return !text().empty();
  if (is_list()) return list().kind == ListKind::kGenerator || !list().items.empty();
  return !is_dict() || dict().size() != 0;
}

std::string_view Value::TypeName() const {
  if (is_undefined()) return "Undefined";
  if (is_none()) return "None";
  if (is_bool()) return "bool";
  if (is_int()) return "int";
  if (is_float()) return "float";
  if (is_text()) return "str";
  if (is_dict()) return "dict";
  if (is_namespace()) return "namespace";
  if (is_loop()) return "loop";
  if (is_callable()) return "function";
  switch (list().kind) {
    case ListKind::kList:
      return "list";
    case ListKind::kTuple:
      return "tuple";
    case ListKind::kGenerator:
      return "generator";
    case ListKind::kView:
      return "dict view";
    case ListKind::kRange:
      return "range";
  }
  return "";
}

size_t Value::depth() const {
  if (is_list()) return list().depth;
  if (is_dict()) return dict().depth();
  // A loop or a method holds a value, so its depth counts too. This bounds chains of values that
  // hold each other.
  if (is_loop()) return loop().depth + 1;
  if (is_callable() && callable().self != nullptr) return callable().self->depth() + 1;
  return 0;
}

bool Value::IsSame(const Value& other) const {
  if (data_.index() != other.data_.index()) return false;
  if (is_bool() || is_int()) return integer() == other.integer();
  if (is_float()) return number() == other.number();
  if (is_text()) return &text() == &other.text();
  if (is_list()) return &list() == &other.list();
  if (is_dict()) return &dict() == &other.dict();
  if (is_namespace()) return object() == other.object();
  if (is_loop()) return &loop() == &other.loop();
  if (is_callable()) return &callable() == &other.callable();
  return true;
}

std::vector<Value> List::Take() const {
  if (kind != ListKind::kGenerator) return items;
  std::vector<Value> rest(items.begin() + static_cast<std::ptrdiff_t>(taken), items.end());
  taken = items.size();
  return rest;
}

bool Loop::HasNext() const { return index + 1 < items.size() || (more && more()); }

size_t Loop::Length() const {
  while (more && more()) {
  }
  return items.size();
}

std::string KeyCode(const Value& value) {
  if (value.is_text()) {
    return "s" + std::to_string(value.text().size()) + ":" + value.text().bytes();
  }
  if (value.is_number()) {
    constexpr double kLimit = 9223372036854775808.0;
    const double number = value.number();
    const bool is_whole =
        !value.is_float() || (number == std::floor(number) && number >= -kLimit && number < kLimit);
    if (!is_whole) return "f" + std::to_string(std::bit_cast<uint64_t>(number)) + ";";
    const int64_t whole = value.is_float() ? static_cast<int64_t>(number) : value.integer();
    return "i" + std::to_string(whole) + ";";
  }
  if (value.is_list() && value.list().kind == ListKind::kTuple) {
    std::string code = "(";
    for (const Value& item : value.list().items) code += KeyCode(item);
    return code + ")";
  }
  const void* object = nullptr;
  if (value.is_list()) object = &value.list();
  if (value.is_namespace()) object = value.object();
  if (value.is_loop()) object = &value.loop();
  if (value.is_callable()) object = &value.callable();
  // None and undefined values have no object: one key each.
  return std::string(value.TypeName()) + std::to_string(reinterpret_cast<std::uintptr_t>(object)) +
         ";";
}

std::optional<size_t> Dict::IndexOf(std::string_view key) const {
  if (!index_.empty()) {
    const auto found = index_.find(key);
    return found == index_.end() ? std::nullopt : std::optional<size_t>(found->second);
  }
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].key.is_text() && entries_[i].key.text().bytes() == key) return i;
  }
  return std::nullopt;
}

std::optional<size_t> Dict::IndexOf(const Value& key) const {
  if (key.is_text()) return IndexOf(std::string_view(key.text().bytes()));
  if (others_.empty()) return std::nullopt;
  const auto found = others_.find(KeyCode(key));
  return found == others_.end() ? std::nullopt : std::optional<size_t>(found->second);
}

const Value* Dict::Find(std::string_view key) const {
  const std::optional<size_t> index = IndexOf(key);
  return index ? &entries_[*index].value : nullptr;
}

const Value* Dict::Find(const Value& key) const {
  const std::optional<size_t> index = IndexOf(key);
  return index ? &entries_[*index].value : nullptr;
}

void Dict::Set(Value key, Value value) {
  depth_ = std::max({depth_, key.depth() + 1, value.depth() + 1});
  if (const std::optional<size_t> index = IndexOf(key)) {
    entries_[*index].value = std::move(value);
    return;
  }
  entries_.push_back({std::move(key), std::move(value)});
  const auto add = [this](size_t i) {
    if (entries_[i].key.is_text()) index_.emplace(entries_[i].key.text().bytes(), i);
  };
  const size_t last = entries_.size() - 1;
  if (!entries_[last].key.is_text()) others_.emplace(KeyCode(entries_[last].key), last);
  if (entries_.size() > kIndexedSize) {
    add(last);
  } else if (entries_.size() == kIndexedSize) {
    for (size_t i = 0; i < entries_.size(); ++i) add(i);
  }
}

void Dict::Erase(std::string_view key) {
  const std::optional<size_t> erased = IndexOf(key);
  if (!erased) return;
  std::vector<Entry> entries;
  entries.swap(entries_);
  index_.clear();
  others_.clear();
  for (size_t i = 0; i < entries.size(); ++i) {
    if (i != *erased) Set(std::move(entries[i].key), std::move(entries[i].value));
  }
}

}  // namespace longstream::chat
