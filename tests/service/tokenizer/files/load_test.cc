// Model directories: the tokenizer that each directory gives, and the error message for each
// possible fault.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "service/tokenizer/files/load_tokenizer.h"
#include "service/tokenizer/text/byte_alphabet.h"
#include "service/tokenizer/tokenizer.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr int kJsonVocabSize = 4096;

using Ids = std::vector<int32_t>;

// Each test has a model directory of its own, which is empty at first.
class LoadTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) const {
    directory_.Write(name, text);
  }
  std::filesystem::path File(const std::string& name) const { return directory_.path() / name; }

  // Writes a family's golden tokenizer, changed by `edit`.
  void WriteFamily(const std::string& family, const std::function<void(json&)>& edit) const {
    std::ifstream file(LONGSTREAM_SOURCE_DIR "/tests/golden/tokenizer/" + family +
                       "/tokenizer.json");
    json tokenizer = json::parse(file);
    edit(tokenizer);
    Write("tokenizer.json", tokenizer.dump());
  }

  absl::StatusOr<std::unique_ptr<Tokenizer>> Load(int vocab_size = kJsonVocabSize) const {
    return LoadTokenizer(directory_.path(), vocab_size);
  }

  // The golden tokenizer of a family, edited.
  std::unique_ptr<Tokenizer> Loaded(const std::string& family,
                                    const std::function<void(json&)>& edit) const {
    WriteFamily(family, edit);
    auto tokenizer = Load();
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    return *std::move(tokenizer);
  }

  // Expects an error after `edit` has changed the tokenizer.json of llama3.
  void ExpectRefused(absl::StatusCode code, const std::function<void(json&)>& edit,
                     const testing::Matcher<std::string>& message) const {
    WriteFamily("llama3", edit);
    const absl::Status status = Load().status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), message);
  }

  const TemporaryDirectory directory_;
};

// The ids are those of the library `tokenizers`: a text of which the normalizer has removed the
// beginning does not count as the beginning of the sequence.
TEST_F(LoadTest, MetaspaceBeforeTheFirstTextAndANormalizerThatStrips) {
  Write("tokenizer.json",
        R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[],)"
        R"("normalizer":{"type":"Sequence","normalizers":[)"
        R"({"type":"Replace","pattern":{"String":"x"},"content":""},)"
        R"({"type":"Strip","strip_left":true,"strip_right":true}]},)"
        R"("pre_tokenizer":{"type":"Metaspace","replacement":"\u2581","prepend_scheme":"first",)"
        R"("split":true},"post_processor":null,"decoder":{"type":"Metaspace",)"
        R"("replacement":"\u2581","prepend_scheme":"first","split":true},)"
        R"("model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0.0],["\u2581",-1.0],)"
        R"(["a",-1.0],["\u2581a",-1.5]],"byte_fallback":false}})");
  const auto tokenizer = Load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const std::pair<const char*, Ids> cases[] = {
      {"a", {3}},    {" a", {2}},      {"a a", {3, 3}}, {"xa", {2}},
      {"x  a", {2}}, {"  aa", {2, 2}}, {" ", {}},       {"ax a", {3, 3}},
  };
  for (const auto& [text, ids] : cases) EXPECT_EQ((*tokenizer)->Encode(text, {}).value(), ids);
}

void Unedited(json&) {}

// An edit that changes or removes one value of a tokenizer.json.
struct Edit {
  const char* place;  // a JSON pointer
  const char* value;  // JSON; "": removes the value

  void operator()(json& tokenizer) const {
    if (*value == '\0') {
      tokenizer = tokenizer.patch(json::array({{{"op", "remove"}, {"path", place}}}));
    } else {
      tokenizer[json::json_pointer(place)] = json::parse(value);
    }
  }
};

struct JsonRefusal {
  Edit edit;
  const char* message;
};

TEST_F(LoadTest, PlainBytesWithoutFiles) {
  const auto tokenizer = Load(300);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->kind(), "byte");
  EXPECT_EQ((*tokenizer)->vocab_size(), 300);
  EXPECT_EQ(*(*tokenizer)->Encode(std::string("h\xC3\xA9\xFF\0", 5)),
            (Ids{'h', 0xC3, 0xA9, 0xFF, 0}));
  EXPECT_EQ((*tokenizer)->Decode(Ids{'h', 0xC3, 0xA9, 0xFF, 299, -1, 1000, '!'}), "h\u00e9\uFFFD!");
  EXPECT_EQ((*tokenizer)->TokenBytes(0xFF), "\xFF");
  EXPECT_EQ((*tokenizer)->TokenBytes(256), "");
  EXPECT_FALSE((*tokenizer)->IsSpecial(0));
  EXPECT_EQ((*tokenizer)->eos_id(), std::nullopt);
  EXPECT_THAT((*tokenizer)->sequence_prefix(), ElementsAre());
}

TEST_F(LoadTest, PlainBytesNeedAVocabularyFor256) {
  EXPECT_TRUE(Load(256).ok());
  EXPECT_EQ(Load(255).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Load(255).status().message(), HasSubstr("expected vocab_size >= 256, found 255"));
}

TEST_F(LoadTest, RefusesOtherTokenizersByName) {
  Write("tekken.json", "{}");
  EXPECT_EQ(Load().status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(Load().status().message(), HasSubstr("tekken.json is not supported"));
}

TEST_F(LoadTest, ReadsTheFamilies) {
  WriteFamily("llama3", Unedited);
  Write("tokenizer_config.json",
        R"({"bos_token": "<|begin_of_text|>", "eos_token": {"content": "<|eot_id|>"}})");
  const auto tokenizer = Load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->kind(), "bpe");
  EXPECT_EQ((*tokenizer)->vocab_size(), kJsonVocabSize);
  const auto ids = (*tokenizer)->Encode("<|begin_of_text|><|eot_id|>", {.parse_special = true});
  ASSERT_TRUE(ids.ok());
  ASSERT_EQ(ids->size(), 2u);
  EXPECT_EQ((*tokenizer)->bos_id(), ids->front());
  EXPECT_EQ((*tokenizer)->eos_id(), ids->back());
  EXPECT_THAT((*tokenizer)->sequence_prefix(), ElementsAre(ids->front()));
  EXPECT_TRUE((*tokenizer)->IsSpecial(ids->back()));
  EXPECT_EQ((*tokenizer)->TokenBytes(ids->back()), "<|eot_id|>");
  EXPECT_FALSE((*tokenizer)->IsSpecial('a'));
  EXPECT_FALSE((*tokenizer)->IsSpecial(-1));
  EXPECT_EQ((*tokenizer)->TokenBytes(kJsonVocabSize - 1), "")
      << "a row of the embedding without a token";
  EXPECT_EQ((*tokenizer)->TokenBytes(-1), "");
  EXPECT_EQ((*tokenizer)->Decode(*ids), "<|begin_of_text|><|eot_id|>");
  EXPECT_EQ((*tokenizer)->Decode(*ids, {.skip_special = true}), "");
}

TEST_F(LoadTest, ReadsSpecialTokensAsTextByDefault) {
  const auto tokenizer = Loaded("qwen3", Unedited);
  const auto text = tokenizer->Encode("<|im_end|>");
  const auto special = tokenizer->Encode("<|im_end|>", {.parse_special = true});
  ASSERT_TRUE(text.ok() && special.ok());
  EXPECT_GT(text->size(), 1u);
  EXPECT_EQ(special->size(), 1u);
  EXPECT_EQ(tokenizer->Encode("<think>")->size(), 1u) << "added, but not special";
}

// A text model may have the tokenizer of a model that also reads images. The placeholder of an
// image then lies beyond the vocabulary and is not a token.
TEST_F(LoadTest, AddedTokensBeyondTheVocabularyAreNone) {
  const auto tokenizer = Loaded(
      "gemma",
      Edit{"/added_tokens/-", R"({"id": 4096, "content": "<image_soft_token>", "special": true})"});
  const auto ids = tokenizer->Encode("<image_soft_token>", {.parse_special = true});
  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_GT(ids->size(), 1u);
  EXPECT_EQ(tokenizer->Decode(*ids), "<image_soft_token>");
}

TEST_F(LoadTest, AddedTokensGiveBackTheTextTheyWereFoundIn) {
  const auto tokenizer = Loaded("flags", Unedited);
  // The added token is spelled as plain text, not in the byte alphabet, although each of its
  // characters is also a letter of that alphabet.
  const auto ids = tokenizer->Encode("caf\u00e9");
  ASSERT_TRUE(ids.ok());
  ASSERT_EQ(ids->size(), 1u);
  EXPECT_EQ(tokenizer->Decode(*ids), "cafe\u0301") << "as the file spells it";
}

TEST_F(LoadTest, NamesTheInvalidByteOfAText) {
  const auto tokenizer = Loaded("gpt2", Unedited);
  const auto ids = tokenizer->Encode("fine until\xFF here");
  EXPECT_EQ(ids.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ids.status().message(), "expected UTF-8 text, found invalid UTF-8 at byte 10");
  EXPECT_EQ(tokenizer->Encode("cut \xE2\x82").status().message(),
            "expected UTF-8 text, found invalid UTF-8 at byte 4");
  EXPECT_EQ(tokenizer->Encode("")->size(), 0u);
}

TEST_F(LoadTest, EncodesFromManyThreads) {
  const auto tokenizer = Loaded("qwen3", Unedited);
  const std::string text = "def read(self): # e\u0301tait 1234 \u4e2d\u6587 <think>  \n";
  const Ids expected = *tokenizer->Encode(text);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (int& count : wrong) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) count += *tokenizer->Encode(text) != expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, ElementsAre(0, 0, 0, 0));
}

// In the error, the message follows the file's name.
const JsonRefusal kWrongValues[] = {
    {{"/model", ""}, "model: expected an object, found nothing"},
    {{"/model/vocab", "[1, 2]"}, "model.vocab: expected an object, found an array of 2"},
    {{"/model/vocab/a", "4096"},
     "model.vocab.a: expected an id below 4096, the model's vocabulary, found 4096"},
    {{"/model/vocab/a", "-1"},
     "model.vocab.a: expected an id below 4096, the model's vocabulary, found -1"},
    {{"/model/vocab/a", "0"}, R"(expected one token for id 0, found "!" and "a")"},
    {{"/model/merges/3", R"("abc")"},
     R"(model.merges[3]: expected two tokens with one space between, found "abc")"},
    {{"/model/merges/3", R"(["a", "b", "c"])"},
     "model.merges[3]: expected a pair of tokens, found an array of 3"},
    {{"/model/ignore_merges", R"("yes")"},
     R"(model.ignore_merges: expected true or false, found "yes")"},
    {{"/added_tokens/0/id", "7"},
     R"(expected one token for id 7, found "(" and "<|begin_of_text|>")"},
    {{"/pre_tokenizer/pretokenizers/0/behavior", R"("Odd")"},
     R"(pre_tokenizer.pretokenizers[0].behavior: expected Isolated, Removed, Contiguous, MergedWithPrevious or MergedWithNext, found "Odd")"},
    {{"/version", R"("2.0")"}, R"(version: expected "1.0", found "2.0")"},
    {{"/post_processor",
      R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}]})"},
     "post_processor.special_tokens.<s>.ids: expected the ids of a token in front of a text, found "
     "nothing"},
};

TEST_F(LoadTest, NamesFileKeyExpectedAndFound) {
  for (const auto& [edit, message] : kWrongValues) {
    SCOPED_TRACE(std::string(edit.place) + " = " + edit.value);
    ExpectRefused(absl::StatusCode::kInvalidArgument, edit,
                  File("tokenizer.json").string() + ": " + message);
  }
  WriteFamily("llama3", [](json& t) { t["added_tokens"][1] = t["added_tokens"][0]; });
  EXPECT_THAT(
      std::string(Load().status().message()),
      HasSubstr(R"(: added_tokens: expected each text once, found "<|begin_of_text|>" for ids )"));
}

// In the error, "is not supported" follows the message.
const JsonRefusal kUnsupported[] = {
    {{"/model/type", R"("WordPiece")"}, R"(model.type: model type "WordPiece")"},
    {{"/model/type", R"("Unigram")"}, "model.type: a Unigram model with ByteLevel"},
    {{"/model/dropout", "0.1"}, "model.dropout: dropout"},
    {{"/model/end_of_word_suffix", R"("</w>")"}, "a end_of_word_suffix"},
    {{"/normalizer", R"({"type": "Lowercase"})"}, R"(normalizer.type: normalizer "Lowercase")"},
    {{"/normalizer", R"({"type": "Sequence", "normalizers": [{"type": "Nmt"}]})"},
     R"(normalizer.normalizers[0].type: normalizer "Nmt")"},
    {{"/pre_tokenizer/pretokenizers/0/type", R"("Punctuation")"}, R"(pre-tokenizer "Punctuation")"},
    {{"/pre_tokenizer/pretokenizers/1", ""}, "a decoder ByteLevel without the pre-tokenizer"},
    {{"/pre_tokenizer/pretokenizers/-",
      R"({"type": "Split", "pattern": {"String": "a"}, "behavior": "Isolated"})"},
     R"(after ByteLevel a pre-tokenizer "Split")"},
    {{"/pre_tokenizer/pretokenizers/0/pattern/Regex", R"("\\w+")"},
     R"(uses the escape \w at byte 0, which)"},
    {{"/decoder", R"({"type": "Metaspace"})"}, "decoder: a decoder that is not one ByteLevel"},
    {{"/decoder", "null"}, "decoder: a decoder that is not one ByteLevel"},
    {{"/post_processor", R"({"type": "BertProcessing"})"}, R"(post-processor "BertProcessing")"},
};

TEST_F(LoadTest, RefusesByNameWhatIsNotSupported) {
  constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;
  for (const auto& [edit, what] : kUnsupported) {
    SCOPED_TRACE(std::string(edit.place) + " = " + edit.value);
    ExpectRefused(
        kUnimplemented, edit,
        AllOf(StartsWith(directory_.string()), HasSubstr(std::string(what) + " is not supported")));
  }
  const auto nest = [](json& t) {
    for (int i = 0; i < 20; ++i) {
      t["pre_tokenizer"] = {{"type", "Sequence"},
                            {"pretokenizers", json::array({t["pre_tokenizer"]})}};
    }
  };
  ExpectRefused(kUnimplemented, nest,
                HasSubstr("a Sequence that is nested so deeply is not supported"));
}

TEST_F(LoadTest, ReportsDamagedFiles) {
  Write("tokenizer.json", "{\"model\": ");
  EXPECT_EQ(Load().status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Load().status().message()),
              AllOf(StartsWith(File("tokenizer.json").string() + ": not JSON"),
                    HasSubstr("line 1, column 11")));
  Write("tokenizer.json", "");
  EXPECT_THAT(Load().status().message(), HasSubstr("not JSON"));
  Write("tokenizer.json", "[1, 2]");
  EXPECT_THAT(Load().status().message(), HasSubstr("expected an object, found an array of 2"));
  Write("tokenizer.json", std::string(1'000'000, '['));
  EXPECT_THAT(Load().status().message(), HasSubstr("not JSON"));
  std::filesystem::remove(File("tokenizer.json"));
  std::filesystem::create_directory(File("tokenizer.json"));
  EXPECT_EQ(Load().status().message(), File("tokenizer.json").string() + ": is not a regular file");
}

// A checkpoint that was cloned without Git LFS has pointers in place of files.
TEST_F(LoadTest, ReportsPointersOfGitLfs) {
  for (const char* name : {"tokenizer.json", "tokenizer.model"}) {
    Write(name, "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n");
    EXPECT_EQ(Load().status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(Load().status().message(),
              File(name).string() + ": expected the file itself, found a pointer of Git LFS to it");
    std::filesystem::remove(File(name));
  }
}

// A directory of the hub's cache whose blobs were deleted has broken links. It must not be taken
// for a directory without a tokenizer.
TEST_F(LoadTest, ReportsLinksThatLeadNowhere) {
  for (const char* name : {"tokenizer.json", "tokenizer.model", "tokenizer_config.json"}) {
    if (std::string_view(name) == "tokenizer_config.json") WriteFamily("llama3", Unedited);
    std::filesystem::create_symlink("../blobs/7", File(name));
    EXPECT_EQ(Load().status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(Load().status().message(),
              File(name).string() +
                  ": is a link to ../blobs/7, which does not exist: the directory is incomplete");
    std::filesystem::remove(File(name));
  }
}

// Such a file is refused before it is read: it takes no space on the disk.
TEST_F(LoadTest, RefusesFilesThatAreTooLarge) {
  WriteFamily("llama3", Unedited);
  for (const char* name : {"tokenizer.json", "tokenizer.model", "tokenizer_config.json"}) {
    if (std::string_view(name) == "tokenizer_config.json") WriteFamily("llama3", Unedited);
    if (!std::filesystem::exists(File(name))) Write(name, "");
    std::filesystem::resize_file(File(name), uintmax_t{3} << 30);
    const absl::Status status = Load().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_EQ(status.message(),
              File(name).string() + ": 3221225472 bytes, expected at most 67108864");
    std::filesystem::remove(File(name));
  }
}

TEST_F(LoadTest, ReportsSpecialTokensThatAreNone) {
  WriteFamily("gpt2", Unedited);
  Write("tokenizer_config.json", R"({"eos_token": "<|im_end|>"})");
  EXPECT_EQ(Load().status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      Load().status().message(),
      HasSubstr("expected the eos_token of tokenizer_config.json, \"<|im_end|>\", among the "
                "tokens, but it is not there"));
  Write("tokenizer_config.json", R"({"eos_token": 5})");
  EXPECT_THAT(Load().status().message(),
              HasSubstr("tokenizer_config.json: eos_token: expected a string, found 5"));
}

TEST_F(LoadTest, FingerprintsStayWhatTheyAre) {
  json tokenizer = {
      {"model", {{"type", "BPE"}, {"vocab", {{"Ġa", 256}}}, {"merges", json::array({"Ġ a"})}}},
      {"added_tokens", json::array({{{"id", 257}, {"content", "<end>"}, {"special", true}}})},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
      {"decoder", {{"type", "ByteLevel"}}},
  };
  for (int byte = 0; byte < 256; ++byte) {
    tokenizer["model"]["vocab"][ByteToAlphabet(static_cast<unsigned char>(byte))] = byte;
  }
  Write("tokenizer.json", tokenizer.dump());
  const auto bpe = Load();
  ASSERT_TRUE(bpe.ok()) << bpe.status();
  // Snapshots of sessions contain these fingerprints. If a fingerprint changes, all such snapshots
  // become unusable.
  EXPECT_EQ((*bpe)->fingerprint(), 6849964927544521530u);
  std::filesystem::remove(File("tokenizer.json"));
  EXPECT_EQ((*Load())->fingerprint(), 12207265571551811227u);
}

TEST_F(LoadTest, FingerprintsTellTokenizersApart) {
  const uint64_t unedited = Loaded("llama3", Unedited)->fingerprint();
  const auto other_form = [](json& t) {
    for (json& merge : t["model"]["merges"]) {
      merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
    }
    t["truncation"] = nullptr;
  };
  EXPECT_EQ(Loaded("llama3", other_form)->fingerprint(), unedited);

  std::set<uint64_t> fingerprints = {unedited};
  const auto expect_new = [&](const std::function<void(json&)>& edit) {
    EXPECT_TRUE(fingerprints.insert(Loaded("llama3", edit)->fingerprint()).second);
  };
  const Edit edits[] = {
      {"/model/vocab/new", "2000"},
      {"/model/merges/5", ""},
      {"/model/ignore_merges", "false"},
      {"/added_tokens/0/lstrip", "true"},
      {"/added_tokens/0/special", "false"},
      {"/added_tokens/0/content", R"("<other>")"},
      {"/normalizer", R"({"type": "NFC"})"},
      {"/normalizer", R"({"type": "NFD"})"},
      {"/normalizer", R"({"type": "NFKC"})"},
      {"/normalizer", R"({"type": "NFKD"})"},
      {"/pre_tokenizer/pretokenizers/0/invert", "true"},
      {"/pre_tokenizer/pretokenizers/0/behavior", R"("Removed")"},
      {"/pre_tokenizer/pretokenizers/0/pattern/Regex", R"("a")"},
      {"/pre_tokenizer/pretokenizers/1/use_regex", "true"},
      {"/pre_tokenizer/pretokenizers/1/add_prefix_space", "true"},
  };
  for (const Edit& edit : edits) {
    SCOPED_TRACE(edit.place);
    expect_new(edit);
  }
  expect_new([](json& t) { std::swap(t["model"]["merges"][0], t["model"]["merges"][1]); });
}

}  // namespace
}  // namespace longstream
