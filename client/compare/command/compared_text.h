// The messages of a Compare call, put together.
#ifndef LONGSTREAM_CLIENT_COMPARE_COMMAND_COMPARED_TEXT_H_
#define LONGSTREAM_CLIENT_COMPARE_COMMAND_COMPARED_TEXT_H_

#include <vector>

#include "longstream/v1/longstream.pb.h"

namespace longstream::client {

struct ComparedText {
  void Add(const v1::CompareResponse& response);
  // Whether no arm has generated. Only the tokens of free-running arms have `text`.
  bool is_forced() const;

  v1::CompareStarted started;
  std::vector<v1::CompareRow> rows;
  std::vector<v1::CompareArmEnd> ends;  // by arm; `code` is -1 until the arm has ended
  v1::CompareFinish finish;
};

// Bits per byte of the text that the arm has read. NaN: it has none, or the arm is lost or
// generates.
double BitsPerByte(const v1::CompareArmEnd& end);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMPARE_COMMAND_COMPARED_TEXT_H_
