// The JSON text of a schema, as a tree whose values know their places.
#ifndef LONGSTREAM_SERVICE_GRAMMAR_FORMATS_SCHEMA_SCHEMA_DOCUMENT_H_
#define LONGSTREAM_SERVICE_GRAMMAR_FORMATS_SCHEMA_SCHEMA_DOCUMENT_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace longstream {

struct SchemaValue {
  enum class Kind { kNull, kBool, kNumber, kString, kList, kObject };
  struct Member {
    std::string name;  // empty in a list
    const SchemaValue* value = nullptr;
  };

  bool IsBool(bool wanted) const { return kind == Kind::kBool && boolean == wanted; }
  bool IsObject() const { return kind == Kind::kObject; }
  bool IsList() const { return kind == Kind::kList; }
  // The member of an object, or nullptr.
  const SchemaValue* Find(std::string_view name) const;
  // The JSON pointer of the value, such as "#/properties/a". Long ones are cut.
  std::string Pointer() const;
  // The value as JSON, without white space. Strings are written as by JsonString.
  std::string Text() const;

  Kind kind = Kind::kNull;
  bool boolean = false;
  uint32_t number = 0;          // of this value in the document
  size_t weight = 0;            // of the value and all values in it: one, and one per 16 bytes
  std::string text;             // a string's characters; a number as it is written
  std::vector<Member> members;  // of an object, or the elements of a list
  const SchemaValue* parent = nullptr;
  size_t place = 0;  // in the parent's members
  // The places of the members, if an object has many.
  std::unique_ptr<absl::flat_hash_map<std::string_view, size_t>> index;
};

// Throws "<pointer of the value>: <text>".
[[noreturn]] void FailSchema(const SchemaValue& value, std::string_view text);

class SchemaDocument {
 public:
  // Throws FormatError: the text is no JSON, an object has two members of one name, or a limit is
  // exceeded (1 MiB, 100 levels, 100,000 values).
  // `first_number`: of the root. Values of two documents that are compiled together must differ.
  explicit SchemaDocument(std::string_view json, uint32_t first_number = 0);

  const SchemaValue& root() const { return values_.front(); }
  // The value that `reference`, such as "#/$defs/a", points to. nullptr: there is none, or it is
  // no JSON pointer in this document.
  const SchemaValue* Resolve(std::string_view reference) const;

 private:
  friend class SchemaReader;

  std::deque<SchemaValue> values_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_FORMATS_SCHEMA_SCHEMA_DOCUMENT_H_
