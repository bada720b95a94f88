// The filters of lists and dicts.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "service/jinja/builtins/filters.h"
#include "service/jinja/builtins/methods.h"
#include "service/jinja/builtins/operators.h"
#include "service/jinja/values/unicode.h"

namespace longstream::chat {
namespace {

Value Count(const FilterCall& call) { return Value::MakeInt(Length(call.input)); }

Value ListOf(const FilterCall& call) { return Value::MakeList(Elements(call.input, call.meter)); }

Value First(const FilterCall& call) {
  if (call.input.is_list() && call.input.list().kind == ListKind::kGenerator) {
    const List& list = call.input.list();
    if (list.taken < list.items.size()) return list.items[list.taken++];
    return Value::MakeUndefined("the list has no first item");
  }
  const std::vector<Value> items = Elements(call.input, call.meter);
  return items.empty() ? Value::MakeUndefined("the list has no first item") : items.front();
}

Value Last(const FilterCall& call) {
  if (call.input.is_list() && call.input.list().kind == ListKind::kGenerator) {
    Fail(call.arguments.what() + " cannot be applied to a generator");
  }
  const std::vector<Value> items = Elements(call.input, call.meter);
  return items.empty() ? Value::MakeUndefined("the list has no last item") : items.back();
}

Value Join(const FilterCall& call) {
  const Text separator = ToText(call.arguments.Get(0, Value::MakeText("")), call.meter);
  Text joined;
  bool is_first = true;
  for (const Value& item : Elements(call.input, call.meter)) {
    const Text part = ToText(call.arguments.Has(1)
                                 ? AttributePath(item, call.arguments.Get(1), Value(), call.meter)
                                 : item,
                             call.meter);
    call.meter->Make(separator.size() + part.size());
    if (!std::exchange(is_first, false)) joined.Append(separator);
    joined.Append(part);
  }
  return Value::MakeText(std::move(joined));
}

Value ItemsOf(const FilterCall& call) {
  if (call.input.is_undefined()) return Value::MakeList({}, ListKind::kGenerator);
  if (!call.input.is_dict()) Fail(call.arguments.what() + " can only be applied to a dict");
  return Items(call.input.dict(), call.meter, ListKind::kGenerator);
}

Value Reverse(const FilterCall& call) {
  if (call.input.is_text()) {
    return Slice(call.input, Value(), Value(), Value::MakeInt(-1), call.meter);
  }
  std::vector<Value> items = Elements(call.input, call.meter);
  std::reverse(items.begin(), items.end());
  return Value::MakeList(std::move(items), ListKind::kGenerator);
}

// Returns the sort key of an item: its attribute, or the item itself if `attribute` is None. A text
// is converted to lower case unless `case_sensitive` is set.
Value KeyOf(const Value& item, const Value& attribute, bool case_sensitive, Meter* meter) {
  Value key = attribute.is_none() ? item : AttributePath(item, attribute, Value(), meter);
  if (case_sensitive || !key.is_text()) return key;
  meter->Make(4 * key.text().size());
  return Value::MakeText(Lower(key.text().bytes()));
}

struct Keyed {
  Value key;
  Value item;
};

std::vector<Keyed> WithKeys(std::vector<Value> items, const Value& attribute, bool case_sensitive,
                            Meter* meter) {
  std::vector<Keyed> keyed;
  for (Value& item : items) {
    Value key = KeyOf(item, attribute, case_sensitive, meter);
    keyed.push_back({std::move(key), std::move(item)});
  }
  return keyed;
}

// A stable merge sort. Unlike std::sort, it also works if the comparison is not a strict weak
// order, as with NaN.
void SortByKey(std::vector<Keyed>* items, bool reverse, Meter* meter) {
  const auto less = [&](const Keyed& a, const Keyed& b) {
    return Compare(a.key, b.key, "<", meter).value_or(1) < 0;
  };
  // Like Python, sorts the reversed list and reverses the result, so that equal items keep their
  // order.
  if (reverse) std::reverse(items->begin(), items->end());
  std::vector<Keyed> merged(items->size());
  for (size_t width = 1; width < items->size(); width *= 2) {
    for (size_t begin = 0; begin < items->size(); begin += 2 * width) {
      const auto at = [&](size_t i) {
        return items->begin() + static_cast<std::ptrdiff_t>(std::min(i, items->size()));
      };
      std::merge(at(begin), at(begin + width), at(begin + width), at(begin + 2 * width),
                 merged.begin() + static_cast<std::ptrdiff_t>(begin), less);
    }
    items->swap(merged);
  }
  if (reverse) std::reverse(items->begin(), items->end());
}

std::vector<Value> ItemsIn(std::vector<Keyed> keyed) {
  std::vector<Value> items;
  items.reserve(keyed.size());
  for (Keyed& entry : keyed) items.push_back(std::move(entry.item));
  return items;
}

// Sorts by one attribute or by several, "a,b". As in Jinja, the key is the list of the attributes,
// so equal attributes may be of a type that has no order.
Value Sort(const FilterCall& call) {
  std::vector<Value> attributes = {call.arguments.Get(2)};
  if (attributes[0].is_text()) {
    Callable split;
    split.name = "split";
    split.self = std::make_shared<const Value>(attributes[0]);
    attributes = CallMethod(split, {{Value::MakeText(",")}, {}}, call.meter).list().items;
  }
  std::vector<Keyed> keyed;
  for (Value& item : Elements(call.input, call.meter)) {
    std::vector<Value> keys;
    call.meter->MakeList(attributes.size());
    keys.reserve(attributes.size());
    for (const Value& attribute : attributes) {
      keys.push_back(KeyOf(item, attribute, call.arguments.Flag(1), call.meter));
    }
    keyed.push_back({Value::MakeList(std::move(keys)), std::move(item)});
  }
  SortByKey(&keyed, call.arguments.Flag(0), call.meter);
  return Value::MakeList(ItemsIn(std::move(keyed)));
}

Value DictSort(const FilterCall& call) {
  RequireDefined(call.input);
  if (!call.input.is_dict()) Fail(call.arguments.what() + " can only be applied to a dict");
  const std::string by = ToText(call.arguments.Get(1, Value::MakeText("key")), call.meter).bytes();
  if (by != "key" && by != "value") Fail("dictsort: the argument 'by' must be 'key' or 'value'");
  const Value items = Items(call.input.dict(), call.meter, ListKind::kList);
  std::vector<Keyed> keyed = WithKeys(items.list().items, Value::MakeInt(by == "key" ? 0 : 1),
                                      call.arguments.Flag(0), call.meter);
  SortByKey(&keyed, call.arguments.Flag(2), call.meter);
  return Value::MakeList(ItemsIn(std::move(keyed)));
}

Value Unique(const FilterCall& call) {
  std::vector<Keyed> kept;
  for (Keyed& entry : WithKeys(Elements(call.input, call.meter), call.arguments.Get(1),
                               call.arguments.Flag(0), call.meter)) {
    RequireKey(entry.key, call.meter);
    const bool is_known = std::any_of(kept.begin(), kept.end(), [&](const Keyed& other) {
      return Equal(entry.key, other.key, call.meter);
    });
    if (!is_known) kept.push_back(std::move(entry));
  }
  return Value::MakeList(ItemsIn(std::move(kept)), ListKind::kGenerator);
}

template <bool kLargest>
Value Extreme(const FilterCall& call) {
  const std::vector<Keyed> keyed = WithKeys(Elements(call.input, call.meter), call.arguments.Get(1),
                                            call.arguments.Flag(0), call.meter);
  if (keyed.empty()) return Value::MakeUndefined("no aggregated item, sequence was empty");
  const Keyed* best = keyed.data();
  for (size_t i = 1; i < keyed.size(); ++i) {
    const int order =
        Compare(keyed[i].key, best->key, kLargest ? ">" : "<", call.meter).value_or(0);
    if (kLargest ? order > 0 : order < 0) best = &keyed[i];
  }
  return best->item;
}

Value Sum(const FilterCall& call) {
  Value sum = call.arguments.Get(1, Value::MakeInt(0));
  const Value attribute = call.arguments.Get(0);
  for (const Value& item : Elements(call.input, call.meter)) {
    sum = Binary("+", sum,
                 attribute.is_none() ? item : AttributePath(item, attribute, Value(), call.meter),
                 call.meter);
  }
  return sum;
}

// Lists of `linecount` items each. `fill_with` completes the last one.
Value Batch(const FilterCall& call) {
  const int64_t size = call.arguments.Integer(0, -1);
  const Value fill = call.arguments.Get(1);
  std::vector<Value> batches, batch;
  const auto finish = [&] {
    call.meter->MakeList(batch.size() + 1);
    batches.push_back(Value::MakeList(std::exchange(batch, {})));
  };
  for (Value& item : Elements(call.input, call.meter)) {
    if (static_cast<int64_t>(batch.size()) == size) finish();
    batch.push_back(std::move(item));
  }
  if (batch.empty()) return Value::MakeList(std::move(batches), ListKind::kGenerator);
  const int64_t missing = fill.is_none() ? 0 : size - static_cast<int64_t>(batch.size());
  if (missing > 0) {
    call.meter->MakeList(static_cast<size_t>(missing));
    batch.resize(batch.size() + static_cast<size_t>(missing), fill);
  }
  finish();
  return Value::MakeList(std::move(batches), ListKind::kGenerator);
}

// `slices` lists of about the same number of items. `fill_with` completes the shorter ones.
Value SliceFilter(const FilterCall& call) {
  const int64_t count = call.arguments.Integer(0, 0);
  if (count == 0) Fail(call.arguments.what() + ": the number of slices is 0");
  const std::vector<Value> items = Elements(call.input, call.meter);
  const Value fill = call.arguments.Get(1);
  if (count < 0) return Value::MakeList({}, ListKind::kGenerator);
  call.meter->MakeList(static_cast<size_t>(count));
  const size_t slices = static_cast<size_t>(count);
  const size_t longer = items.size() % slices;
  std::vector<Value> lists;
  auto begin = items.begin();
  for (size_t i = 0; i < slices; ++i) {
    const auto end = begin + static_cast<std::ptrdiff_t>(items.size() / slices + (i < longer));
    std::vector<Value> list(begin, end);
    if (i >= longer && !fill.is_none()) list.push_back(fill);
    call.meter->MakeList(list.size());
    lists.push_back(Value::MakeList(std::move(list)));
    begin = end;
  }
  return Value::MakeList(std::move(lists), ListKind::kGenerator);
}

// The attribute of a value. Unlike a dot, it does not look for an item of a dict.
Value AttributeOf(const FilterCall& call) {
  RequireDefined(call.input);
  const Value name = call.arguments.Get(0);
  const std::string& text = RequireText(name, call.arguments.what()).bytes();
  const std::optional<Value> found = Attribute(call.input, text);
  if (found) return *found;
  return Value::MakeUndefined("'" + std::string(call.input.TypeName()) +
                              " object' has no attribute '" + text + "'");
}

}  // namespace

const FilterEntry* FindListFilter(std::string_view name) {
  static const FilterEntry entries[] = {
      {"attr", &AttributeOf, {"name"}, 1},
      {"batch", &Batch, {"linecount", "fill_with"}, 1},
      {"count", &Count, {}, 0},
      {"dictsort", &DictSort, {"case_sensitive", "by", "reverse"}, 0},
      {"first", &First, {}, 0},
      {"items", &ItemsOf, {}, 0},
      {"join", &Join, {"d", "attribute"}, 0},
      {"last", &Last, {}, 0},
      {"length", &Count, {}, 0},
      {"list", &ListOf, {}, 0},
      {"max", &Extreme<true>, {"case_sensitive", "attribute"}, 0},
      {"min", &Extreme<false>, {"case_sensitive", "attribute"}, 0},
      {"reverse", &Reverse, {}, 0},
      {"slice", &SliceFilter, {"slices", "fill_with"}, 1},
      {"sort", &Sort, {"reverse", "case_sensitive", "attribute"}, 0},
      {"sum", &Sum, {"attribute", "start"}, 0},
      {"unique", &Unique, {"case_sensitive", "attribute"}, 0},
  };
  const auto* found = std::find_if(std::begin(entries), std::end(entries),
                                   [&](const FilterEntry& entry) { return entry.name == name; });
  return found == std::end(entries) ? nullptr : found;
}

}  // namespace longstream::chat
