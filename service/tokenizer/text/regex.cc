// Uses PCRE2 with its just-in-time compiler. Each thread keeps the memory for matching.
#include "service/tokenizer/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace longstream {
namespace {

// The limit of steps of one match. So many steps take a few seconds at worst. The value is PCRE2's
// default. With the patterns of the model families, a word takes at most a few steps per character.
constexpr uint32_t kMatchLimit = 10'000'000;

// The limits of backtracking memory for one match: kHeapLimitKib for PCRE2's interpreter, the stack
// for compiled patterns. The stack only takes memory when it is used.
constexpr uint32_t kHeapLimitKib = 64 * 1024;
constexpr size_t kJitStackStart = 32 * 1024;
constexpr size_t kJitStackMax = size_t{kHeapLimitKib} * 1024;

// The memory for matching of one thread. It fits every pattern, because it only records the whole
// match and no groups.
class MatchState {
 public:
  MatchState()
      : data_(pcre2_match_data_create(1, nullptr)),
        context_(pcre2_match_context_create(nullptr)),
        stack_(pcre2_jit_stack_create(kJitStackStart, kJitStackMax, nullptr)) {
    if (data_ == nullptr || context_ == nullptr) throw std::bad_alloc();
    pcre2_set_match_limit(context_, kMatchLimit);
    pcre2_set_heap_limit(context_, kHeapLimitKib);
    // If stack_ is nullptr, compiled code uses 32 KiB of the thread's stack.
    pcre2_jit_stack_assign(context_, nullptr, stack_);
  }
  ~MatchState() {
    pcre2_jit_stack_free(stack_);
    pcre2_match_context_free(context_);
    pcre2_match_data_free(data_);
  }
  MatchState(const MatchState&) = delete;
  MatchState& operator=(const MatchState&) = delete;

  pcre2_match_data* data() const { return data_; }
  pcre2_match_context* context() const { return context_; }

 private:
  pcre2_match_data* data_;
  pcre2_match_context* context_;
  pcre2_jit_stack* stack_;
};

PCRE2_SPTR Pcre2Text(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

std::string ErrorText(int code) {
  PCRE2_UCHAR buffer[256];
  if (pcre2_get_error_message(code, buffer, sizeof(buffer)) < 0)
    return absl::StrCat("error ", code);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

void Regex::CodeDeleter::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }

absl::StatusOr<Regex> Regex::CompilePcre2(const std::string& pattern, uint32_t options) {
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  // In Oniguruma, line feed is the only newline, and "." does not match it.
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  Regex regex;
  regex.code_.reset(pcre2_compile(Pcre2Text(pattern), pattern.size(), options | PCRE2_UTF, &error,
                                  &offset, context.get()));
  if (regex.code_ == nullptr) {
    return absl::UnimplementedError(absl::StrCat("PCRE2 cannot compile the pattern \"", pattern,
                                                 "\": ", ErrorText(error), " at byte ", offset));
  }
  uint32_t matches_empty = 0;
  pcre2_pattern_info(regex.code_.get(), PCRE2_INFO_MATCHEMPTY, &matches_empty);
  if (matches_empty != 0) {
    return absl::UnimplementedError(
        absl::StrCat("the pattern \"", pattern, "\" may match the empty string"));
  }
  // If the system forbids executable memory, this fails, and PCRE2's interpreter is used instead.
  pcre2_jit_compile(regex.code_.get(), PCRE2_JIT_COMPLETE);
  return regex;
}

absl::StatusOr<Regex> Regex::Compile(const std::string& pattern) {
  const absl::StatusOr<std::string> translated = OnigurumaToPcre2(pattern);
  if (!translated.ok()) return translated.status();
  return CompilePcre2(*translated, PCRE2_UCP);
}

absl::StatusOr<Regex> Regex::CompileLiteral(const std::string& text) {
  return CompilePcre2(text, PCRE2_LITERAL);
}

absl::StatusOr<bool> Regex::Find(std::string_view text, size_t start, Match* match) const {
  thread_local const MatchState state;
  // The caller has checked that the text is UTF-8. A check for every match would take quadratic
  // time.
  const int result = pcre2_match(code_.get(), Pcre2Text(text), text.size(), start,
                                 PCRE2_NO_UTF_CHECK, state.data(), state.context());
  if (result == PCRE2_ERROR_NOMATCH) return false;
  if (result < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the pre-tokenizer's pattern cannot split a text of ", text.size(),
                     " bytes: ", ErrorText(result)));
  }
  const PCRE2_SIZE* range = pcre2_get_ovector_pointer(state.data());
  *match = {range[0], range[1]};
  return true;
}

}  // namespace longstream
