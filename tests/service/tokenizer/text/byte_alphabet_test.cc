// The byte alphabet, against letters of published vocabularies.
#include "service/tokenizer/text/byte_alphabet.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>

namespace longstream {
namespace {

TEST(ByteAlphabet, WritesKnownBytes) {
  EXPECT_EQ(ByteToAlphabet(' '), "Ġ");
  EXPECT_EQ(ByteToAlphabet('\n'), "Ċ");
  EXPECT_EQ(ByteToAlphabet('\t'), "ĉ");
  EXPECT_EQ(ByteToAlphabet('\0'), "Ā");
  EXPECT_EQ(ByteToAlphabet('!'), "!");
  EXPECT_EQ(ByteToAlphabet('~'), "~");
  EXPECT_EQ(ByteToAlphabet(0x7F), "ġ");
  EXPECT_EQ(ByteToAlphabet(0xA0), "ł");
  EXPECT_EQ(ByteToAlphabet(0xA1), "¡");
  EXPECT_EQ(ByteToAlphabet(0xAD), "Ń");
  EXPECT_EQ(ByteToAlphabet(0xFF), "ÿ");
}

TEST(ByteAlphabet, IsReadBack) {
  std::set<std::string> letters;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string letter = ByteToAlphabet(static_cast<unsigned char>(byte));
    letters.insert(letter);
    EXPECT_EQ(AlphabetToBytes(letter), std::string(1, static_cast<char>(byte)));
  }
  EXPECT_EQ(letters.size(), 256u);
  EXPECT_EQ(AlphabetToBytes("ĠhÃ©"), " h\u00e9");
  EXPECT_EQ(AlphabetToBytes(""), "");
}

TEST(ByteAlphabet, KnowsWhatIsNotOfIt) {
  EXPECT_EQ(AlphabetToBytes("a b"), std::nullopt) << "a space is written Ġ";
  EXPECT_EQ(AlphabetToBytes("\u00ad"), std::nullopt);
  EXPECT_EQ(AlphabetToBytes("\u0144"), std::nullopt) << "one behind the last letter";
  EXPECT_EQ(AlphabetToBytes("<｜x｜>"), std::nullopt);
}

}  // namespace
}  // namespace longstream
