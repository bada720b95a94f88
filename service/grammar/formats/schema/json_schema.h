// JSON values that fit a JSON Schema.
#ifndef LONGSTREAM_SERVICE_GRAMMAR_FORMATS_SCHEMA_JSON_SCHEMA_H_
#define LONGSTREAM_SERVICE_GRAMMAR_FORMATS_SCHEMA_JSON_SCHEMA_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "service/grammar/grammar_builder.h"

namespace longstream {

// The JSON texts of values that fit the schema. JSON Schema draft 2020-12 and draft 7, as far as
// docs/response-formats.md says. The grammar may have fewer texts than the schema allows:
//
// - Named properties come in the order of the schema, other ones behind them.
// - If there is `properties` but no additionalProperties, no other properties are allowed; if there
//   is prefixItems but no `items`, no other items, except as many as minItems needs.
// - Without `type`, keywords for values of one type allow only this type.
// - oneOf means anyOf. Its schemas should exclude each other.
// - White space is short (see JsonText), escapes are those of JsonText, numbers with bounds have no
//   exponent.
//
// It never has a text that does not fit, with two exceptions: a value may fit several schemas of
// oneOf, and two properties that are not named may have the same name. INVALID_ARGUMENT: the schema
// is wrong, no value fits, or a keyword is not supported; the message begins with its JSON pointer.
// After an error, the builder must not be built. Limits: 1 MiB, 100 levels, 100,000 values.
absl::StatusOr<GrammarBuilder::Expression> AddJsonSchema(GrammarBuilder& builder,
                                                         std::string_view schema_json);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_FORMATS_SCHEMA_JSON_SCHEMA_H_
