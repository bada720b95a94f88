// Optional C++ code for a plugin's side of the ABI. It turns exceptions into codes and sentences,
// fills structures of other minor versions, and makes the checks of a batch that every backend
// needs. Header-only. All functions are thread-safe.
#ifndef LONGSTREAM_BACKENDS_API_PLUGIN_H_
#define LONGSTREAM_BACKENDS_API_PLUGIN_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "backends/api/backend.h"

namespace longstream {

// Thrown inside a plugin. It never leaves the plugin: Guarded turns it into a code and a sentence.
struct Failure {
  ls_code code;
  std::string text;
};

// Throws Failure unless `condition` holds.
inline void Require(bool condition, ls_code code, std::string text) {
  if (!condition) throw Failure{code, std::move(text)};
}

// Throws Failure unless `segment` is a kind of segment (LS_SEGMENT_*).
inline void RequireSegment(int32_t segment) {
  Require(
      segment == LS_SEGMENT_SPAN || segment == LS_SEGMENT_FIXED, LS_INVALID_ARGUMENT,
      "segment: expected LS_SEGMENT_SPAN or LS_SEGMENT_FIXED, found " + std::to_string(segment));
}

// Copies as much of `text` as fits to `error`, and returns `code`.
inline ls_code Report(ls_code code, const std::string& text, ls_error error) {
  if (error.text != nullptr && error.capacity > 0) {
    const size_t size = std::min(text.size(), error.capacity - 1);
    std::memcpy(error.text, text.data(), size);
    error.text[size] = '\0';
  }
  return code;
}

// Calls body() and returns LS_OK. If body() throws, writes the sentence and returns the code.
template <typename Body>
ls_code Guarded(ls_error error, Body&& body) noexcept {
  try {
    body();
    return LS_OK;
  } catch (const Failure& failure) {
    return Report(failure.code, failure.text, error);
  } catch (const std::exception& exception) {
    return Report(LS_INTERNAL, exception.what(), error);
  } catch (...) {
    return Report(LS_INTERNAL, "an exception of unknown type", error);
  }
}

// Fills the caller's structure: copies the fields that its struct_size covers.
template <typename Structure>
void Fill(Structure* out, Structure value) {
  value.struct_size = out->struct_size;
  std::memcpy(out, &value, std::min<size_t>(out->struct_size, sizeof(Structure)));
}

// Does nothing if `condition` holds. Otherwise throws Failure "<field>: expected <expected>, found
// <found>". The sentence is built only in that case.
template <typename Found>
void RequireField(bool condition, const char* field, Found found, const char* expected) {
  if (condition) return;
  char text[32];
  std::snprintf(text, sizeof(text), "%.10g", static_cast<double>(found));
  throw Failure{LS_INVALID_ARGUMENT,
                std::string(field) + ": expected " + expected + ", found " + text};
}

// Throws Failure unless `token` is in [0, vocabulary).
inline void RequireToken(const char* field, int32_t token, int32_t vocabulary) {
  if (token >= 0 && token < vocabulary) return;
  throw Failure{LS_INVALID_ARGUMENT, std::string(field) + ": expected a token id of 0 ... " +
                                         std::to_string(vocabulary - 1) + ", found " +
                                         std::to_string(token)};
}

// The mask of allowed tokens; nullptr if every token is allowed. A host of an earlier minor version
// has no such field, so nothing behind its struct_size is read.
inline const uint32_t* AllowedTokens(const ls_sampling& sampling) {
  return sampling.struct_size >= LS_SAMPLING_SIZE_1_4 ? sampling.allowed : nullptr;
}

// Words of a mask of allowed tokens.
inline size_t MaskWords(int64_t vocabulary) { return (static_cast<size_t>(vocabulary) + 31) / 32; }

// Throws Failure unless every value is in the range that ls_sampling states.
inline void CheckSampling(const ls_sampling& sampling, int32_t vocabulary) {
  const ls_sampling& s = sampling;
  // NaN fails each of these comparisons.
  RequireField(std::isfinite(s.temperature) && s.temperature >= 0, "temperature", s.temperature,
               "a number >= 0");
  RequireField(s.top_k >= 0, "top_k", s.top_k, "0 (off) or more");
  RequireField(s.top_p > 0 && s.top_p <= 1, "top_p", s.top_p, "a number in (0, 1]");
  RequireField(s.min_p >= 0 && s.min_p <= 1, "min_p", s.min_p, "a number in [0, 1]");
  RequireField(std::isfinite(s.repetition_penalty) && s.repetition_penalty > 0,
               "repetition_penalty", s.repetition_penalty, "a number > 0");
  RequireField(std::isfinite(s.presence_penalty), "presence_penalty", s.presence_penalty,
               "a number");
  RequireField(std::isfinite(s.frequency_penalty), "frequency_penalty", s.frequency_penalty,
               "a number");
  for (uint32_t i = 0; i < s.num_history; ++i) {
    const ls_token_count& count = s.history[i];
    RequireToken("history", count.token, vocabulary);
    RequireField(count.generated >= 0 && count.total >= count.generated, "history.generated",
                 count.generated, "0 ... total");
  }
  for (uint32_t i = 0; i < s.num_bias; ++i) {
    RequireToken("bias", s.bias[i].token, vocabulary);
    RequireField(s.bias[i].bias < HUGE_VALF, "bias", s.bias[i].bias,
                 "a finite number or -infinity");
  }
}

// Checks one entry by the rules of ls_backend.submit; throws Failure. Does not check that history
// and bias list each token once, because BatchCheck does. Does not check what depends on the
// sequence, because the backend must: its reservation, and whether there is a token for which
// LS_TOKEN_FROM_PREVIOUS can stand.
inline void CheckEntry(const ls_batch_entry& entry, int32_t vocabulary, uint64_t capabilities) {
  const auto is_rows = [](int32_t rows) { return rows >= LS_ROWS_NONE && rows <= LS_ROWS_ALL; };
  RequireField(entry.sequence != nullptr, "sequence", 0, "a sequence");
  RequireField(entry.tokens != nullptr && entry.num_tokens >= 1, "tokens",
               entry.tokens == nullptr ? 0 : entry.num_tokens, "at least one");
  RequireField(entry.is_decode == 0 || entry.num_tokens == 1, "tokens", entry.num_tokens,
               "one in a decode entry");
  RequireField(is_rows(entry.log_prob_rows), "log_prob_rows", entry.log_prob_rows,
               "none, last or all");
  RequireField(is_rows(entry.logit_rows), "logit_rows", entry.logit_rows, "none, last or all");
  RequireField(entry.num_top <= LS_MAX_TOP && entry.num_top <= static_cast<uint32_t>(vocabulary),
               "num_top", entry.num_top, "at most LS_MAX_TOP and the vocabulary");
  const bool from_previous = entry.is_decode != 0 && entry.tokens[0] == LS_TOKEN_FROM_PREVIOUS;
  for (uint32_t i = 0; i < entry.num_tokens && !from_previous; ++i) {
    if (entry.tokens[i] >= 0 && entry.tokens[i] < vocabulary) continue;
    throw Failure{LS_INVALID_ARGUMENT, "token " + std::to_string(entry.tokens[i]) + " at index " +
                                           std::to_string(i) + ": expected 0 ... " +
                                           std::to_string(vocabulary - 1)};
  }
  const uint32_t num_targets = entry.targets == nullptr              ? 0
                               : entry.log_prob_rows == LS_ROWS_ALL  ? entry.num_tokens
                               : entry.log_prob_rows == LS_ROWS_LAST ? 1
                                                                     : 0;
  for (uint32_t i = 0; i < num_targets; ++i) {
    if (entry.targets[i] != -1) RequireToken("targets", entry.targets[i], vocabulary);
  }
  if (entry.sampling != nullptr) CheckSampling(*entry.sampling, vocabulary);

  const bool wants_all = entry.log_prob_rows == LS_ROWS_ALL || entry.logit_rows == LS_ROWS_ALL;
  Require(!wants_all || (capabilities & LS_CAP_SCORE) != 0, LS_UNIMPLEMENTED,
          "outputs of every row: this backend lacks scoring");
  Require(!from_previous || (capabilities & LS_CAP_IN_FLIGHT_TOKENS) != 0, LS_UNIMPLEMENTED,
          "LS_TOKEN_FROM_PREVIOUS: this backend lacks in-flight tokens");
  const bool has_mask = entry.sampling != nullptr && AllowedTokens(*entry.sampling) != nullptr;
  if (has_mask && (capabilities & LS_CAP_ALLOWED_TOKENS) == 0) {
    throw Failure{LS_UNIMPLEMENTED, "allowed: this backend lacks masks of allowed tokens"};
  }
}

// Checks max_batch_tokens and max_batch_sequences by the rules of ls_model_options; throws Failure.
inline void CheckBatchLimits(const ls_model_options& options) {
  const auto require = [](const char* name, uint32_t value, uint32_t most) {
    Require(value >= 1 && value <= most, LS_INVALID_ARGUMENT,
            std::string(name) + ": expected 1 ... " + std::to_string(most) + ", found " +
                std::to_string(value));
  };
  require("max_batch_tokens", options.max_batch_tokens, LS_MAX_BATCH_TOKENS);
  require("max_batch_sequences", options.max_batch_sequences, LS_MAX_BATCH_SEQUENCES);
}

// Checks a batch and its entries by the rules of ls_backend.submit. Allocates its scratch once,
// because a step must not run out of memory. Not thread-safe.
class BatchCheck {
 public:
  BatchCheck(uint32_t max_sequences, uint32_t max_tokens, int32_t vocabulary, uint64_t capabilities)
      : max_sequences_(max_sequences),
        max_tokens_(max_tokens),
        vocabulary_(vocabulary),
        capabilities_(capabilities),
        last_list_(static_cast<size_t>(vocabulary)) {
    sequences_.reserve(max_sequences);
  }

  // Throws Failure.
  void Check(const ls_batch& batch) {
    if (batch.num_entries < 1 || batch.num_entries > max_sequences_) {
      throw Failure{LS_INVALID_ARGUMENT, "entries: expected 1 ... " +
                                             std::to_string(max_sequences_) + ", found " +
                                             std::to_string(batch.num_entries)};
    }
    sequences_.clear();
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < batch.num_entries; ++i) {
      const ls_batch_entry& entry = batch.entries[i];
      CheckEntry(entry, vocabulary_, capabilities_);
      if (entry.sampling != nullptr) {
        RequireDistinct("history", entry.sampling->history, entry.sampling->num_history);
        RequireDistinct("bias", entry.sampling->bias, entry.sampling->num_bias);
      }
      sequences_.push_back(entry.sequence);
      tokens += entry.num_tokens;
    }
    if (tokens > max_tokens_) {
      throw Failure{LS_INVALID_ARGUMENT, "tokens: expected at most " + std::to_string(max_tokens_) +
                                             " in a batch, found " + std::to_string(tokens)};
    }
    std::sort(sequences_.begin(), sequences_.end());
    Require(std::adjacent_find(sequences_.begin(), sequences_.end()) == sequences_.end(),
            LS_INVALID_ARGUMENT, "entries: a sequence twice");
  }

 private:
  // If each token is listed once, the items may be applied in any order and on any threads.
  template <typename Item>
  void RequireDistinct(const char* name, const Item* items, uint32_t count) {
    ++num_lists_;
    for (uint32_t i = 0; i < count; ++i) {
      uint64_t& last_list = last_list_[static_cast<size_t>(items[i].token)];
      if (last_list == num_lists_) {
        throw Failure{LS_INVALID_ARGUMENT, std::string(name) + ": the token " +
                                               std::to_string(items[i].token) + " twice"};
      }
      last_list = num_lists_;
    }
  }

  const uint32_t max_sequences_;
  const uint32_t max_tokens_;
  const int32_t vocabulary_;
  const uint64_t capabilities_;
  std::vector<const ls_sequence*> sequences_;  // the sequences of the batch
  uint64_t num_lists_ = 0;                     // lists that RequireDistinct has seen
  std::vector<uint64_t> last_list_;            // [vocabulary] the last list with this token
};

// Whether a mask allows more than `limit` tokens. Reads no further than it must, because most masks
// are large and most limits are 0.
inline bool AllowsMoreThan(const uint32_t* allowed, int32_t vocabulary, int64_t limit) {
  const size_t words = MaskWords(vocabulary);
  const uint32_t last = ~uint32_t{0} >> (words * 32 - static_cast<size_t>(vocabulary));
  int64_t count = 0;
  for (size_t i = 0; i < words && count <= limit; ++i) {
    const uint32_t word = i + 1 < words ? allowed[i] : allowed[i] & last;
    if (word != 0) count += std::popcount(word);
  }
  return count > limit;
}

// The message of a result whose entry could draw no token from finite logits.
inline const char* WhyNoToken(const ls_sampling& sampling, int32_t vocabulary) {
  const uint32_t* allowed = AllowedTokens(sampling);
  // Whether bias bans a token that could be drawn otherwise.
  const auto is_ban = [allowed](const ls_logit_bias& bias) {
    const auto token = static_cast<uint32_t>(bias.token);
    return bias.bias == -HUGE_VALF &&
           (allowed == nullptr || (allowed[token / 32] >> (token % 32) & 1) != 0);
  };
  const auto bans = std::count_if(sampling.bias, sampling.bias + sampling.num_bias, is_ban);
  if (allowed == nullptr) {
    return bans == vocabulary
               ? "bias: every token is banned"
               : "penalties: with bias they turn logits into NaN, or all into -infinity";
  }
  if (AllowsMoreThan(allowed, vocabulary, bans)) {
    return "penalties: with bias they turn logits of allowed tokens into NaN, or all into "
           "-infinity";
  }
  return bans == 0 ? "allowed: no token is allowed" : "allowed: bias bans every allowed token";
}

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_API_PLUGIN_H_
