// Random schemas, and random values that fit them.
#ifndef LONGSTREAM_TESTS_SERVICE_GRAMMAR_FORMATS_RANDOM_SCHEMA_H_
#define LONGSTREAM_TESTS_SERVICE_GRAMMAR_FORMATS_RANDOM_SCHEMA_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tests/service/grammar/formats/grammar_texts.h"

namespace longstream {

// Draws schemas with every supported keyword. Some of them are refused, or no value fits them.
class SchemaMaker {
 public:
  explicit SchemaMaker(Random& random) : random_(random) {}

  // A schema with definitions that it may refer to.
  nlohmann::ordered_json MakeDocument();

 private:
  using Json = nlohmann::ordered_json;

  Json Make(int depth);
  Json Object(int depth);
  Json List(int depth);
  Json String();
  Json Number();
  Json Constant(int depth);
  Json Alternatives(int depth);
  // Adds a keyword that may conflict with the others.
  void AddKeyword(int depth, Json* schema);
  std::string Name();
  bool OneIn(size_t count) { return Draw(random_, count) == 0; }

  Random& random_;
};

// Draws a value that a grammar for the schema must have, written without white space: named members
// in order, others behind them, strings with the fewest escapes. nullopt: the draw led nowhere.
// Only for schemas without allOf, and without alternatives or references beside other keywords.
class ValueMaker {
 public:
  ValueMaker(Random& random, const nlohmann::ordered_json& root) : random_(random), root_(root) {}

  std::optional<std::string> Make(const nlohmann::ordered_json& schema, int depth);

 private:
  using Json = nlohmann::ordered_json;

  std::optional<std::string> Any(int depth);
  std::optional<std::string> Typed(const std::string& type, const Json& schema, int depth);
  std::optional<std::string> Object(const Json& schema, int depth);
  std::optional<std::string> List(const Json& schema, int depth);
  std::string String();
  std::string Number(bool is_integer);
  bool OneIn(size_t count) { return Draw(random_, count) == 0; }

  Random& random_;
  const Json& root_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_GRAMMAR_FORMATS_RANDOM_SCHEMA_H_
