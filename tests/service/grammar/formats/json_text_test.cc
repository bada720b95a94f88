// Any JSON, white space, strings and large counts.
#include "service/grammar/formats/json_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/grammar/formats/counted.h"
#include "tests/service/grammar/formats/grammar_texts.h"

namespace longstream {
namespace {

using Expression = GrammarBuilder::Expression;

Grammar Build(const std::function<Expression(GrammarBuilder&)>& add) {
  return *BuildFormat(
      [&add](GrammarBuilder& builder) { return absl::StatusOr<Expression>(add(builder)); });
}

TEST(JsonTextTest, AnyObject) {
  const Grammar grammar = Build(AddAnyJsonObject);
  for (const char* fits :
       {"{}", "{ }", R"({"a":1})", R"({"a":{"b":[1,"x",null,true,false,{}]},"a":-1.5e3})",
        "{\n\t\"a\" :\n  [ ]\n}"}) {
    EXPECT_TRUE(Fits(grammar, fits)) << fits;
  }
  for (const char* other :
       {"", "[]", "1", "{} ", " {}", "{,}", R"({"a"})", R"({"a":1,})", R"({a:1})", "{  }", "{\n\n}",
        "{\t}", R"({"a":01})", "{\"a\":\"\n\"}"}) {
    EXPECT_FALSE(Fits(grammar, other)) << other;
  }
}

TEST(JsonTextTest, AnyValue) {
  const Grammar grammar = Build(AddAnyJsonValue);
  for (const char* fits : {"{}", "[]", "[ ]", "[[[]]]", "0", "-1.5e+10", "true", "false", "null",
                           R"("")", R"("a\"\\\/\b\f\n\r\té")", R"(["\u00e9","\uD83D\uDE00"])"}) {
    EXPECT_TRUE(Fits(grammar, fits)) << fits;
  }
  for (const char* other : {"", "tru", "[1,]", R"("\uD83D")", R"("\uDE00")", R"("\uD83D\u0041")",
                            R"("\x41")", "\"\t\"", "\"\xff\"", "1 ", "[1  ]"}) {
    EXPECT_FALSE(Fits(grammar, other)) << other;
  }
}

TEST(JsonTextTest, WhiteSpaceIsShort) {
  const Grammar grammar = Build(AddAnyJsonValue);
  const auto with_space = [](const std::string& space) {
    return "{" + space + "\"a\"" + space + ":" + space + "[" + space + "1" + space + "," + space +
           "2" + space + "]" + space + "," + space + "\"b\":{}" + space + "}";
  };
  for (const std::string& space : std::vector<std::string>{
           "", " ", "\n", "\n ", "\n\t", "\n" + std::string(20, ' '), "\n \t \t"}) {
    EXPECT_TRUE(Fits(grammar, with_space(space))) << space;
  }
  for (const std::string& space : std::vector<std::string>{"  ", "\t", "\r\n", "\n\n", "\n \n",
                                                           "\n" + std::string(21, ' '), " \n"}) {
    EXPECT_FALSE(Fits(grammar, with_space(space))) << space;
  }
}

TEST(JsonTextTest, RandomWalksAreJson) {
  const Grammar grammar = Build(AddAnyJsonValue);
  const GrammarWalker walker(grammar);
  Random random(1);
  for (int i = 0; i < 5000; ++i) {
    const std::string text = walker.Walk(random, Draw(random, 200));
    ASSERT_TRUE(nlohmann::json::accept(text)) << text;
    ASSERT_TRUE(Fits(grammar, text)) << text;
    const std::string other = Mutated(random, text);
    if (Fits(grammar, other)) {
      ASSERT_TRUE(nlohmann::json::accept(other)) << other;
    }
  }
}

TEST(JsonTextTest, StringsAreWrittenAsByNlohmann) {
  std::string all;
  for (char c = 0; c < 127; ++c) all += c;
  all += "\x7fé€😀";
  EXPECT_EQ(JsonString(all), nlohmann::json(all).dump());
}

TEST(JsonTextTest, LengthsCountCodePoints) {
  const auto text_of = [](const char* character, size_t count) {
    std::string text = "\"";
    for (size_t i = 0; i < count; ++i) text += character;
    return text + "\"";
  };
  for (const uint32_t least : {0u, 1u, 5u, 8u, 9u, 127u, 128u, 129u, 300u}) {
    for (const uint32_t more : {0u, 1u, 3u, 126u, 127u, 128u, 129u, 400u, 1000u}) {
      const uint32_t most = least + more;
      const Grammar grammar =
          Build([&](GrammarBuilder& builder) { return JsonText(builder).String(least, most); });
      for (const char* character : {"a", "é", "😀", "\\n", "\\u00e9", "\\ud83d\\ude00"}) {
        for (const size_t count : {size_t{0}, size_t{1}, size_t{most / 2}, size_t{least},
                                   size_t{most}, least + size_t{1}, most + size_t{1},
                                   size_t{least} - 1, size_t{127}, size_t{128}, size_t{255}}) {
          if (count > 2000) continue;
          ASSERT_EQ(Fits(grammar, text_of(character, count)), count >= least && count <= most)
              << least << " " << most << " " << count << " " << character;
        }
      }
    }
  }
}

TEST(CountedTest, AllCounts) {
  for (const uint32_t least : {0u, 1u, 9u, 100u, 128u, 200u, 260u}) {
    for (const uint32_t more : {0u, 1u, 7u, 100u, 127u, 128u, 255u, 256u, 400u}) {
      const Grammar grammar = Build([&](GrammarBuilder& builder) {
        return Counted(builder, builder.Literal("ab"), least, least + more);
      });
      std::string text;
      for (uint32_t count = 0; count < least + more + 2; ++count, text += "ab") {
        ASSERT_EQ(Fits(grammar, text), count >= least && count <= least + more)
            << least << " " << more << " " << count;
      }
    }
    const Grammar grammar = Build([&](GrammarBuilder& builder) {
      return Counted(builder, builder.Literal("ab"), least, std::nullopt);
    });
    std::string text;
    for (uint32_t count = 0; count < least + 300; ++count, text += "ab") {
      ASSERT_EQ(Fits(grammar, text), count >= least) << least << " " << count;
    }
  }
}

TEST(CountedTest, LargeCountsTakeFewNodes) {
  const Grammar grammar = Build([](GrammarBuilder& builder) {
    return JsonText(builder).String(1'000'000'000, 4'000'000'000);
  });
  EXPECT_LT(grammar.num_nodes(), 10'000u);
  const Grammar million = Build([](GrammarBuilder& builder) {
    return Counted(builder, builder.Literal("a"), 12'345, 1'000'000);
  });
  EXPECT_TRUE(Fits(million, std::string(12'345, 'a')));
  EXPECT_TRUE(Fits(million, std::string(1'000'000, 'a')));
  EXPECT_FALSE(Fits(million, std::string(12'344, 'a')));
  EXPECT_FALSE(Fits(million, std::string(1'000'001, 'a')));
}

TEST(JsonTextTest, StringsExceptSome) {
  const std::vector<std::string_view> keys = {"",   "a",  "ab",     "abc",  "b", "é", "éa",   "\"x",
                                              "\\", "\n", "\u001f", "x\ty", "😀", "ü", "abcde"};
  const Grammar grammar =
      Build([&keys](GrammarBuilder& builder) { return *JsonText(builder).StringExcept(keys); });
  for (const std::string_view key : keys) EXPECT_FALSE(Fits(grammar, JsonString(key))) << key;
  for (const std::string_view other :
       {"c",    "abd", "abcd", "abcdef", "aé",  "èa", "é",  "e",  "\"", "\"y", "\\\\",
        "\n\n", "\r",  "x\t",  "x",      "xty", "😁",  "😀😀", "aa", "A",  "\x7f"}) {
    const bool is_key = std::ranges::find(keys, other) != keys.end();
    EXPECT_EQ(Fits(grammar, JsonString(other)), !is_key) << other;
  }
  EXPECT_FALSE(Fits(grammar, R"("\u0061")")) << "a key, written with an escape";
  EXPECT_FALSE(Fits(grammar, R"("\u0063")"));
  const GrammarWalker walker(grammar);
  Random random(2);
  for (int i = 0; i < 2000; ++i) {
    const std::string text = walker.Walk(random, Draw(random, 10));
    const std::string key = nlohmann::json::parse(text).get<std::string>();
    ASSERT_EQ(std::ranges::count(keys, key), 0) << text;
  }
}

TEST(JsonTextTest, LongKeysMayBeExcluded) {
  const std::string key(20'000, 'k');
  const std::vector<std::string_view> keys = {key};
  const Grammar grammar =
      Build([&keys](GrammarBuilder& builder) { return *JsonText(builder).StringExcept(keys); });
  EXPECT_FALSE(Fits(grammar, JsonString(key)));
  EXPECT_TRUE(Fits(grammar, JsonString(key + "k")));
  EXPECT_TRUE(Fits(grammar, JsonString(key.substr(1))));
}

}  // namespace
}  // namespace longstream
