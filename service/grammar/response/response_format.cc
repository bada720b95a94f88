// Compiles each kind of format.
#include "service/grammar/response/response_format.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/grammar/formats/ebnf.h"
#include "service/grammar/formats/json_text.h"
#include "service/grammar/formats/regex.h"
#include "service/grammar/formats/schema/json_schema.h"
#include "service/grammar/formats/text_without.h"
#include "service/grammar/grammar_builder.h"

namespace longstream {
namespace {

using Expression = GrammarBuilder::Expression;
using Kind = ResponseFormat::Kind;

const char* NameOf(Kind kind) {
  switch (kind) {
    case Kind::kText:
      return "text";
    case Kind::kTextWithout:
      return "text_without";
    case Kind::kJsonObject:
      return "json_object";
    case Kind::kJsonSchema:
      return "json_schema";
    case Kind::kRegex:
      return "regex";
    case Kind::kGrammar:
      return "grammar";
    case Kind::kSequence:
      return "sequence";
    case Kind::kAnyOf:
      return "any_of";
    case Kind::kRepeat:
      return "repeat";
  }
  return "";
}

// Schemas, patterns and grammars are added once, however often they occur.
struct Adding {
  GrammarBuilder builder;
  absl::flat_hash_map<std::string, Expression> added;  // by KeyOf
};

absl::StatusOr<Expression> Add(const ResponseFormat& format, Adding& adding);

absl::StatusOr<Expression> AddParts(const ResponseFormat& format, Adding& adding) {
  GrammarBuilder& builder = adding.builder;
  std::vector<Expression> parts;
  for (size_t i = 0; i < format.parts.size(); ++i) {
    absl::StatusOr<Expression> part = Add(format.parts[i], adding);
    if (!part.ok()) {
      const std::string field =
          format.kind == Kind::kRepeat ? ".format." : absl::StrCat(".formats[", i, "].");
      return absl::Status(part.status().code(), absl::StrCat(field, part.status().message()));
    }
    parts.push_back(*part);
  }
  if (format.kind == Kind::kSequence) return builder.Sequence(parts);
  if (format.kind == Kind::kAnyOf) return builder.Choice(parts);
  return builder.Repeat(parts.at(0), format.least, format.most);
}

absl::StatusOr<Expression> AddOne(const ResponseFormat& format, Adding& adding) {
  GrammarBuilder& builder = adding.builder;
  switch (format.kind) {
    case Kind::kText:
      return builder.Literal(format.text);
    case Kind::kTextWithout:
      return AddTextWithout(builder, format.text);
    case Kind::kJsonObject:
      return AddAnyJsonObject(builder);
    case Kind::kJsonSchema:
      return AddJsonSchema(builder, format.text);
    case Kind::kRegex:
      return AddRegex(builder, format.text);
    case Kind::kGrammar:
      return AddEbnf(builder, format.text);
    default:
      return AddParts(format, adding);
  }
}

// Errors begin with the name of the format.
absl::StatusOr<Expression> Add(const ResponseFormat& format, Adding& adding) {
  const bool is_shared = format.kind == Kind::kJsonSchema || format.kind == Kind::kRegex ||
                         format.kind == Kind::kGrammar || format.kind == Kind::kJsonObject;
  const std::string key = is_shared ? KeyOf(format) : "";
  if (const auto found = adding.added.find(key); is_shared && found != adding.added.end()) {
    return found->second;
  }
  absl::StatusOr<Expression> added = AddOne(format, adding);
  if (!added.ok()) {
    const bool is_of_part = !format.parts.empty();
    return absl::Status(
        added.status().code(),
        absl::StrCat(NameOf(format.kind), is_of_part ? "" : ": ", added.status().message()));
  }
  if (is_shared) adding.added[key] = *added = adding.builder.Named(*added);
  return added;
}

void AppendKey(const ResponseFormat& format, std::string* key) {
  absl::StrAppend(key, static_cast<int>(format.kind), ",", format.least, ",",
                  format.most.has_value() ? absl::StrCat(*format.most) : "", ",",
                  format.parts.size(), ",", format.text.size(), ":", format.text);
  for (const ResponseFormat& part : format.parts) AppendKey(part, key);
}

}  // namespace

std::string KeyOf(const ResponseFormat& format) {
  std::string key;
  AppendKey(format, &key);
  return key;
}

absl::StatusOr<Grammar> Compile(const ResponseFormat& format) {
  Adding adding;
  const absl::StatusOr<Expression> added = Add(format, adding);
  if (!added.ok()) return added.status();
  GrammarBuilder& builder = adding.builder;
  const GrammarBuilder::Rule start = builder.Declare();
  builder.Define(start, *added);
  absl::StatusOr<Grammar> grammar = builder.Build(start);
  if (grammar.ok()) return grammar;
  return absl::Status(grammar.status().code(),
                      absl::StrCat(NameOf(format.kind), ": ", grammar.status().message()));
}

}  // namespace longstream
