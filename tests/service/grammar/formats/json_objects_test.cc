// Schemas of objects and lists, unknown keywords and limits.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/service/grammar/formats/schema_cases.h"

namespace longstream {
namespace {

TEST(JsonObjectsTest, NamedProperties) {
  CheckSchemas({
      {R"({"properties":{"a":{"type":"integer"},"b":{"type":"null"}}})",
       {"{}", R"({"a":1})", R"({"b":null})", R"({"a":1,"b":null})", "{\n  \"a\": 1\n}"},
       {R"({"b":null,"a":1})", R"({"a":1,"a":2})", R"({"c":1})", R"({"a":null})", R"({,"a":1})",
        R"({"a":1,})", R"({"\u0061":1})"}},
      {R"({"properties":{"a":{"type":"integer"},"b":{"type":"null"}},"required":["b"]})",
       {R"({"b":null})", R"({"a":1,"b":null})"},
       {"{}", R"({"a":1})"}},
      {R"({"properties":{"a":true,"b":true,"c":true,"d":true},"required":["a","d"]})",
       {R"({"a":1,"d":1})", R"({"a":1,"b":1,"c":1,"d":1})", R"({"a":1,"c":1,"d":1})"},
       {R"({"a":1})", R"({"d":1})", "{}"}},
      {R"({"properties":{"a":true,"b":false},"required":["a"]})",
       {R"({"a":1})"},
       {R"({"a":1,"b":1})"}},
      {R"({"properties":{"é\"\n":{"const":1},"":{"const":2}}})",
       {R"({"é\"\n":1,"":2})", R"({"":2})"},
       {R"({"":1})"}},
      {R"({"properties":{"a":{"properties":{"b":{"const":1}},"required":["b"]}}})",
       {R"({"a":{"b":1}})"},
       {R"({"a":{}})"}},
      {R"({"required":["a","b"]})",
       {R"({"a":1,"b":2})", R"({"a":1,"b":2,"c":3})"},
       {R"({"a":1})", R"({"b":2,"a":1})", R"({"a":1,"b":2,"a":3})", "1"}},
      {R"({"properties":{"a":{"const":1}},"required":["b"]})",
       {R"({"a":1,"b":[]})", R"({"b":2})"},
       {R"({"a":1})", R"({"b":2,"c":3})"}},
  });
  CheckSchemaErrors({
      {R"({"properties":{"a":false},"required":["a"]})",
       "#/properties/a: no value fits: the property 'a' is required, and not allowed"},
      {R"({"required":["a"],"additionalProperties":false})",
       "#/required/0: no value fits: the property 'a' is required, and not allowed"},
      {R"({"properties":[]})",
       "#/properties: expected an object whose members are schemas, found a "
       "list"},
      {R"({"properties":{"a":1}})",
       "#/properties/a: expected a schema (an object, true or false), found 1"},
      {R"({"required":"a"})", "#/required: expected a list of strings, found \"a\""},
      {R"({"required":["a",1]})", "#/required/1: expected a string, found 1"},
      {R"({"properties":{"a":{"properties":{"b/~":{"type":"text"}}}}})",
       "#/properties/a/properties/b~1~0/type: expected null, boolean, object, array, string, "
       "integer or number, found \"text\""},
  });
}

TEST(JsonObjectsTest, AdditionalProperties) {
  CheckSchemas({
      {R"({"additionalProperties":{"type":"integer"}})",
       {"{}", R"({"a":1,"b":2})", R"({"\u0061":1})"},
       {R"({"a":"b"})"}},
      {R"({"type":"object","additionalProperties":false})", {"{}", "{ }"}, {R"({"a":1})"}},
      {R"({"properties":{"a":{"const":1},"ab":{"const":2}},"additionalProperties":{"const":3}})",
       {"{}", R"({"a":1})", R"({"a":1,"ab":2,"b":3,"abc":3})", R"({"b":3})", R"({"":3})",
        R"({"A\n":3})"},
       {R"({"a":3})", R"({"ab":3})", R"({"b":3,"a":1})", R"({"\u0061":3})", R"({"c":1})",
        R"({"b":3,"ab":3})"}},
      {R"({"properties":{"a":{"const":1}},"required":["a"],"additionalProperties":true})",
       {R"({"a":1})", R"({"a":1,"b":[],"c":{}})"},
       {"{}", R"({"b":1})", R"({"a":1,"a":1})"}},
      {R"({"properties":{"a":{"const":1}},"required":["b"],"additionalProperties":{"const":3}})",
       {R"({"b":3})", R"({"a":1,"b":3,"c":3})"},
       {R"({"a":1})", R"({"b":1})"}},
      {R"({"properties":{"a":false},"additionalProperties":true})",
       {"{}", R"({"b":1})"},
       {R"({"a":1})", R"({"a":1})"}},
      {R"({"properties":{"a":false,"b":true},"additionalProperties":true})",
       {R"({"b":1,"c":1})"},
       {R"({"a":1})", R"({"b":1,"a":1})"}},
      {R"({"allOf":[{"properties":{"a":true},"additionalProperties":false},
                    {"properties":{"a":{"const":1},"b":true}}]})",
       {"{}", R"({"a":1})"},
       {R"({"a":2})", R"({"b":1})"}},
      {R"({"allOf":[{"properties":{"a":true},"additionalProperties":{"type":"integer"}},
                    {"properties":{"b":{"minimum":3}},"additionalProperties":true}]})",
       {R"({"a":"x","b":3,"c":1})"},
       {R"({"b":2})", R"({"b":3.5})", R"({"c":"x"})"}},
  });
  CheckSchemaErrors({
      {R"({"allOf":[{"additionalProperties":false},{"properties":{"b":true},"required":["b"]}]})",
       "#/allOf/1/properties/b: no value fits: the property 'b' is required, and not allowed"},
      {R"({"additionalProperties":3})",
       "#/additionalProperties: expected a schema (an object, true or false), found 3"},
  });
}

TEST(JsonObjectsTest, CountsPatternsAndNames) {
  CheckSchemas({
      {R"({"minProperties":1,"maxProperties":2})",
       {R"({"a":1})", R"({"a":1,"b":2})"},
       {"{}", R"({"a":1,"b":2,"c":3})"}},
      {R"({"maxProperties":0})", {"{}"}, {R"({"a":1})"}},
      {R"({"properties":{"a":true,"b":true},"required":["a"],"minProperties":1,"maxProperties":2})",
       {R"({"a":1})"},
       {"{}"}},
      {R"({"patternProperties":{"^x":{"type":"integer"}}})",
       {"{}", R"({"x":1,"xy":2})"},
       {R"({"a":1})", R"({"x":"a"})"}},
      {R"({"patternProperties":{"^x":true},"additionalProperties":false,"minProperties":1})",
       {R"({"x":1})"},
       {"{}", R"({"y":1})"}},
      {R"({"patternProperties":{"^x":false}})", {"{}"}, {R"({"x":1})"}},
      {R"({"patternProperties":{},"properties":{"a":true}})", {R"({"a":1})"}, {R"({"b":1})"}},
      {R"({"propertyNames":{"maxLength":2},"additionalProperties":{"const":1}})",
       {"{}", R"({"ab":1})"},
       {R"({"abc":1})", R"({"a":2})"}},
      {R"({"propertyNames":{"enum":["a","b",3]}})", {R"({"b":1,"a":2})"}, {R"({"c":1})"}},
      {R"({"propertyNames":{"$ref":"#/$defs/n"},"$defs":{"n":{"pattern":"^[a-c]$"}}})",
       {R"({"b":1})"},
       {R"({"d":1})"}},
      {R"({"propertyNames":true,"properties":{"a":true}})", {R"({"a":1})"}, {}},
      {R"({"propertyNames":{"maxLength":2},"type":"object","additionalProperties":false})",
       {"{}"},
       {R"({"a":1})"}},
  });
  const std::string patterns =
      "#/patternProperties: not supported, except one pattern without any other properties or "
      "propertyNames";
  CheckSchemaErrors({
      {R"({"minProperties":2,"maxProperties":1})",
       "#/maxProperties: no value fits: minProperties exceeds maxProperties"},
      {R"({"properties":{"a":true,"b":true},"minProperties":1})",
       "#/minProperties: not supported: together with named properties"},
      {R"({"properties":{"a":true},"maxProperties":1,"additionalProperties":true})",
       "#/maxProperties: not supported: together with named properties"},
      {R"({"properties":{"a":true},"minProperties":2})",
       "#/minProperties: no value fits: the named properties are too few or too many"},
      {R"({"required":["a","b"],"maxProperties":1})",
       "#/maxProperties: no value fits: the named properties are too few or too many"},
      {R"({"additionalProperties":false,"minProperties":1})",
       "#/minProperties: no value fits: no property is allowed, and minProperties is not 0"},
      {R"({"patternProperties":{"a":true,"b":true}})", patterns},
      {R"({"patternProperties":{"a":true},"properties":{"b":true}})", patterns},
      {R"({"patternProperties":{"a":true},"required":["a"]})", patterns},
      {R"({"patternProperties":{"a":true},"additionalProperties":true})", patterns},
      {R"({"patternProperties":{"a":true},"propertyNames":{"maxLength":2}})", patterns},
      {R"({"patternProperties":{"[":true}})", "#/patternProperties/[: at byte 0: '[' without ']'"},
      {R"({"propertyNames":{"maxLength":2},"properties":{"a":true},"additionalProperties":true})",
       "#/propertyNames: not supported: together with named properties"},
      {R"({"propertyNames":{"maxLength":2},"properties":{"abc":true}})",
       "#/propertyNames: not supported: together with named properties"},
      {R"({"propertyNames":{"maxLength":2},"properties":{"a":false},"additionalProperties":true})",
       "#/propertyNames: not supported: together with named properties"},
      {R"({"propertyNames":{"maxLength":2},"required":["abc"]})",
       "#/propertyNames: not supported: together with named properties"},
      {R"({"propertyNames":{"type":"integer"}})",
       "#/propertyNames/type: no value fits: no type is allowed by all schemas"},
  });
}

TEST(JsonObjectsTest, Lists) {
  CheckSchemas({
      {R"({"items":{"type":"integer"}})",
       {"[]", "[1]", "[1, 2,3]", "[\n1\n]"},
       {"[\"a\"]", "[1,]"}},
      {R"({"items":{"type":"null"},"minItems":1,"maxItems":2})",
       {"[null]", "[null,null]"},
       {"[]", "[null,null,null]"}},
      {R"({"type":"array","minItems":200,"maxItems":400})",
       {"[0" +
        [] {
          std::string more;
          for (int i = 1; i < 300; ++i) more += ",0";
          return more + "]";
        }()},
       {"[]", "[1]"}},
      {R"({"items":false})", {"[]"}, {"[1]"}},
      {R"({"items":true,"uniqueItems":false})", {"[]", "[1,1]"}, {}},
      {R"({"prefixItems":[{"const":1},{"const":2}]})",
       {"[]", "[1]", "[1,2]"},
       {"[2]", "[1,2,3]", "[1,1]"}},
      {R"({"prefixItems":[{"const":1},{"const":2}],"minItems":2})", {"[1,2]"}, {"[1]", "[]"}},
      {R"({"prefixItems":[{"const":1},{"const":2}],"minItems":1,"items":{"const":3}})",
       {"[1]", "[1,2]", "[1,2,3,3]"},
       {"[]", "[1,3]", "[1,2,2]"}},
      {R"({"prefixItems":[{"const":1}],"minItems":3})", {R"([1,2,"a"])"}, {"[1,2]", "[1,2,3,4]"}},
      {R"({"prefixItems":[{"const":1},{"const":2}],"maxItems":1})", {"[1]", "[]"}, {"[1,2]"}},
      {R"({"prefixItems":[{"const":1}],"items":{"const":2},"minItems":2,"maxItems":3})",
       {"[1,2]", "[1,2,2]"},
       {"[1]", "[1,2,2,2]"}},
      {R"({"prefixItems":[{"const":1},false],"items":true})", {"[1]", "[]"}, {"[1,2]"}},
      {R"({"prefixItems":[false]})", {"[]"}, {"[1]"}},
      {R"({"prefixItems":[{"const":1}],"items":false})", {"[]", "[1]"}, {"[1,2]"}},
      {R"({"allOf":[{"prefixItems":[{"const":1}]},{"maxItems":1},{"minItems":1}]})",
       {"[1]"},
       {"[]"}},
  });
  CheckSchemaErrors({
      {R"({"minItems":2,"maxItems":1})",
       "#/maxItems: no value fits: the least number of items is too large"},
      {R"({"items":false,"minItems":1})",
       "#/minItems: no value fits: the least number of items is too large"},
      {R"({"items":[{}]})", "#/items: expected a schema (an object, true or false), found a list"},
      {R"({"prefixItems":[]})", "#/prefixItems: expected a list of schemas, found a list"},
      {R"({"uniqueItems":true})", "#/uniqueItems: not supported"},
      {R"({"type":"array","contains":{}})", "#/contains: not supported"},
      {R"({"allOf":[{"prefixItems":[{}]},{"items":{"type":"null"}}]})",
       "#/allOf/0/prefixItems: not supported: together with the items of another schema"},
  });
}

TEST(JsonObjectsTest, OtherKeywordsAreRefused) {
  for (const char* keyword : {"not",
                              "if",
                              "then",
                              "else",
                              "contains",
                              "minContains",
                              "maxContains",
                              "dependencies",
                              "dependentRequired",
                              "dependentSchemas",
                              "unevaluatedProperties",
                              "unevaluatedItems",
                              "additionalItems",
                              "$anchor",
                              "$dynamicRef",
                              "$dynamicAnchor",
                              "$recursiveRef",
                              "$recursiveAnchor",
                              "contentEncoding",
                              "contentMediaType",
                              "contentSchema"}) {
    const std::string schema = absl::StrCat(R"({"properties":{"a":{")", keyword, R"(":true}}})");
    EXPECT_EQ(ErrorOfSchema(schema), absl::StrCat("#/properties/a/", keyword, ": not supported"));
  }
  CheckSchemaErrors({
      {R"({"a/b":1})", "#/a~1b: not supported: the keyword is not known"},
      {R"({"items":{"Type":"null"}})", "#/items/Type: not supported: the keyword is not known"},
      {"3", "#: expected a schema (an object, true or false), found 3"},
      {"false", "#: no value fits: the schema is false"},
      {R"({"a":1,"a":2})", "#: two members have the name 'a'"},
      {R"({"properties":{"x":{"b":{},"b":2}}})", "#/properties/x: two members have the name 'b'"},
      {"",
       "the schema is no JSON: parse error at line 1, column 1: syntax error while parsing value "
       "- unexpected end of input; expected '[', '{', or a literal"},
      {"{} x",
       "the schema is no JSON: parse error at line 1, column 4: syntax error while parsing "
       "value - invalid literal; last read: '{} x'; expected end of input"},
      {std::string("{}\0", 3), "the schema has a byte 0"},
      {R"({"type":[]})", "#/type: no value fits: the list is empty"},
      {R"({"type":["null",3]})",
       "#/type/1: expected null, boolean, object, array, string, integer or number, found 3"},
      {R"({"nullable":"yes"})", "#/nullable: expected true or false, found \"yes\""},
      {R"({"$defs":[]})", "#/$defs: expected an object whose members are schemas, found a list"},
  });
}

TEST(JsonObjectsTest, ManyProperties) {
  const auto make = [](int count, const std::string& rest) {
    std::string schema = R"({"properties":{)";
    for (int i = 0; i < count; ++i) {
      absl::StrAppend(&schema, i == 0 ? "" : ",", "\"property", i, "\":{\"type\":\"integer\"}");
    }
    return schema + "}" + rest + "}";
  };
  for (const int count : {1, 2, 15, 16, 17, 33, 64, 65, 200, 600, 1000}) {
    const absl::StatusOr<Grammar> grammar = BuildSchema(make(count, ""));
    ASSERT_TRUE(grammar.ok()) << count << grammar.status();
    EXPECT_LT(grammar->num_nodes(), 90u * static_cast<size_t>(count) + 1500);
    std::string all;
    for (int i = 0; i < count; ++i) {
      const std::string member = absl::StrCat("\"property", i, "\":", i);
      absl::StrAppend(&all, i == 0 ? "" : ",", member);
      EXPECT_TRUE(Fits(*grammar, "{" + member + "}"));
      EXPECT_TRUE(
          Fits(*grammar, absl::StrCat("{\"property0\":0", i == 0 ? "" : "," + member, "}")));
    }
    EXPECT_TRUE(Fits(*grammar, "{" + all + "}"));
    EXPECT_TRUE(Fits(*grammar, "{}"));
    EXPECT_FALSE(Fits(*grammar, "{" + all + "," + all + "}"));
  }
  EXPECT_EQ(ErrorOfSchema(make(100, R"(,"additionalProperties":true)")), "");
  EXPECT_EQ(ErrorOfSchema(make(10'000, R"(,"additionalProperties":true)")),
            "the grammar is too large: it needs more than 400000 states (counted repetitions of "
            "long parts take the most)");
}

TEST(JsonObjectsTest, Limits) {
  const auto nested = [](int levels) {
    std::string schema;
    for (int i = 1; i < levels; ++i) schema += R"({"items":)";
    return schema + "{}" + std::string(static_cast<size_t>(levels) - 1, '}');
  };
  EXPECT_EQ(ErrorOfSchema(nested(100)), "");
  EXPECT_EQ(ErrorOfSchema(nested(101)), "the schema is nested deeper than 100 levels");
  EXPECT_EQ(ErrorOfSchema(std::string(1 << 20, '[')),
            "the schema is nested deeper than 100 levels");
  EXPECT_EQ(ErrorOfSchema(std::string((1 << 20) + 1, ' ')),
            "the schema has 1048577 bytes, more than 1048576");
  std::string values = "{\"examples\":[0";
  for (int i = 0; i < 100'000; ++i) values += ",0";
  EXPECT_EQ(ErrorOfSchema(values + "]}"), "the schema has more than 100000 values");
  std::string words = "{\"enum\":[0";
  for (int i = 1; i < 10'000; ++i) absl::StrAppend(&words, ",", i);
  EXPECT_EQ(ErrorOfSchema(words + "]}"), "");
  EXPECT_EQ(ErrorOfSchema(words + ",\"a\"]}"), "#/enum: the list has more than 10000 values");
  std::string chain = R"({"$ref":"#/$defs/a0","$defs":{)";
  for (int i = 0; i < 150; ++i) {
    absl::StrAppend(&chain, "\"a", i, "\":{\"$ref\":\"#/$defs/a", i + 1, "\"},");
  }
  EXPECT_EQ(ErrorOfSchema(chain + R"("a150":{}}})"),
            "#/$defs/a99/$ref: more than 100 schemas refer to each other");
}

// Alternatives that are joined with each other: 2^n of them.
TEST(JsonObjectsTest, JoinedAlternativesAreLimited) {
  std::string schema = R"({"allOf":[{"type":"string"})";
  for (int i = 0; i < 40; ++i) {
    absl::StrAppend(&schema, R"(,{"anyOf":[{"minLength":)", i, R"(},{"maxLength":)", i + 9, "}]}");
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(ErrorOfSchema(schema + "]}"),
            "#/allOf/38: the schema is too large once its references and alternatives are joined");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

}  // namespace
}  // namespace longstream
