// Splits the text that a model generates into its thoughts and the answer proper.
#ifndef LONGSTREAM_GATEWAY_ANSWERS_THOUGHT_READER_H_
#define LONGSTREAM_GATEWAY_ANSWERS_THOUGHT_READER_H_

#include <string>
#include <string_view>

#include "longstream/v1/longstream.pb.h"

namespace longstream::gateway {

// Models write their thoughts first, between two marks, such as <think> and </think>. A mark may
// come in several pieces, and the text may end within the thoughts. White space around the marks
// belongs to neither part. Marks behind the first thoughts are text. Not thread-safe.
class ThoughtReader {
 public:
  // Sets the marks. Call it before any text. Without it, or if a mark is empty, all is the answer.
  void Begin(const v1::Thoughts& marks);

  struct Piece {
    std::string thoughts;
    std::string text;
  };
  // The next text of the model. Returns what is certain now; the rest waits for more text.
  Piece Add(std::string_view text);
  // The text has ended.
  Piece End();

  // The last text ended within thoughts.
  bool in_thoughts() const { return place_ == Place::kInside; }

 private:
  enum class Place {
    kBefore,  // there was at most white space
    kInside,
    kBehind,  // thoughts have ended, and there was at most white space since
    kText,
  };

  // Each function reads what is certain from held_. Returns false if it needs more text.
  bool ReadBefore();
  bool ReadInside(Piece* piece);
  bool ReadBehind();
  void Read(Piece* piece);

  v1::Thoughts marks_;
  Place place_ = Place::kText;
  bool has_thoughts_ = false;  // there was more than white space inside
  std::string held_;           // what is not certain yet
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_ANSWERS_THOUGHT_READER_H_
