// A simple validator of JSON Schema, which the tests compare grammars with.
#ifndef LONGSTREAM_TESTS_SERVICE_GRAMMAR_FORMATS_SCHEMA_VALIDATOR_H_
#define LONGSTREAM_TESTS_SERVICE_GRAMMAR_FORMATS_SCHEMA_VALIDATOR_H_

#include <nlohmann/json.hpp>
#include <string>

namespace longstream {

using OrderedJson = nlohmann::ordered_json;

// Whether the value fits the schema, by the standard (draft 2020-12). oneOf means anyOf, and known
// formats are checked by shape only. Numbers are doubles.
bool IsValid(const OrderedJson& root, const OrderedJson& schema, const OrderedJson& value);

// The number of code points.
size_t LengthOf(const std::string& text);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_GRAMMAR_FORMATS_SCHEMA_VALIDATOR_H_
