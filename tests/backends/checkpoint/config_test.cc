// Config: typed keys, error sentences, and the refusal of keys that nothing has read.
#include "backends/checkpoint/config.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/backends/checkpoint/expect_error.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;

Config Make(std::string_view json) { return Config(json, "m/config.json"); }

TEST(ConfigTest, ReadsTheFileOfADirectory) {
  TemporaryDirectory directory;
  directory.Write("config.json", R"({"hidden_size": 64})");
  const Config config(directory.string());
  EXPECT_EQ(config.file(), directory.string() + "/config.json");
  EXPECT_EQ(config.Integer("hidden_size", 1, 100), 64);
}

TEST(ConfigTest, MissingFileIsNotFound) {
  ExpectError(LS_NOT_FOUND, "/nowhere/config.json: cannot be read: No such file or directory",
              [] { Config("/nowhere"); });
  TemporaryDirectory directory;
  std::filesystem::create_symlink("blobs/1", directory.path() / "config.json");
  ExpectError(LS_NOT_FOUND,
              directory.string() +
                  "/config.json: cannot be read: is a link to blobs/1, which is "
                  "not there: the directory is incomplete",
              [&] { Config(directory.string()); });
}

TEST(ConfigTest, WhatIsNoObjectIsRefused) {
  ExpectError(LS_INVALID_ARGUMENT, "m/config.json: expected a JSON object, found array",
              [] { Make("[1]"); });
  ExpectError(LS_INVALID_ARGUMENT,
              StartsWith("m/config.json: no valid JSON: parse error at line 1"),
              [] { Make("{\"a\": "); });
  ExpectError(LS_INVALID_ARGUMENT, StartsWith("m/config.json: no valid JSON: "), [] { Make(""); });
  ExpectError(LS_INVALID_ARGUMENT, EndsWith("invalid literal; last read: '\"rope_theta\": N'"),
              [] { Make(R"({"rope_theta": NaNN})"); });
  ExpectError(LS_INVALID_ARGUMENT, "m/config.json: the key \"a\" is there twice in one object",
              [] { Make(R"({"a": 1, "b": 2, "a": 3})"); });
  ExpectError(LS_INVALID_ARGUMENT, "m/config.json: the key \"x\" is there twice in one object",
              [] { Make(R"({"a": {"x": 1, "x": 1}})"); });
}

TEST(ConfigTest, TheSameKeyInTwoObjectsIsFine) {
  const Config config = Make(R"({"a": {"x": 1}, "b": {"x": 2}, "x": 3})");
  EXPECT_EQ(config.Object("b").Integer("x", 0, 9), 2);
}

TEST(ConfigTest, DeepNestingIsRefused) {
  const std::string bomb = "{\"a\": " + std::string(100000, '[') + std::string(100000, ']') + "}";
  ExpectError(LS_INVALID_ARGUMENT, "m/config.json: JSON nested deeper than 32 levels",
              [&bomb] { Make(bomb); });
}

TEST(ConfigTest, ReadsEveryType) {
  const Config config = Make(R"({"b": true, "i": 512.0, "n": 1e-6, "s": "silu", "ss": ["x", "y"],
                                 "is": [1, 2.0], "o": {"k": 1}})");
  EXPECT_EQ(config.Bool("b"), true);
  EXPECT_EQ(config.Integer("i", 0, 512), 512);
  EXPECT_EQ(config.Number("n", 0, 1), 1e-6);
  EXPECT_EQ(config.Number("i", 0, 1e9), 512.0);
  EXPECT_EQ(config.String("s"), "silu");
  EXPECT_EQ(config.Strings("ss"), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(config.Integers("is", 0, 9), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(config.Object("o").Integer("k", 0, 9), 1);
  EXPECT_TRUE(config.IsString("s"));
  EXPECT_FALSE(config.IsString("n"));
}

TEST(ConfigTest, NullCountsAsAbsent) {
  const Config config = Make(R"({"a": null})");
  EXPECT_FALSE(config.Has("a"));
  EXPECT_TRUE(config.IsNull("a"));
  EXPECT_FALSE(config.IsNull("b"));
  EXPECT_EQ(config.FindInteger("a", 0, 1), std::nullopt);
  EXPECT_EQ(config.FindObject("b").has_value(), false);
}

// A wrong value of the key k, or none, and the sentence after "m/config.json: k ".
struct Wrong {
  const char* json;
  void (*read)(const Config&);
  const char* sentence;
};

void ReadInteger(const Config& config) { config.Integer("k", 1, 8); }
void FindInteger(const Config& config) { config.FindInteger("k", 1, 8); }
void ReadNumber(const Config& config) { config.Number("k", 0.5, 2); }
void ReadBool(const Config& config) { config.Bool("k"); }
void ReadString(const Config& config) { config.String("k"); }
void ReadStrings(const Config& config) { config.Strings("k"); }
void ReadIntegers(const Config& config) { config.Integers("k", 0, 8); }
void ReadObject(const Config& config) { config.Object("k"); }

const Wrong kWrong[] = {
    {"{}", ReadInteger, "is missing, expected an integer from 1 to 8"},
    {R"({"k": null})", ReadInteger, "is missing, expected an integer from 1 to 8"},
    {R"({"k": 9})", FindInteger, "must be an integer from 1 to 8, found 9"},
    {R"({"k": -1})", ReadInteger, "must be an integer from 1 to 8, found -1"},
    {R"({"k": 1.5})", ReadInteger, "must be an integer from 1 to 8, found 1.5"},
    {R"({"k": 18446744073709551615})", ReadInteger,
     "must be an integer from 1 to 8, found 18446744073709551615"},
    {R"({"k": 1e300})", ReadInteger, "must be an integer from 1 to 8, found 1e+300"},
    {R"({"k": "4"})", ReadInteger, "must be an integer from 1 to 8, found \"4\""},
    {R"({"k": true})", ReadInteger, "must be an integer from 1 to 8, found true"},
    {"{}", ReadNumber, "is missing, expected a number"},
    {R"({"k": 3})", ReadNumber, "must be a number from 0.5 to 2, found 3"},
    {R"({"k": []})", ReadNumber, "must be a number from 0.5 to 2, found []"},
    {R"({"k": NaN})", ReadNumber, "must be a number from 0.5 to 2, found \"NaN\""},
    {R"({"k": Infinity})", FindInteger, "must be an integer from 1 to 8, found \"Infinity\""},
    {R"({"k": [1, -Infinity]})", ReadIntegers,
     "must be a list, each item an integer from 0 to 8, found [1,\"-Infinity\"]"},
    {"{}", ReadBool, "is missing, expected true or false"},
    {R"({"k": 0})", ReadBool, "must be true or false, found 0"},
    {"{}", ReadString, "is missing, expected a string"},
    {R"({"k": 7})", ReadString, "must be a string, found 7"},
    {"{}", ReadStrings, "is missing, expected a list of strings"},
    {R"({"k": ["a", 1]})", ReadStrings, "must be a list of strings, found [\"a\",1]"},
    {"{}", ReadIntegers, "is missing, expected a list of integers"},
    {R"({"k": [1, 9]})", ReadIntegers,
     "must be a list, each item an integer from 0 to 8, found [1,9]"},
    {R"({"k": 1})", ReadIntegers, "must be a list, each item an integer from 0 to 8, found 1"},
    {"{}", ReadObject, "is missing, expected an object"},
    {R"({"k": 1})", ReadObject, "must be an object, found 1"},
};

TEST(ConfigTest, ErrorsNameFileKeyExpectedAndFound) {
  for (const Wrong& wrong : kWrong) {
    SCOPED_TRACE(wrong.json);
    const Config config = Make(wrong.json);
    ExpectError(LS_INVALID_ARGUMENT, "m/config.json: k " + std::string(wrong.sentence),
                [&] { wrong.read(config); });
  }
}

TEST(ConfigTest, NestedKeysAreNamedInFull) {
  const Config config = Make(R"({"rope_parameters": {"rope_theta": "x"}})");
  ExpectError(LS_INVALID_ARGUMENT,
              "m/config.json: rope_parameters.rope_theta must be a number from 1 to 10, found "
              "\"x\"",
              [&config] { config.Object("rope_parameters").Number("rope_theta", 1, 10); });
}

TEST(ConfigTest, LongValuesAreCutAndLinesKeptWhole) {
  const Config config = Make("{\"k\": \"" + std::string(1000, 'x') + "\"}");
  ExpectError(LS_INVALID_ARGUMENT,
              "m/config.json: k must be true or false, found \"" + std::string(99, 'x') + "...",
              [&config] { config.Bool("k"); });
}

TEST(ConfigTest, RefusesWhatNobodyAskedFor) {
  const Config config = Make(R"({"hidden_size": 4, "num_experts": 8, "use_cache": true})");
  config.Integer("hidden_size", 1, 8);
  ExpectError(LS_UNIMPLEMENTED, "m/config.json: " + NotKnown("num_experts = 8", "dense"),
              [&config] { config.RefuseUnknown("dense"); });
  config.Has("num_experts");
  config.RefuseUnknown("dense");
}

TEST(ConfigTest, NullAndHarmlessKeysPass) {
  Make(R"({"quantization_config": null, "torch_dtype": "bfloat16", "_name_or_path": "x",
           "transformers_version": "5.0", "bos_token_id": 1, "is_encoder_decoder": false,
           "pruned_heads": {}})")
      .RefuseUnknown("dense");
  Make(R"({"gdn_nh": 4, "loss_fn": "kl"})").RefuseUnknown("hypenet", {"loss_fn", "gdn_*"});
}

TEST(ConfigTest, HarmlessKeysAreHarmlessOnlyWhenOff) {
  ExpectError(LS_UNIMPLEMENTED, "m/config.json: " + NotKnown("is_encoder_decoder = true", "dense"),
              [] { Make(R"({"is_encoder_decoder": true})").RefuseUnknown("dense"); });
  ExpectError(LS_UNIMPLEMENTED, "m/config.json: " + NotKnown("pruned_heads = {\"1\":[2]}", "dense"),
              [] { Make(R"({"pruned_heads": {"1": [2]}})").RefuseUnknown("dense"); });
}

TEST(ConfigTest, ANameWithoutAStarStandsForItselfOnly) {
  ExpectError(LS_UNIMPLEMENTED, "m/config.json: " + NotKnown("loss_fn_2 = 1", "hypenet"),
              [] { Make(R"({"loss_fn_2": 1})").RefuseUnknown("hypenet", {"loss_fn"}); });
}

TEST(ConfigTest, NonFiniteNumbersInHarmlessKeysPass) {
  const Config config = Make(R"({"initializer_range": NaN, "top_p": Infinity, "top_k":-Infinity,
      "label2id": {"NaN": 1, "a \" NaN": NaN}, "id2label": [NaN,Infinity,-Infinity]})");
  config.RefuseUnknown("dense");
  EXPECT_EQ(config.Found("label2id"), R"({"NaN":1,"a \" NaN":"NaN"})");
  EXPECT_EQ(config.Found("id2label"), R"(["NaN","Infinity","-Infinity"])");
}

TEST(ConfigTest, RemovedKeysCountAsAbsent) {
  Config config = Make(R"({"a": 1, "b.c": 2, "d": {"e": 3, "f": null, "g.h": {"i": 4}}})");
  config.Remove({"a", "b.c", "d.e", "d.f", "d.g.h.i"});
  EXPECT_FALSE(config.Has("a"));
  EXPECT_FALSE(config.Has("b.c"));
  EXPECT_EQ(config.Found("d"), R"({"g.h":{}})");
  for (const char* absent : {"a", "d.e", "d.", "d.g", "", ".", "d.g.h.i.j"}) {
    ExpectError(
        LS_INVALID_ARGUMENT,
        "options: ignore_keys acts on nothing: m/config.json has no key " + std::string(absent),
        [&] { config.Remove({absent}); });
  }
}

TEST(ConfigTest, WithoutAutoMapUnknownKeysMayBeIgnored) {
  Config config = Make(R"({"auto_map": {}, "acme": 1, "o": {"acme": 2}})");
  config.IgnoreUnknown();
  ExpectError(LS_UNIMPLEMENTED, "m/config.json: " + NotKnown("o.acme = 2", "dense"),
              [&] { config.Object("o").RefuseUnknown("dense"); });
  config.Remove({"auto_map"});
  config.IgnoreUnknown();
  config.Object("o").RefuseUnknown("dense");
  config.RefuseUnknown("dense");
  config.RefuseUnknown("dense");
  EXPECT_THAT(
      config.warnings(),
      ::testing::ElementsAre("m/config.json: keys that are not known to dense are ignored: o.acme",
                             "m/config.json: keys that are not known to dense are ignored: acme"));
}

TEST(ConfigTest, CopiesShareWhatWasAsked) {
  const Config config = Make(R"({"k": 1})");
  const Config copy = config;
  copy.Integer("k", 0, 1);
  config.RefuseUnknown("dense");
}

}  // namespace
}  // namespace longstream
