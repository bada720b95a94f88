// Checks that the texts of a schema's grammar are valid.
#ifndef LONGSTREAM_TESTS_SERVICE_GRAMMAR_FORMATS_SCHEMA_TEXTS_H_
#define LONGSTREAM_TESTS_SERVICE_GRAMMAR_FORMATS_SCHEMA_TEXTS_H_

#include <nlohmann/json.hpp>
#include <string>

#include "service/grammar/grammar.h"
#include "tests/service/grammar/formats/grammar_texts.h"

namespace longstream {

struct TextCounts {
  int built = 0;    // grammars
  int walks = 0;    // texts of grammars
  int mutants = 0;  // changed texts that still fit
};

// Walks through the grammar, and changes the texts. Texts that fit must be valid.
void CheckTextsOf(const nlohmann::ordered_json& schema, const Grammar& grammar, Random& random,
                  TextCounts* counts);

// Whether a random schema may have this error.
bool IsExpectedError(const std::string& error);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_GRAMMAR_FORMATS_SCHEMA_TEXTS_H_
