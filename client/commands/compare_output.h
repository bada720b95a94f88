// Shows a comparison of models: their texts, and what their tokens and logits say.
#ifndef LONGSTREAM_CLIENT_COMMANDS_COMPARE_OUTPUT_H_
#define LONGSTREAM_CLIENT_COMMANDS_COMPARE_OUTPUT_H_

#include <string>
#include <vector>

#include "longstream/v1/longstream.pb.h"
#include "nlohmann/json_fwd.hpp"

namespace longstream::client {

// The messages of a Compare call, put together.
struct Comparison {
  void Add(const v1::CompareResponse& response);

  v1::CompareStarted started;
  std::vector<v1::CompareRow> rows;
  std::vector<v1::CompareArmEnd> ends;  // by arm; `code` is -1 until the arm has ended
  v1::CompareFinish finish;
};

// Bits per byte of the arm's text. NaN: it has none, or the arm is lost.
double BitsPerByte(const v1::CompareArmEnd& end);

// Everything that the server has sent, and the quantiles of the times between tokens.
nlohmann::ordered_json ToJson(const Comparison& comparison);

// Prints the text of each arm, with a mark where it differs from the first one, then a table of the
// arms and a table of the pairs. Throws OutputError.
void PrintComparison(const Comparison& comparison);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMMANDS_COMPARE_OUTPUT_H_
