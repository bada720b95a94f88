// Directories with a tokenizer.model: what is read from this file and from the files beside it, and
// the error message for each possible fault.
#include "service/tokenizer/files/sentencepiece_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "sentencepiece_model.pb.h"
#include "service/tokenizer/files/load_tokenizer.h"
#include "service/tokenizer/tokenizer.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using sentencepiece::Model;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using Ids = std::vector<int32_t>;

constexpr int kModelVocabSize = 4096;

class SentencePieceModelTest : public testing::Test {
 protected:
  // Writes a family's golden model, changed by `edit`.
  void WriteModel(
      const std::string& family, const std::function<void(Model&)>& edit = [](Model&) {}) const {
    std::ifstream file(
        LONGSTREAM_SOURCE_DIR "/tests/golden/tokenizer/" + family + "/tokenizer.model",
        std::ios::binary);
    Model model;
    ASSERT_TRUE(model.ParseFromIstream(&file));
    edit(model);
    Write("tokenizer.model", model.SerializeAsString());
  }
  void Write(const std::string& name, const std::string& text) const {
    directory_.Write(name, text);
  }

  absl::StatusOr<std::unique_ptr<Tokenizer>> Load(int vocab_size = kModelVocabSize) const {
    return LoadTokenizer(directory_.path(), vocab_size);
  }
  std::unique_ptr<Tokenizer> Loaded() const {
    auto tokenizer = Load();
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
  }

  // Expects an error with this code and with `message` in its sentence.
  void ExpectRefused(const std::function<void(Model&)>& edit, absl::StatusCode code,
                     const char* message) const {
    WriteModel("spm_llama", edit);
    const absl::Status status = Load().status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(StartsWith(directory_.string()), HasSubstr(message)));
  }

  const TemporaryDirectory directory_;
};

Ids Encoded(const Tokenizer& tokenizer, const std::string& text) {
  const auto ids = tokenizer.Encode(text, {.parse_special = true});
  EXPECT_TRUE(ids.ok()) << ids.status();
  return ids.ok() ? *ids : Ids();
}

TEST_F(SentencePieceModelTest, NeedsNoFileBesideIt) {
  WriteModel("spm_llama");
  const auto tokenizer = Loaded();
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->kind(), "bpe");
  EXPECT_EQ(tokenizer->bos_id(), 1);
  EXPECT_EQ(tokenizer->eos_id(), 2);
  EXPECT_THAT(tokenizer->sequence_prefix(), ElementsAre(1));
  EXPECT_EQ(Encoded(*tokenizer, "<s>"), Ids{1});
  EXPECT_TRUE(tokenizer->IsSpecial(1));
  EXPECT_EQ(tokenizer->TokenBytes(1), "<s>");
  EXPECT_EQ(tokenizer->TokenBytes(3), std::string(1, '\0')) << "the first byte token";
  EXPECT_EQ(tokenizer->Decode(Encoded(*tokenizer, " def x")), " def x");
}

TEST_F(SentencePieceModelTest, KnowsUnigramModels) {
  WriteModel("spm_unigram");
  const auto tokenizer = Loaded();
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->kind(), "unigram");
  EXPECT_EQ(tokenizer->Decode(Encoded(*tokenizer, "  def   x ")), "def x");
}

// The map of the model replaces U+200B by nothing.
TEST_F(SentencePieceModelTest, PutsASpaceBeforeATextThatTheMapRemoves) {
  WriteModel("spm_unigram");
  EXPECT_EQ(Encoded(*Loaded(), "\u200b"), Ids());
  WriteModel("spm_unigram", [](Model& model) {
    model.mutable_normalizer_spec()->set_remove_extra_whitespaces(false);
  });
  EXPECT_EQ(Loaded()->Decode(Encoded(*Loaded(), "x\u200b")), "x");
  EXPECT_EQ(Encoded(*Loaded(), "\u200b").size(), 1u);
}

TEST_F(SentencePieceModelTest, IsNotReadBesideATokenizerJson) {
  WriteModel("spm_llama");
  std::ifstream file(LONGSTREAM_SOURCE_DIR "/tests/golden/tokenizer/gpt2/tokenizer.json");
  std::ostringstream text;
  text << file.rdbuf();
  Write("tokenizer.json", text.str());
  EXPECT_EQ(Loaded()->Decode(Encoded(*Loaded(), " x")), " x");
  EXPECT_THAT(Loaded()->sequence_prefix(), ElementsAre());
}

TEST_F(SentencePieceModelTest, ReadsTokenizerConfig) {
  WriteModel("spm_llama");
  Write("tokenizer_config.json", R"({
    "bos_token": {"content": "<s>"}, "eos_token": "<|end|>", "add_bos_token": false,
    "added_tokens_decoder": {
      "0": {"content": "<unk>", "special": true},
      "2000": {"content": "<|end|>", "special": true, "rstrip": true},
      "2001": {"content": "<tool>", "special": false}}})");
  const auto tokenizer = Loaded();
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_THAT(tokenizer->sequence_prefix(), ElementsAre());
  EXPECT_EQ(tokenizer->bos_id(), 1);
  EXPECT_EQ(tokenizer->eos_id(), 2000);
  EXPECT_EQ(Encoded(*tokenizer, "<|end|> \n<tool>"), (Ids{2000, 2001}));
  EXPECT_TRUE(tokenizer->IsSpecial(2000));
  EXPECT_FALSE(tokenizer->IsSpecial(2001));
}

TEST_F(SentencePieceModelTest, ReadsOlderFiles) {
  WriteModel("spm_llama");
  Write("added_tokens.json", R"({"<|end|>": 2000, "<tool>": 2001, "<x>": 2002})");
  Write("special_tokens_map.json", R"({"eos_token": "<|end|>", "bos_token": {"content": "<s>"},
    "additional_special_tokens": ["<x>"]})");
  const auto tokenizer = Loaded();
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->eos_id(), 2000);
  EXPECT_EQ(tokenizer->bos_id(), 1);
  EXPECT_TRUE(tokenizer->IsSpecial(2000));
  EXPECT_FALSE(tokenizer->IsSpecial(2001));
  EXPECT_TRUE(tokenizer->IsSpecial(2002));
}

// Other programs write lists and dictionaries into special_tokens_map.json.
TEST_F(SentencePieceModelTest, SpecialTokensAreNamedInManyForms) {
  WriteModel("spm_llama");
  Write("added_tokens.json", R"({"<a>": 2000, "<b>": 2001, "<c>": 2002, "<d>": 2003})");
  Write("special_tokens_map.json", R"({"additional_special_tokens": [{"content": "<a>"}],
    "extra_special_tokens": {"image_token": "<b>"}, "others": ["<c>"], "pad_token": null})");
  const auto tokenizer = Loaded();
  ASSERT_NE(tokenizer, nullptr);
  for (const int32_t id : {2000, 2001, 2002}) EXPECT_TRUE(tokenizer->IsSpecial(id)) << id;
  EXPECT_FALSE(tokenizer->IsSpecial(2003));
}

TEST_F(SentencePieceModelTest, SpecialTokensAreNotNestedWithoutEnd) {
  WriteModel("spm_llama");
  Write("special_tokens_map.json",
        R"({"others": )" + std::string(100, '[') + std::string(100, ']') + "}");
  EXPECT_THAT(Load().status().message(),
              HasSubstr("expected names of special tokens, found deeper nesting"));
}

TEST_F(SentencePieceModelTest, TokensBeyondTheVocabularyAreNone) {
  WriteModel("spm_llama");
  Write(
      "tokenizer_config.json",
      R"({"added_tokens_decoder": {"4095": {"content": "<last>"}, "4096": {"content": "<no>"}}})");
  Write("added_tokens.json", R"({"<no>": 4096, "<never>": 99999999999})");
  const auto tokenizer = Loaded();
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(Encoded(*tokenizer, "<last>"), Ids{4095});
  EXPECT_GT(Encoded(*tokenizer, "<no>").size(), 1u);
  EXPECT_GT(Encoded(*tokenizer, "<never>").size(), 1u);
}

TEST_F(SentencePieceModelTest, PutsSpacesAsTheConfigurationSays) {
  WriteModel("spm_llama");
  const Ids alone = Encoded(*Loaded(), "x");
  EXPECT_EQ(Encoded(*Loaded(), "<s>x"), (Ids{1, alone[0]}));
  Write("tokenizer_config.json", R"({"legacy": false})");
  EXPECT_EQ(Encoded(*Loaded(), "x"), alone);
  EXPECT_NE(Encoded(*Loaded(), "<s>x"), (Ids{1, alone[0]}));
  Write("tokenizer_config.json", R"({"add_prefix_space": false})");
  EXPECT_NE(Encoded(*Loaded(), "x"), alone);
  EXPECT_FALSE(Loaded()->puts_space_first());
}

TEST_F(SentencePieceModelTest, TellsTokenizersApart) {
  WriteModel("spm_llama");
  const uint64_t unedited = Loaded()->fingerprint();
  EXPECT_EQ(Loaded()->fingerprint(), unedited);
  WriteModel("spm_llama", [](Model& model) { model.mutable_pieces(400)->set_score(-1e6f); });
  EXPECT_NE(Loaded()->fingerprint(), unedited);
  WriteModel("spm_llama");
  Write("tokenizer_config.json", R"({"legacy": false})");
  EXPECT_NE(Loaded()->fingerprint(), unedited);
}

// An edit of the model, and a part of the error.
struct ModelRefusal {
  void (*edit)(Model& model);
  const char* message;
};

const ModelRefusal kWrongModels[] = {
    {[](Model& m) { m.clear_pieces(); }, "tokenizer.model: not a SentencePiece model"},
    {[](Model& m) { m.mutable_pieces(300)->clear_piece(); },
     "pieces[300]: expected a text, found an empty one"},
    {[](Model& m) { m.mutable_pieces(300)->set_piece(std::string(1025, 'a')); },
     "pieces[300]: expected at most 1024 bytes, found 1025"},
    {[](Model& m) { m.mutable_pieces(300)->set_piece("\xFF"); },
     "pieces[300]: expected UTF-8, found other bytes"},
    {[](Model& m) { m.mutable_pieces(300)->set_score(NAN); },
     "pieces[300]: expected a finite score, found nan"},
    {[](Model& m) { m.mutable_pieces(9)->set_piece("<0x1>"); },
     "pieces[9]: expected a byte such as <0x0A>, found \"<0x1>\""},
    {[](Model& m) {
       m.mutable_pieces(10)->set_type(Model::Piece::NORMAL);
       m.mutable_pieces(10)->set_piece("other");
     },
     "expected a piece for each byte, found none for byte 7"},
    {[](Model& m) { m.mutable_pieces(0)->set_type(Model::Piece::CONTROL); },
     "expected a piece of type UNKNOWN, found none"},
    {[](Model& m) { m.mutable_pieces(300)->set_piece(m.pieces(301).piece()); },
     "expected one id for the token"},
};

TEST_F(SentencePieceModelTest, NamesWhatIsWrong) {
  for (const auto& [edit, message] : kWrongModels) {
    ExpectRefused(edit, absl::StatusCode::kInvalidArgument, message);
  }
  WriteModel("spm_llama");
  EXPECT_THAT(Load(400).status().message(),
              HasSubstr("expected at most 400 pieces, the model's vocabulary, found more"));
  Write("tokenizer_config.json", R"({"added_tokens_decoder": {"x": {"content": "<a>"}}})");
  EXPECT_THAT(Load().status().message(),
              HasSubstr("tokenizer_config.json: added_tokens_decoder.x: expected an id as the key, "
                        "found \"x\""));
  Write("tokenizer.model", "IQ== 0\nIg== 1\n");
  Write("tokenizer_config.json", "{}");
  EXPECT_THAT(Load().status().message(), HasSubstr("not a SentencePiece model"));
}

const ModelRefusal kUnsupportedModels[] = {
    {[](Model& m) { m.mutable_trainer_spec()->set_model_type(3); },
     "trainer_spec.model_type 3 is not supported"},
    {[](Model& m) { m.mutable_trainer_spec()->set_treat_whitespace_as_suffix(true); },
     "trainer_spec.treat_whitespace_as_suffix is not supported"},
    {[](Model& m) { m.mutable_normalizer_spec()->set_escape_whitespaces(false); },
     "normalizer_spec.escape_whitespaces: false is not supported"},
    {[](Model& m) { m.mutable_denormalizer_spec()->set_precompiled_charsmap("x"); },
     "a denormalizer_spec is not supported"},
    {[](Model& m) { m.mutable_pieces(300)->set_type(Model::Piece::UNUSED); },
     "pieces[300]: an unused piece is not supported"},
};

TEST_F(SentencePieceModelTest, RefusesByNameWhatIsNotSupported) {
  for (const auto& [edit, message] : kUnsupportedModels) {
    ExpectRefused(edit, absl::StatusCode::kUnimplemented, message);
  }
}

}  // namespace
}  // namespace longstream
