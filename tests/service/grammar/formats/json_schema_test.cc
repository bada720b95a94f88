// Schemas of strings, numbers and single values, their references and alternatives.
#include "service/grammar/formats/schema/json_schema.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/service/grammar/formats/schema_cases.h"

namespace longstream {
namespace {

TEST(JsonSchemaTest, Types) {
  CheckSchemas({
      {"true", {"1", "{}", "[null]", "\"a\""}, {"", "a"}},
      {"{}", {"1", "{\"a\":1}", "[null]", "\"a\""}, {"", "a"}},
      {R"({"type":"null"})", {"null"}, {"0", "\"null\""}},
      {R"({"type":"boolean"})", {"true", "false"}, {"null", "1"}},
      {R"({"type":"string"})", {R"("")", R"("a\nb")"}, {"a", "1"}},
      {R"({"type":"integer"})", {"0", "-12", "98765432109876543210"}, {"-0", "1.0", "1e2", "01"}},
      {R"({"type":"number"})", {"0", "-1.5", "1e2"}, {"\"1\"", "1."}},
      {R"({"type":"object"})", {"{}", R"({"a":[1]})"}, {"[]"}},
      {R"({"type":"array"})", {"[]", "[1, {}]"}, {"{}"}},
      {R"({"type":["integer","null","string"]})", {"1", "null", R"("a")"}, {"1.5", "true"}},
      {R"({"type":["integer","number"]})", {"1", "1.5"}, {"null"}},
      {R"({"type":"string","nullable":true})", {"null", R"("a")"}, {"1"}},
      {R"({"type":"string","nullable":false})", {R"("a")"}, {"null"}},
      {R"({"nullable":true})", {"null", "1"}, {}},
      {R"({"type":"string","minimum":3,"items":false})", {R"("a")"}, {"4"}},
      {R"({"minLength":2})", {R"("ab")"}, {"1", R"("a")"}},
      {R"({"minimum":2})", {"2", "2.5"}, {"1", R"("ab")"}},
      {R"({"properties":{}})", {"{}"}, {"1", R"({"a":1})"}},
      {R"({"maxItems":1})", {"[]", "[1]"}, {"[1,2]", "1"}},
      {R"({"minimum":2,"minLength":1})", {"2", R"("a")"}, {"1", R"("")", "null"}},
      {R"({"format":"ipv4"})", {R"("1.2.3.4")"}, {"1", R"("a")"}},
      {R"({"format":"int32"})", {"1", R"("a")"}, {}},
      {R"({"type":"integer","format":"int32","title":"a","description":"b","default":1,
           "examples":[2],"$comment":"c","deprecated":true,"readOnly":true,"writeOnly":false,
           "discriminator":{"propertyName":"a"},"example":{},"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"https://a/b","x-a":1})",
       {"1"},
       {"\"a\""}},
  });
}

TEST(JsonSchemaTest, SingleValues) {
  CheckSchemas({
      {R"({"const":"a\"é\n"})", {R"("a\"é\n")"}, {R"("a")", R"("a\"\u00e9\n")"}},
      {R"({"const":1.50})", {"1.50"}, {"1.5", "1"}},
      {R"({"const":null})", {"null"}, {"0"}},
      {R"({"const":[]})", {"[]", "[ ]", "[\n]"}, {"[1]"}},
      {R"({"const":{"b":1,"a":[true,{}]}})",
       {R"({"b":1,"a":[true,{}]})", "{\n \"b\": 1,\n \"a\": [true, {}]\n}"},
       {R"({"a":[true,{}],"b":1})", R"({"b":1})"}},
      {R"({"enum":["a","b",1,null,true]})", {R"("a")", R"("b")", "1", "null", "true"}, {"2"}},
      {R"({"type":"string","enum":["a",1]})", {R"("a")"}, {"1"}},
      {R"({"type":"integer","enum":[1,1.0,1.5,1e1]})", {"1", "1.0", "1e1"}, {"1.5"}},
      {R"({"enum":[1,5,9],"minimum":2,"exclusiveMaximum":9})", {"5"}, {"1", "9"}},
      {R"({"enum":["a","éé",3],"minLength":2})", {R"("éé")", "3"}, {R"("a")"}},
      {R"({"enum":["a","b"],"const":"b"})", {R"("b")"}, {R"("a")"}},
      {R"({"enum":["a","b","c"],"allOf":[{"enum":["c","b","d"]}]})",
       {R"("b")", R"("c")"},
       {R"("a")", R"("d")"}},
  });
  CheckSchemaErrors({
      {R"({"enum":[]})", "#/enum: no value fits: no value is allowed by all keywords"},
      {R"({"enum":["a"],"type":"integer"})",
       "#/enum: no value fits: no value is allowed by all keywords"},
      {R"({"enum":["a"],"const":"b"})",
       "#/const: no value fits: no value is allowed by all keywords"},
      {R"({"enum":3})", "#/enum: expected a list of values, found 3"},
      {R"({"enum":["a"],"pattern":"b"})",
       "#/enum: not supported: single values with other restrictions of their content"},
      {R"({"const":{"a":1},"required":["b"]})",
       "#/const: not supported: single values with other restrictions of their content"},
      {R"({"enum":[[1],2],"minItems":2})",
       "#/enum: not supported: single values with other restrictions of their content"},
  });
}

TEST(JsonSchemaTest, Strings) {
  CheckSchemas({
      {R"({"type":"string","minLength":2,"maxLength":3})",
       {R"("ab")", R"("ééé")", R"("\n\u00e9")"},
       {R"("a")", R"("abcd")"}},
      {R"({"type":"string","maxLength":18446744073709551616})", {R"("ab")"}, {}},
      {R"({"type":"string","minLength":2.0})", {R"("ab")"}, {R"("a")"}},
      {R"({"type":"string","pattern":"^a+$"})", {R"("aa")"}, {R"("ab")", R"("")"}},
      {R"({"type":"string","pattern":"a"})", {R"("xax")", R"("\"a\\")"}, {R"("x")", R"("\u0061")"}},
      {R"({"type":"string","pattern":"^\\w+$","maxLength":2})", {R"("ab")"}, {R"("abc")", R"("")"}},
      {R"({"type":"string","format":"date","maxLength":10})", {R"("2024-02-29")"}, {R"("")"}},
      {R"({"type":"string","format":"no such format"})", {R"("a")"}, {"1"}},
  });
  CheckSchemaErrors({
      {R"({"type":"string","minLength":3,"maxLength":2})",
       "#/maxLength: no value fits: minLength exceeds maxLength"},
      {R"({"type":"string","minLength":-1})",
       "#/minLength: expected a whole number from 0 on, found -1"},
      {R"({"type":"string","minLength":1.5})",
       "#/minLength: expected a whole number from 0 on, found 1.5"},
      {R"({"type":"string","minLength":4294967296})", "#/minLength: the count exceeds 32 bits"},
      {R"({"type":"string","pattern":1})", "#/pattern: expected a string, found 1"},
      {R"x({"type":"string","pattern":"(?=a)"})x",
       "#/pattern: at byte 0: lookahead is not supported"},
      {R"({"type":"string","pattern":"a","format":"date"})",
       "#/format: not supported: a format and a pattern for one string"},
      {R"({"type":"string","pattern":"^(ab)*$","maxLength":7})",
       "#/pattern: the lengths of the strings are limited, which is not supported with this "
       "pattern"},
      {R"({"type":"string","format":"date","maxLength":9})",
       "#/format: no string that matches the pattern has an allowed length"},
      {R"({"allOf":[{"pattern":"a"},{"pattern":"b"}]})",
       "#/allOf/1/pattern: not supported: two patterns for one string"},
      {R"({"allOf":[{"format":"date"},{"format":"time"}]})",
       "#/allOf/1/format: not supported: two formats for one string"},
  });
}

TEST(JsonSchemaTest, Formats) {
  const auto check = [](const std::string& format, const std::vector<std::string>& fits,
                        const std::vector<std::string>& others) {
    SchemaCase c = {R"({"type":"string","format":")" + format + "\"}", {}, {}};
    for (const std::string& text : fits) c.fits.push_back("\"" + text + "\"");
    for (const std::string& text : others) c.others.push_back("\"" + text + "\"");
    CheckSchemas({c});
    EXPECT_LT(BuildSchema(c.schema)->num_nodes(), 3000u) << format;
  };
  check("date", {"2024-02-29", "2000-02-29", "1900-02-28", "2023-12-31", "2023-04-30"},
        {"2023-02-29", "1900-02-29", "2023-04-31", "2023-13-01", "2023-1-1", "2023-00-10", "",
         "2023-01-32", "2023-01-00"});
  check("time", {"00:00:00Z", "23:59:59.123+05:30", "12:00:00-00:00"},
        {"24:00:00Z", "12:60:00Z", "12:00:60Z", "12:00:00", "12:00Z", "12:00:00+24:00"});
  check("date-time", {"2024-02-29T12:00:00Z", "2024-12-31T23:59:59.5-08:00"},
        {"2024-02-29 12:00:00Z", "2024-02-30T12:00:00Z", "2024-02-29"});
  check("duration", {"P1Y", "P1Y2M3DT4H5M6S", "PT1M", "P3W", "PT36H", "P1M2D", "P2DT3S"},
        {"P", "PT", "P1W2D", "P1S", "P1Y2D", "PT1H2S", "1Y"});
  check("uuid", {"123e4567-e89b-12d3-a456-426614174000", "ABCDEF01-2345-6789-abcd-ef0123456789"},
        {"123e4567e89b12d3a456426614174000", "123e4567-e89b-12d3-a456-42661417400g", ""});
  check("hostname", {"a", "example.com", "a-b.c1.d", std::string(63, 'a') + ".b"},
        {"-a", "a-", "a..b", "", ".a", "a_b", std::string(64, 'a')});
  check("email", {"a@b", "first.last+tag@example.com", "o'x@a.b.c"},
        {"a", "a@", "@b", "a..b@c", ".a@b", "a.@b", "a@b_c", "a@b@c"});
  check("ipv4", {"0.0.0.0", "255.249.199.9"}, {"256.0.0.1", "1.2.3", "01.2.3.4", "1.2.3.4.5"});
  check("ipv6",
        {"::", "::1", "1::", "1:2:3:4:5:6:7:8", "fe80::a:b", "::ffff:1.2.3.4",
         "1:2:3:4:5:6:7::", "1::3:4:5:6:7:8", "64:ff9b::1.2.3.4", "1:2:3:4:5:6:1.2.3.4"},
        {"1:2:3", ":1", "1::2::3", "12345::", "1:2:3:4:5:6:7:8:9",
         "1:2:3:4:5:6:7:8::", "::1.2.3.256", "g::"});
  check("uri",
        {"http://example.com/a?b=c#d", "mailto:a@b", "urn:x:y", "file:///a/b",
         "a:", "http://u:p@h:80/%20", "a:/b/c"},
        {"", "//a", "a b:c", "1a:b", "http://a/%2", "http://a b", "a:#b#c"});
}

TEST(JsonSchemaTest, Numbers) {
  CheckSchemas({
      {R"({"type":"integer","minimum":-5,"maximum":12})", {"-5", "0", "12"}, {"-6", "13", "1.0"}},
      {R"({"type":"integer","exclusiveMinimum":1,"exclusiveMaximum":4.5})", {"2", "4"}, {"1", "5"}},
      {R"({"type":"integer","minimum":9223372036854775807})", {"9223372036854775807"}, {"1"}},
      {R"({"type":"number","minimum":0,"maximum":1})", {"0", "0.5", "1", "1.0"}, {"1.1", "-1"}},
      {R"({"type":"number","exclusiveMinimum":0})", {"0.1", "10"}, {"0", "0.0", "-1", "1e2"}},
      {R"({"minimum":1,"allOf":[{"minimum":3},{"exclusiveMinimum":3},{"maximum":9}]})",
       {"3.1", "9"},
       {"3", "2", "9.1"}},
      {R"({"type":"number","multipleOf":1})", {"3"}, {"3.5"}},
      {R"({"type":"integer","multipleOf":1.0})", {"3"}, {"3.5"}},
      {R"({"type":"string","multipleOf":3})", {"\"a\""}, {"3"}},
  });
  CheckSchemaErrors({
      {R"({"type":"integer","minimum":3,"maximum":2})",
       "#/maximum: no value fits: no whole number is between the bounds"},
      {R"({"type":"integer","minimum":0.2,"exclusiveMaximum":1})",
       "#/exclusiveMaximum: no value fits: no whole number is between the bounds"},
      {R"({"type":"number","minimum":3,"exclusiveMaximum":3})",
       "#/exclusiveMaximum: no value fits: no number is between the bounds"},
      {R"({"type":"integer","multipleOf":3})", "#/multipleOf: not supported, except 1"},
      {R"({"properties":{"age":{"type":"number","multipleOf":0.5}}})",
       "#/properties/age/multipleOf: not supported, except 1"},
      {R"({"type":"integer","minimum":"1"})", "#/minimum: expected a number, found \"1\""},
      {R"({"type":"integer","exclusiveMinimum":true})",
       "#/exclusiveMinimum: expected a number, found true"},
      {R"({"type":"number","minimum":1e-401})",
       "#/minimum: not supported: the number has more than 400 digits"},
  });
}

TEST(JsonSchemaTest, References) {
  CheckSchemas({
      {R"({"$ref":"#/$defs/a","$defs":{"a":{"type":"integer"}}})", {"1"}, {"\"a\""}},
      {R"({"$ref":"#/definitions/a~1b~0%20c","definitions":{"a/b~ c":{"type":"null"}}})",
       {"null"},
       {"1"}},
      {R"({"items":{"$ref":"#"},"type":"array"})", {"[]", "[[],[[]]]"}, {"[1]", "1"}},
      {R"({"properties":{"next":{"$ref":"#"},"a":{"$ref":"#/properties/b"},"b":{"const":1}}})",
       {"{}", R"({"next":{"next":{}}})", R"({"a":1,"b":1})"},
       {R"({"next":1})", R"({"a":2})"}},
      {R"({"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"anyOf":[{"type":"null"},
           {"type":"array","items":{"$ref":"#/$defs/a"}}]}}})",
       {"null", "[null,[null]]"},
       {"1"}},
      {R"({"$ref":"#/anyOf/0/prefixItems/1","anyOf":[{"prefixItems":[{},{"const":3}]}]})",
       {"3"},
       {"4"}},
      {R"({"$ref":"#/$defs/a","minimum":3,"$defs":{"a":{"type":"integer","maximum":5}}})",
       {"3", "5"},
       {"2", "6"}},
      {R"({"properties":{"a":{"$id":"#a","type":"null"}}})", {R"({"a":null})"}, {}},
      {R"({"$ref":"#/$defs/a","anyOf":[{"$ref":"#/$defs/a"},{"minimum":9}],
           "$defs":{"a":{"type":"integer"}}})",
       {"1"},
       {"1.5"}},
  });
  const std::string self = ": the schema refers to itself, without a value between";
  CheckSchemaErrors({
      {R"({"$ref":"#"})", "#/$ref" + self},
      {R"({"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}})",
       "#/$defs/a/$ref" + self},
      {R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})", "#" + self},
      {R"({"allOf":[{"$ref":"#"}],"type":"null"})", "#/allOf/0/$ref" + self},
      {R"({"type":["null","string"],"anyOf":[{"$ref":"#"},{"type":"null"}]})",
       "#/anyOf/0/$ref" + self},
      {R"({"$ref":"#/$defs/a","$defs":{"a":{"oneOf":[{"$ref":"#/$defs/b"},{"type":"null"}]},
           "b":{"anyOf":[{"$ref":"#/$defs/a"},{"type":"array"}]}}})",
       "#/$defs/a" + self},
      {R"({"$ref":"#/$defs/a","$defs":{"a":{"oneOf":[{"const":1},
           {"$ref":"#/$defs/a","nullable":true}]}}})",
       "#/$defs/a/oneOf/1" + self},
      {R"({"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}],"$defs":{
           "a":{"anyOf":[{"const":1},{"$ref":"#/$defs/b"}]},
           "b":{"anyOf":[{"const":2},{"$ref":"#/$defs/a"}]}}})",
       "#/$defs/a" + self},
      {R"({"$ref":"#/$defs/b","$defs":{"a":true}})",
       "#/$ref: '#/$defs/b' names no place in this document, such as #/$defs/name"},
      {R"({"$ref":"https://a/b"})",
       "#/$ref: 'https://a/b' names no place in this document, such as #/$defs/name"},
      {R"({"$ref":"#a"})", "#/$ref: '#a' names no place in this document, such as #/$defs/name"},
      {R"({"$ref":"#/a~2"})",
       "#/$ref: '#/a~2' names no place in this document, such as #/$defs/name"},
      {R"({"$ref":"#/%zz"})",
       "#/$ref: '#/%zz' names no place in this document, such as #/$defs/name"},
      {R"({"$ref":"#/title","title":"a"})",
       "#/title: expected a schema (an object, true or false), found \"a\""},
      {R"({"$ref":1})", "#/$ref: expected a string, found 1"},
      {R"({"required":["a"],"properties":{"a":{"$ref":"#"}}})", "no text fits the grammar"},
      {R"({"properties":{"a":{"$id":"https://b/c","type":"null"}}})",
       "#/properties/a/$id: not supported: a schema inside a schema with its own $id"},
  });
}

TEST(JsonSchemaTest, Alternatives) {
  CheckSchemas({
      {R"({"anyOf":[{"type":"integer"},{"type":"null"}]})", {"1", "null"}, {"\"a\""}},
      {R"({"oneOf":[{"const":"a"},{"const":"b"},false]})", {R"("a")", R"("b")"}, {R"("c")"}},
      {R"({"type":["string","null"],"anyOf":[{"maxLength":1},{"enum":["abc",3]}]})",
       {R"("a")", R"("abc")"},
       {"3", R"("ab")"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],
           "anyOf":[{"properties":{"b":{"type":"null"}},"required":["b"]},
                    {"properties":{"c":{"type":"null"}},"required":["c"]}]})",
       {R"({"a":1,"b":null})", R"({"a":1,"c":null})"},
       {R"({"a":1})", R"({"a":1,"b":null,"c":null})", R"({"b":null,"a":1})"}},
      {R"({"anyOf":[{"type":"string"},{"type":"number","minimum":1}],
           "oneOf":[{"type":"string","maxLength":2},{"type":"number","maximum":3}]})",
       {R"("ab")", "2"},
       {R"("abc")", "4", "0"}},
      // Keywords for strings say nothing about numbers, and the other way round.
      {R"({"anyOf":[{"type":"string"},{"minimum":1}],"oneOf":[{"maxLength":2},{"maximum":3}]})",
       {R"("abc")", "4", "2"},
       {"0", "null"}},
      {R"({"anyOf":[{"anyOf":[{"const":1},{"const":2}]},{"const":3}]})", {"1", "2", "3"}, {"4"}},
      {R"({"anyOf":[{"type":"string"},{"type":"null"}],"type":"string"})", {"\"a\""}, {"null"}},
  });
  CheckSchemaErrors({
      {R"({"anyOf":[]})", "#/anyOf: expected a list of schemas, found a list"},
      {R"({"anyOf":[1]})", "#/anyOf/0: expected a schema (an object, true or false), found 1"},
      {R"({"anyOf":[false,false]})", "#/anyOf/1: no value fits: the schema is false"},
      {R"({"type":"null","anyOf":[{"type":"string"}]})",
       "#/anyOf/0/type: no value fits: no type is allowed by all schemas"},
      {R"({"anyOf":[{"not":{}},{"type":"null"}]})", "#/anyOf/0/not: not supported"},
  });
}

TEST(JsonSchemaTest, Conjunctions) {
  CheckSchemas({
      {R"({"allOf":[{"$ref":"#/$defs/a"}],"description":"b","$defs":{"a":{"type":"null"}}})",
       {"null"},
       {"1"}},
      {R"({"allOf":[{"type":["string","integer"]},{"type":["integer","null"]}]})",
       {"1"},
       {"null", "\"a\""}},
      {R"({"allOf":[{"type":"number"},{"type":"integer"}]})", {"1"}, {"1.5"}},
      {R"({"allOf":[{"minLength":2},{"minLength":3},{"maxLength":4},{"maxLength":9}]})",
       {R"("abc")", R"("abcd")"},
       {R"("ab")", R"("abcde")"}},
      {R"({"allOf":[{"properties":{"a":{"type":"integer"},"b":true}},
                    {"properties":{"a":{"minimum":3},"c":true},"required":["c"]}]})",
       {R"({"a":3,"b":1,"c":1})", R"({"c":1})"},
       {R"({"a":2,"c":1})", R"({"a":3})", R"({"c":1,"a":3})"}},
      {R"({"allOf":[{"items":{"type":"integer"}},{"items":{"minimum":2},"minItems":1}]})",
       {"[2,3]"},
       {"[1]", "[]", "[2.5]"}},
      {R"({"allOf":[true,{"type":"null"},{}]})", {"null"}, {"1"}},
      {R"({"allOf":[{"allOf":[{"type":"null"}]},{"$ref":"#/allOf/0"}]})", {"null"}, {"1"}},
  });
  CheckSchemaErrors({
      {R"({"allOf":[{"type":"null"},{"type":"string"}]})",
       "#/allOf/1/type: no value fits: no type is allowed by all schemas"},
      {R"({"allOf":[{"type":"null"},false]})", "#/allOf/1: no value fits: the schema is false"},
      {R"({"allOf":{}})", "#/allOf: expected a list of schemas, found an object"},
  });
}

}  // namespace
}  // namespace longstream
