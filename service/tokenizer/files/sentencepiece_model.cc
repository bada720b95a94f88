// Converts the pieces of a SentencePiece model to a vocabulary, merges and scores.
#include "service/tokenizer/files/sentencepiece_model.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "sentencepiece_model.pb.h"
#include "service/tokenizer/files/model_file.h"
#include "service/tokenizer/files/piece_merges.h"
#include "service/tokenizer/models/byte_tokens.h"
#include "service/tokenizer/text/utf8.h"

namespace longstream {
namespace {

using sentencepiece::Model;
using ModelPiece = sentencepiece::Model::Piece;

constexpr const char* kSpaceMark = "\u2581";  // SentencePiece's mark for a space
// Bounds the number of merges of a piece: AddPieceMerges tries to cut a piece at each of its bytes.
constexpr size_t kMaxPieceBytes = 1024;
constexpr int kUnigram = 1;
constexpr int kBpe = 2;

absl::Status Invalid(const std::string& sentence) { return absl::InvalidArgumentError(sentence); }

absl::Status Unsupported(const std::string& what) {
  return absl::UnimplementedError(absl::StrCat(what, " is not supported"));
}

absl::StatusOr<Model> Parse(const std::string& bytes) {
  Model model;
  if (!model.ParseFromString(bytes) || model.pieces().empty()) {
    return Invalid("not a SentencePiece model");
  }
  return model;
}

absl::Status CheckOptions(const Model& model) {
  const int type = model.trainer_spec().model_type();
  if (type != kUnigram && type != kBpe) {
    return Unsupported(absl::StrCat("trainer_spec.model_type ", type));
  }
  if (model.trainer_spec().treat_whitespace_as_suffix()) {
    return Unsupported("trainer_spec.treat_whitespace_as_suffix");
  }
  if (!model.normalizer_spec().escape_whitespaces()) {
    return Unsupported("normalizer_spec.escape_whitespaces: false");
  }
  if (!model.denormalizer_spec().precompiled_charsmap().empty()) {
    return Unsupported("a denormalizer_spec");
  }
  return absl::OkStatus();
}

absl::Status CheckPiece(const ModelPiece& piece, int index, int vocab_size) {
  const auto fail = [index](const std::string& expected, const std::string& found) {
    return Invalid(absl::StrCat("pieces[", index, "]: expected ", expected, ", found ", found));
  };
  if (index >= vocab_size) {
    return Invalid(absl::StrCat("expected at most ", vocab_size,
                                " pieces, the model's vocabulary, found more"));
  }
  const std::string& text = piece.piece();
  if (text.empty()) return fail("a text", "an empty one");
  if (text.size() > kMaxPieceBytes) {
    return fail(absl::StrCat("at most ", kMaxPieceBytes, " bytes"), absl::StrCat(text.size()));
  }
  if (ValidUtf8Prefix(text) != text.size()) return fail("UTF-8", "other bytes");
  if (!std::isfinite(piece.score())) {
    return fail("a finite score", absl::StrCat(piece.score()));
  }
  if (piece.type() == ModelPiece::UNUSED) {
    return Unsupported(absl::StrCat("pieces[", index, "]: an unused piece"));
  }
  if (piece.type() == ModelPiece::BYTE && !ByteOfToken(text)) {
    return fail("a byte such as <0x0A>", absl::StrCat("\"", text, "\""));
  }
  return absl::OkStatus();
}

// Reads the vocabulary, its scores in the same order, the reserved tokens and the added tokens.
absl::Status ReadPieces(const Model& model, int vocab_size, TokenizerSpec* spec) {
  struct Scored {
    std::string text;
    int32_t id;
    bool is_symbol;
    float score;
  };
  std::vector<Scored> pieces;
  float least = std::numeric_limits<float>::max();
  for (int32_t id = 0; id < model.pieces_size(); ++id) {
    const ModelPiece& piece = model.pieces(id);
    if (absl::Status status = CheckPiece(piece, id, vocab_size); !status.ok()) return status;
    const bool is_symbol = piece.type() == ModelPiece::USER_DEFINED;
    if (is_symbol || piece.type() == ModelPiece::NORMAL) {
      pieces.push_back({piece.piece(), id, is_symbol, piece.score()});
      if (is_symbol) continue;
      least = std::min(least, piece.score());
      continue;
    }
    spec->reserved.emplace_back(piece.piece(), id);
    if (piece.type() == ModelPiece::BYTE) continue;
    if (piece.type() == ModelPiece::UNKNOWN) spec->unk_id = id;
    AddedToken token;
    token.id = id;
    token.content = piece.piece();
    token.special = true;
    spec->added_tokens.push_back(std::move(token));
  }
  std::sort(pieces.begin(), pieces.end(),
            [](const Scored& a, const Scored& b) { return a.text < b.text; });
  for (Scored& piece : pieces) {
    // The score of a symbol in the model does not count. The library gives symbols scores that are
    // greater than those of other pieces, which are logarithms of probabilities. So a symbol is
    // chosen unless it overlaps other tokens.
    constexpr double kScoreOfByte = 0.1;
    const auto of_symbol =
        static_cast<float>(kScoreOfByte * static_cast<double>(piece.text.size() - 1));
    spec->scores.push_back(piece.is_symbol ? of_symbol : piece.score);
    if (piece.is_symbol) spec->symbols.push_back(piece.text);
    spec->vocabulary.emplace_back(std::move(piece.text), piece.id);
  }
  constexpr float kUnknownPenalty = 10;
  spec->unk_score = least - kUnknownPenalty;
  if (spec->unk_id) return absl::OkStatus();
  return Invalid("expected a piece of type UNKNOWN, found none");
}

void ReadNormalizer(const Model& model, const TokenizerConfig& config, TokenizerSpec* spec) {
  using Kind = NormalizerStep::Kind;
  const auto add = [spec](Kind kind) -> NormalizerStep& {
    NormalizerStep& step = spec->normalizer.emplace_back();
    step.kind = kind;
    return step;
  };
  const sentencepiece::NormalizerSpec& normalizer = model.normalizer_spec();
  // The step also keeps the spaces inside symbols.
  const bool has_spaces =
      std::any_of(spec->symbols.begin(), spec->symbols.end(),
                  [](const std::string& symbol) { return symbol.find(' ') != std::string::npos; });
  if (!normalizer.precompiled_charsmap().empty() || has_spaces) {
    add(Kind::kSentencePiece).text = normalizer.precompiled_charsmap();
  }
  if (normalizer.remove_extra_whitespaces()) add(Kind::kCollapseSpaces);
  const bool prefix = normalizer.add_dummy_prefix() && config.add_prefix_space;
  if (prefix) {
    NormalizerStep& step = add(Kind::kPrepend);
    step.text = kSpaceMark;
    step.scheme = config.legacy ? PrependScheme::kAlways : PrependScheme::kFirst;
    // If the map removes a whole text, the library removes the prefix only as an extra space.
    step.to_emptied =
        !normalizer.precompiled_charsmap().empty() && !normalizer.remove_extra_whitespaces();
  }
  NormalizerStep& spaces = add(Kind::kReplace);
  spaces.pattern = {" ", true};
  spaces.text = kSpaceMark;

  spec->decoder.replacements = {{kSpaceMark, " "}};
  spec->decoder.byte_fallback = spec->byte_fallback;
  if (normalizer.remove_extra_whitespaces()) {
    spec->decoder.strip_spaces = std::numeric_limits<size_t>::max();
  } else if (prefix) {
    spec->decoder.strip_spaces = 1;
  }
}

absl::Status CheckBytes(const TokenizerSpec& spec) {
  if (!spec.byte_fallback) return absl::OkStatus();
  const auto ids = ByteTokens(spec);
  const auto missing = std::find(ids.begin(), ids.end(), kNoId);
  if (missing == ids.end()) return absl::OkStatus();
  return Invalid(absl::StrCat("trainer_spec.byte_fallback: expected a piece for each byte, found ",
                              "none for byte ", missing - ids.begin()));
}

// Adds the tokens of the configuration files. If such a file and the model have the same token, the
// flags of the file count.
void AddTokens(const TokenizerConfig& config, TokenizerSpec* spec) {
  for (const AddedToken& token : config.added_tokens) {
    const auto same =
        std::find_if(spec->added_tokens.begin(), spec->added_tokens.end(),
                     [&](const AddedToken& known) { return known.content == token.content; });
    if (same != spec->added_tokens.end() && same->id == token.id) {
      *same = token;
    } else {
      spec->added_tokens.push_back(token);
    }
  }
}

// If the configuration sets no name and the model has the control token `piece`, sets *name to
// `piece`.
void SetName(const std::string& piece, const TokenizerSpec& spec,
             std::optional<std::string>* name) {
  if (name->has_value()) return;
  for (const AddedToken& token : spec.added_tokens) {
    if (token.content == piece) *name = piece;
  }
}

void SetSequencePrefix(const TokenizerConfig& config, TokenizerSpec* spec) {
  if (!config.add_bos || !config.names.bos) return;
  for (const AddedToken& token : spec->added_tokens) {
    if (token.content == *config.names.bos) spec->sequence_prefix = {token.id};
  }
}

absl::StatusOr<TokenizerSpec> ReadModel(const std::string& bytes, int vocab_size,
                                        TokenizerConfig* config) {
  const absl::StatusOr<Model> model = Parse(bytes);
  if (!model.ok()) return model.status();
  if (absl::Status status = CheckOptions(*model); !status.ok()) return status;
  TokenizerSpec spec;
  if (absl::Status status = ReadPieces(*model, vocab_size, &spec); !status.ok()) return status;
  spec.byte_fallback = model->trainer_spec().byte_fallback();
  spec.fuse_unk = true;
  if (absl::Status status = CheckBytes(spec); !status.ok()) return status;
  if (model->trainer_spec().model_type() == kUnigram) {
    spec.model = TokenizerSpec::Model::kUnigram;
    spec.single_precision = true;
  } else {
    if (absl::Status status = AddPieceMerges(&spec); !status.ok()) return status;
    spec.scores.clear();
  }
  ReadNormalizer(*model, *config, &spec);
  AddTokens(*config, &spec);
  SetName(model->trainer_spec().bos_piece(), spec, &config->names.bos);
  SetName(model->trainer_spec().eos_piece(), spec, &config->names.eos);
  SetSequencePrefix(*config, &spec);
  return spec;
}

}  // namespace

absl::StatusOr<TokenizerSpec> ReadSentencePieceModel(const std::filesystem::path& path,
                                                     int vocab_size, TokenizerConfig* config) {
  const absl::StatusOr<std::string> bytes = ReadModelFile(path);
  if (!bytes.ok()) return bytes.status();
  absl::StatusOr<TokenizerSpec> spec = ReadModel(*bytes, vocab_size, config);
  if (spec.ok()) return spec;
  return absl::Status(spec.status().code(),
                      absl::StrCat(path.string(), ": ", spec.status().message()));
}

}  // namespace longstream
