// Draws questions that have one right answer and a context of any length.
//
// A question depends only on its seed and its parameters, and is the same on every platform. Texts
// are ASCII, unless the caller gives others.
#ifndef LONGSTREAM_CLIENT_EVAL_TASKS_H_
#define LONGSTREAM_CLIENT_EVAL_TASKS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace longstream::client {

struct Question {
  std::string text;    // follows the context
  std::string answer;  // the right continuation, which may follow blanks
  double depth = 0;    // where in the context the answer is: 0 at its beginning, 1 at its end
};

// A context and its questions. A prompt is the context, directly followed by one question. The
// other questions are not part of the prompt.
struct Sample {
  std::string context;
  std::vector<Question> questions;
};

// Passkey retrieval (Mohtashami and Jaggi, arXiv 2305.16300): a number hidden in filler text.
struct Passkey {
  int digits = 5;
  std::string filler;  // repeated as often as needed; empty: built-in sentences
  // "{}" stands for the number in the needle and in the question. The question is asked only up to
  // its "{}".
  std::string needle = "The pass key is {}. Remember it, {} is the pass key.\n";
  std::string question = "What is the pass key? The pass key is {}";
};

// Inserts the needle before the line of the filler that begins nearest to `depth` (0: the
// beginning, 1: the end). In all functions Draw, context and question together have at most `bytes`
// bytes, unless the question alone needs more.
Sample Draw(const Passkey& task, size_t bytes, double depth, uint64_t seed);

// ListOps (Nangia and Bowman, arXiv 1804.06028): nested MIN, MAX, MED (the median; the lower one of
// an even number) and SM (the sum modulo 10) of digits. The context has short worked examples.
struct ListOps {
  int examples = 4;
  int arguments = 5;  // maximum number of arguments of an operator; >= 2
};

Sample Draw(const ListOps& task, size_t bytes, uint64_t seed);

// Associative recall (Arora et al., arXiv 2312.04927): the context has lines "key = value" with
// different keys. A question is one of these keys, drawn at random; the answer is its value.
struct Recall {
  int questions = 4;
};

Sample Draw(const Recall& task, size_t bytes, uint64_t seed);

// Whether the continuation `text` gives the answer: it begins with blanks and the answer, and no
// letter or digit follows directly.
bool IsAnswer(const std::string& text, const std::string& answer);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_EVAL_TASKS_H_
