// Writes JSON as Python's json.dumps does.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "service/jinja/builtins/filters.h"
#include "service/jinja/builtins/operators.h"
#include "service/tokenizer/text/utf8.h"

namespace longstream::chat {
namespace {

void AppendEscape(uint32_t unit, std::string* text) {
  std::array<char, 16> escape{};
  std::snprintf(escape.data(), escape.size(), "\\u%04x", unit);
  *text += escape.data();
}

std::string Quote(std::string_view text, bool ensure_ascii) {
  std::string json = "\"";
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = NextCodePoint(text, &at);
    constexpr std::string_view kLetters = "\"\\\n\r\t\f\b";
    constexpr std::string_view kEscapes = "\"\\nrtfb";
    const size_t simple = c < 0x80 ? kLetters.find(static_cast<char>(c)) : std::string_view::npos;
    if (simple != std::string_view::npos) {
      json += '\\';
      json += kEscapes[simple];
    } else if (c < 0x20 || (ensure_ascii && c >= 0x7F && c <= 0xFFFF)) {
      AppendEscape(c, &json);
    } else if (ensure_ascii && c > 0xFFFF) {
      AppendEscape(0xD800 + ((c - 0x10000) >> 10), &json);
      AppendEscape(0xDC00 + ((c - 0x10000) & 0x3FF), &json);
    } else {
      json += text.substr(begin, at - begin);
    }
  }
  return json += '"';
}

class Writer {
 public:
  Writer(const ArgumentReader& arguments, Meter* meter) : meter_(meter) {
    ensure_ascii_ = arguments.Flag(0);
    sort_keys_ = arguments.Flag(3);
    const Value indent = arguments.Get(1);
    if (indent.is_text()) {
      indent_ = indent.text();
    } else if (!indent.is_none()) {
      const int64_t width = std::max<int64_t>(arguments.Integer(1, 0), 0);
      meter_->Make(static_cast<size_t>(width));
      indent_ = Text(std::string(static_cast<size_t>(width), ' '));
    }
    item_separator_ = Text(indent_ ? "," : ", ");
    const Value separators = arguments.Get(2);
    if (separators.is_none()) return;
    const std::vector<Value> pair = Elements(separators, meter_);
    if (pair.size() != 2) Fail("tojson: separators must be two strings");
    item_separator_ = RequireText(pair[0], "separators");
    key_separator_ = RequireText(pair[1], "separators");
  }

  Text Write(const Value& value) {
    WriteValue(value, 0);
    return std::move(out_);
  }

 private:
  void WriteValue(const Value& value, size_t depth) {
    meter_->Step();
    if (value.is_text()) return WriteText(value.text());
    if (value.is_none()) return out_.Append("null");
    if (value.is_bool()) return out_.Append(value.Truth() ? "true" : "false");
    if (value.is_int()) return out_.Append(std::to_string(value.integer()));
    if (value.is_float()) return WriteFloat(value.number());
    if (value.is_dict()) return WriteDict(value.dict(), depth);
    const bool is_array = value.is_list() && (value.list().kind == ListKind::kList ||
                                              value.list().kind == ListKind::kTuple);
    if (!is_array) Fail("tojson: '" + std::string(value.TypeName()) + "' has no JSON form");
    const std::vector<Value>& items = value.list().items;
    out_.Append("[");
    for (size_t i = 0; i < items.size(); ++i) {
      BeginItem(i == 0, depth);
      WriteValue(items[i], depth + 1);
    }
    EndItems(items.empty(), depth);
    out_.Append("]");
  }

  void WriteDict(const Dict& dict, size_t depth) {
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (sort_keys_) {
      std::ranges::stable_sort(entries, [this](const Dict::Entry* a, const Dict::Entry* b) {
        return Compare(a->key, b->key, "<", meter_).value_or(1) < 0;
      });
    }
    out_.Append("{");
    for (size_t i = 0; i < entries.size(); ++i) {
      BeginItem(i == 0, depth);
      WriteKey(entries[i]->key);
      out_.Append(key_separator_);
      meter_->Make(key_separator_.size());
      WriteValue(entries[i]->value, depth + 1);
    }
    EndItems(entries.empty(), depth);
    out_.Append("}");
  }

  // The keys of a JSON object are strings, so other keys are written between quotes.
  void WriteKey(const Value& key) {
    if (key.is_text()) return WriteText(key.text());
    if (!key.is_none() && !key.is_number()) {
      Fail("tojson: a key of type '" + std::string(key.TypeName()) + "' has no JSON form");
    }
    out_.Append("\"");
    WriteValue(key, 0);
    out_.Append("\"");
  }

  void BeginItem(bool is_first, size_t depth) {
    if (!is_first) out_.Append(item_separator_);
    meter_->Make(item_separator_.size());
    if (indent_) NewLine(depth + 1);
  }
  void EndItems(bool is_empty, size_t depth) {
    if (indent_ && !is_empty) NewLine(depth);
  }
  void NewLine(size_t depth) {
    out_.Append("\n");
    meter_->Make(depth * indent_->size());
    for (size_t i = 0; i < depth; ++i) out_.Append(*indent_);
  }

  void WriteText(const Text& text) {
    meter_->Make(text.size());
    out_.Append(text.Changed(Quote(text.bytes(), ensure_ascii_)));
  }

  void WriteFloat(double value) {
    if (std::isnan(value)) return out_.Append("NaN");
    if (std::isinf(value)) return out_.Append(value > 0 ? "Infinity" : "-Infinity");
    out_.Append(FloatText(value));
  }

  Meter* const meter_;
  bool ensure_ascii_ = false;
  bool sort_keys_ = false;
  std::optional<Text> indent_;
  Text item_separator_;
  Text key_separator_ = Text(": ");
  Text out_;
};

}  // namespace

Value ToJson(const FilterCall& call) {
  RequireDefined(call.input);
  return Value::MakeText(Writer(call.arguments, call.meter).Write(call.input));
}

}  // namespace longstream::chat
