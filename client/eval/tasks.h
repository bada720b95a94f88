// Generated questions with one right answer, of any length.
//
// Each is drawn from its seed alone, by the same integers everywhere. Texts are ASCII, but for what
// the caller's own texts hold.
#ifndef LONGSTREAM_CLIENT_EVAL_TASKS_H_
#define LONGSTREAM_CLIENT_EVAL_TASKS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace longstream::client {

struct Question {
  std::string text;    // follows the context
  std::string answer;  // what a model must go on with, after blanks
  double depth = 0;    // where in the context the answer stands: 0 its beginning, 1 its end
};

// A context, and questions that each follow it as if the others had not been asked.
struct Sample {
  std::string context;
  std::vector<Question> questions;
};

// Passkey retrieval (Mohtashami and Jaggi, arXiv 2305.16300): a number hidden in filler text.
struct Passkey {
  int digits = 5;
  std::string filler;  // repeated as often as needed; empty: sentences of ours
  // "{}" stands for the number, in both; what follows it in the question is not asked.
  std::string needle = "The pass key is {}. Remember it, {} is the pass key.\n";
  std::string question = "What is the pass key? The pass key is {}";
};

// The needle stands at the beginning of the line nearest to `depth` of the filler. At most `bytes`
// in all, the question included, and no fewer than needle and question need, as below.
Sample Draw(const Passkey& task, size_t bytes, double depth, uint64_t seed);

// ListOps (Nangia and Bowman, arXiv 1804.06028): nested MIN, MAX, MED (the median, of an even
// number the lower one) and SM (the sum modulo 10) of digits. Short worked examples come first.
struct ListOps {
  int examples = 4;
  int arguments = 5;  // of an operator, at most; from 2
};

Sample Draw(const ListOps& task, size_t bytes, uint64_t seed);

// Associative recall (Arora et al., arXiv 2312.04927): lines "key = value", all keys different;
// then keys from among them, drawn at random, each to be followed by its value.
struct Recall {
  int questions = 4;
};

Sample Draw(const Recall& task, size_t bytes, uint64_t seed);

// Whether a model that went on with `text` gave the answer: it stands first, after blanks, and no
// letter or digit follows it.
bool IsAnswer(const std::string& text, const std::string& answer);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_EVAL_TASKS_H_
