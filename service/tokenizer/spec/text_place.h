// The place of a text, and whether a space, or the mark for one, is put before it there.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_SPEC_TEXT_PLACE_H_
#define LONGSTREAM_SERVICE_TOKENIZER_SPEC_TEXT_PLACE_H_

namespace longstream {

enum class TextPlace {
  kSequenceBegin,  // nothing is before it
  kNewPiece,       // an added token is, or the piece that a cut ended
  kContinues,      // it goes on after other text
};

// Which texts get a prefix.
enum class PrependScheme {
  kFirst,   // the one at the beginning of the sequence
  kAlways,  // each that does not go on after another one
  kNever,
};

inline bool PutsPrefix(PrependScheme scheme, TextPlace place) {
  if (scheme == PrependScheme::kFirst) return place == TextPlace::kSequenceBegin;
  return scheme == PrependScheme::kAlways && place != TextPlace::kContinues;
}

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_SPEC_TEXT_PLACE_H_
