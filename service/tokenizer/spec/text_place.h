// The place of a text in a sequence, which decides whether a space, or the mark for a space, is put
// before the text.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_SPEC_TEXT_PLACE_H_
#define LONGSTREAM_SERVICE_TOKENIZER_SPEC_TEXT_PLACE_H_

namespace longstream {

enum class TextPlace {
  kSequenceBegin,  // the text begins the sequence
  kNewPiece,       // the text follows an added token, or a cut of the pre-tokenizer
  kContinues,      // the text continues other text
};

// Which texts get a space (or its mark) in front.
enum class PrependScheme {
  kFirst,   // only the text at the beginning of the sequence
  kAlways,  // every text that does not continue other text
  kNever,
};

inline bool PutsPrefix(PrependScheme scheme, TextPlace place) {
  if (scheme == PrependScheme::kFirst) return place == TextPlace::kSequenceBegin;
  return scheme == PrependScheme::kAlways && place != TextPlace::kContinues;
}

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_SPEC_TEXT_PLACE_H_
