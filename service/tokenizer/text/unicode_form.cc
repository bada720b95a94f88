// Uses ICU, but sorts long runs of combining marks before.
#include "service/tokenizer/text/unicode_form.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>
#include <unicode/uchar.h>
#include <unicode/uniset.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/tokenizer/text/utf8.h"

namespace longstream {
namespace {

// ICU sorts combining marks by insertion, which takes quadratic time in the length of a run.
// Natural text has only a few marks in a row (Unicode's Stream-Safe format allows 30). Runs of at
// least kLongRun marks are sorted before ICU sees them.
constexpr size_t kLongRun = 64;

// No character below U+0300 is a combining mark. In UTF-8 the characters below U+0300 begin with a
// byte below 0xCC.
bool MayBeMark(unsigned char lead_byte) { return lead_byte >= 0xCC; }

// Whether the full decomposition of a character begins with a combining mark, in at least one of
// the forms. U+FF9E and U+FF9F are the only characters that become marks in the compatibility
// forms.
bool BeginsWithMark(char32_t c) {
  return u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_LEAD_CANONICAL_COMBINING_CLASS) !=
             0 ||
         c == 0xFF9E || c == 0xFF9F;
}

// Appends a run of marks, decomposed and in canonical order. The result is equivalent in this form,
// and ICU does not have to move any mark.
void AppendOrdered(const icu::Normalizer2& form, std::string_view run, std::string* out) {
  std::vector<std::pair<uint8_t, UChar32>> marks;  // combining class, code point
  icu::UnicodeString decomposition;
  for (size_t offset = 0; offset < run.size();) {
    const auto c = static_cast<UChar32>(NextCodePoint(run, &offset));
    if (!form.getDecomposition(c, decomposition)) decomposition = icu::UnicodeString(c);
    for (int32_t i = 0; i < decomposition.length(); i = decomposition.moveIndex32(i, 1)) {
      const UChar32 part = decomposition.char32At(i);
      marks.emplace_back(form.getCombiningClass(part), part);
    }
  }
  const auto by_class = [](const auto& a, const auto& b) { return a.first < b.first; };
  // Marks do not move across a character of class 0, so sort the marks between two of them.
  for (auto first = marks.begin(); first != marks.end();) {
    if (first->first == 0) {
      ++first;
      continue;
    }
    const auto last =
        std::find_if(first, marks.end(), [](const auto& mark) { return mark.first == 0; });
    std::stable_sort(first, last, by_class);
    first = last;
  }
  for (const auto& [combining_class, c] : marks) icu::UnicodeString(c).toUTF8String(*out);
}

// Returns the text with every long run of marks in canonical order: `text` itself if it has no long
// run, otherwise *buffer.
std::string_view OrderLongRuns(const icu::Normalizer2& form, std::string_view text,
                               std::string* buffer) {
  size_t copied = 0;  // the first `copied` bytes of text are in *buffer
  for (size_t offset = 0; offset < text.size();) {
    if (!MayBeMark(static_cast<unsigned char>(text[offset]))) {
      ++offset;
      continue;
    }
    const size_t begin = offset;
    size_t end = offset;
    size_t length = 0;
    while (offset < text.size() && BeginsWithMark(NextCodePoint(text, &offset))) {
      ++length;
      end = offset;
    }
    if (length < kLongRun) continue;
    buffer->append(text.substr(copied, begin - copied));
    AppendOrdered(form, text.substr(begin, end - begin), buffer);
    copied = end;
  }
  if (copied == 0) return text;
  buffer->append(text.substr(copied));
  return *buffer;
}

// Two normalizers of a form: `newest` for all characters of ICU's Unicode version, and
// `of_unicode_9` for the characters of Unicode 9 only.
struct FormNormalizers {
  const icu::Normalizer2* newest = nullptr;
  std::optional<icu::FilteredNormalizer2> of_unicode_9;
};

struct Normalizers {
  std::array<FormNormalizers, 4> forms;  // in the order of UnicodeForm
  icu::UnicodeSet known;
  UErrorCode error = U_ZERO_ERROR;

  Normalizers() {
    known.applyPattern(icu::UnicodeString("[:age=9.0:]"), error);
    known.freeze();
    forms[static_cast<size_t>(UnicodeForm::kNfc)].newest = icu::Normalizer2::getNFCInstance(error);
    forms[static_cast<size_t>(UnicodeForm::kNfd)].newest = icu::Normalizer2::getNFDInstance(error);
    forms[static_cast<size_t>(UnicodeForm::kNfkc)].newest =
        icu::Normalizer2::getNFKCInstance(error);
    forms[static_cast<size_t>(UnicodeForm::kNfkd)].newest =
        icu::Normalizer2::getNFKDInstance(error);
    if (U_FAILURE(error)) return;
    for (FormNormalizers& form : forms) form.of_unicode_9.emplace(*form.newest, known);
  }
};

absl::Status IcuError(UErrorCode code) {
  return absl::InternalError(absl::StrCat("ICU cannot normalize the text: ", u_errorName(code)));
}

icu::StringPiece PieceOf(std::string_view text) {
  return {text.data(), static_cast<int32_t>(text.size())};
}

}  // namespace

absl::StatusOr<std::string_view> NormalizeUnicode(UnicodeForm form, std::string_view text,
                                                  std::string* buffer) {
  static const Normalizers all;
  if (U_FAILURE(all.error)) return IcuError(all.error);
  const FormNormalizers& normalizers = all.forms[static_cast<size_t>(form)];
  const icu::Normalizer2& of_unicode_9 = *normalizers.of_unicode_9;

  UErrorCode error = U_ZERO_ERROR;
  std::string ordered_buffer;
  const std::string_view ordered = OrderLongRuns(of_unicode_9, text, &ordered_buffer);
  // Return `text` itself if it is in ICU's form already. Then it is in the form of Unicode 9 too,
  // which reorders and composes fewer characters.
  const bool same_text = ordered.data() == text.data();
  if (same_text && normalizers.newest->isNormalizedUTF8(PieceOf(text), error) && U_SUCCESS(error)) {
    return text;
  }
  error = U_ZERO_ERROR;
  buffer->clear();
  icu::StringByteSink<std::string> sink(buffer);
  of_unicode_9.normalizeUTF8(0, PieceOf(ordered), sink, nullptr, error);
  if (U_FAILURE(error)) return IcuError(error);
  return *buffer;
}

}  // namespace longstream
