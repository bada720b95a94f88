// Makes the values of a template, and answers questions about them.
#include "service/jinja/values/value.h"

#include <algorithm>

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
  }
  return "";
}

size_t Value::depth() const {
  if (is_list()) return list().depth;
  if (is_dict()) return dict().depth();
  // A loop or a method holds a value, so its depth counts too. This bounds chains of values that
  // hold each other.
  if (is_loop()) return loop().items->depth + 1;
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
  if (is_callable()) return &callable() == &other.callable();
  return true;
}

std::vector<Value> List::Take() const {
  if (kind != ListKind::kGenerator) return items;
  std::vector<Value> rest(items.begin() + static_cast<std::ptrdiff_t>(taken), items.end());
  taken = items.size();
  return rest;
}

std::optional<size_t> Dict::IndexOf(std::string_view key) const {
  if (!index_.empty()) {
    const auto found = index_.find(key);
    return found == index_.end() ? std::nullopt : std::optional<size_t>(found->second);
  }
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].key.bytes() == key) return i;
  }
  return std::nullopt;
}

const Value* Dict::Find(std::string_view key) const {
  const std::optional<size_t> index = IndexOf(key);
  return index ? &entries_[*index].value : nullptr;
}

void Dict::Set(Text key, Value value) {
  depth_ = std::max(depth_, value.depth() + 1);
  if (const std::optional<size_t> index = IndexOf(key.bytes())) {
    entries_[*index].value = std::move(value);
    return;
  }
  entries_.push_back({std::move(key), std::move(value)});
  if (entries_.size() < kIndexedSize) return;
  if (entries_.size() == kIndexedSize) {
    for (size_t i = 0; i < entries_.size(); ++i) index_.emplace(entries_[i].key.bytes(), i);
  } else {
    index_.emplace(entries_.back().key.bytes(), entries_.size() - 1);
  }
}

void Dict::Erase(std::string_view key) {
  const std::optional<size_t> erased = IndexOf(key);
  if (!erased) return;
  std::vector<Entry> entries;
  entries.swap(entries_);
  index_.clear();
  for (size_t i = 0; i < entries.size(); ++i) {
    if (i != *erased) Set(std::move(entries[i].key), std::move(entries[i].value));
  }
}

}  // namespace longstream::chat
