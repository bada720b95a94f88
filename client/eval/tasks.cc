// Draws the questions of the three tasks from a seed.
#include "client/eval/tasks.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <random>
#include <set>

namespace longstream::client {
namespace {

constexpr const char* kFiller =
    "The river is wide and the boats are slow. A bird sits on the roof and looks at the hills. "
    "Rain came in the night and left in the morning. The road goes on past the mill.\n";

// Random integers that are the same with every standard library.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  // Returns a number in 0 … n − 1. The remainder makes some numbers more probable, by less than n /
  // 2^64.
  size_t Below(size_t n) { return static_cast<size_t>(engine_() % n); }
  char Digit() { return static_cast<char>('0' + Below(10)); }

 private:
  std::mt19937_64 engine_;
};

std::string Replaced(std::string text, const std::string& what, const std::string& with) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at)) {
    text.replace(at, what.size(), with);
    at += with.size();
  }
  return text;
}

// Returns the beginning of `text`, at most `most` bytes: whole lines, or whole characters if not
// even one line fits.
std::string Beginning(const std::string& text, size_t most) {
  if (most >= text.size()) return text;
  const size_t newline = most == 0 ? std::string::npos : text.rfind('\n', most - 1);
  if (newline != std::string::npos) return text.substr(0, newline + 1);
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  return text.substr(0, most);
}

// Repeats the filler up to `bytes` bytes.
std::string Repeated(const std::string& filler, size_t bytes) {
  std::string text;
  while (text.size() + filler.size() <= bytes) text += filler;
  return text + Beginning(filler, bytes - text.size());
}

// Returns the beginning of the line that begins nearest to `offset`. The end of `text` counts as
// the beginning of a line.
size_t NearestLine(const std::string& text, size_t offset) {
  const size_t before = offset == 0 ? std::string::npos : text.rfind('\n', offset - 1);
  const size_t low = before == std::string::npos ? 0 : before + 1;
  const size_t after = text.find('\n', offset);
  const size_t high = after == std::string::npos ? text.size() : after + 1;
  return offset - low <= high - offset ? low : high;
}

constexpr const char* kOperators[] = {"MIN", "MAX", "MED", "SM"};

int Apply(size_t operation, std::vector<int> values) {
  if (operation == 3) return std::accumulate(values.begin(), values.end(), 0) % 10;
  std::sort(values.begin(), values.end());
  if (operation == 0) return values.front();
  if (operation == 1) return values.back();
  return values[(values.size() - 1) / 2];
}

struct Expression {
  std::string text;
  int value = 0;
};

constexpr size_t kShortest = 9;  // "[MIN 1 2]"

// Draws an operator with digits and nested expressions as arguments, at most `bytes` long (but at
// least kShortest). Each argument gets an equal share of the bytes that are left. So long
// expressions are nested, and all answers stay frequent; one operator over many digits would nearly
// always give 0 or 9.
Expression DrawExpression(const ListOps& task, size_t bytes, Random* random) {
  const size_t operation = random->Below(4);
  Expression whole{std::string("[") + kOperators[operation], 0};
  // The closing bracket takes one byte.
  size_t room = std::max(bytes, kShortest) - whole.text.size() - 1;
  const size_t most = std::min<size_t>(static_cast<size_t>(task.arguments), room / 2);
  const size_t arguments = 2 + random->Below(most - 1);
  std::vector<int> values;
  for (size_t i = 0; i < arguments; ++i) {
    const size_t share = room / (arguments - i) - 1;  // a blank comes before the argument
    Expression part;
    if (share >= kShortest) {
      part = DrawExpression(task, share, random);
    } else {
      part.value = static_cast<int>(random->Below(10));
      part.text = std::to_string(part.value);
    }
    whole.text += " " + part.text;
    values.push_back(part.value);
    room -= part.text.size() + 1;
  }
  whole.text += ']';
  whole.value = Apply(operation, values);
  return whole;
}

}  // namespace

Sample Draw(const Passkey& task, size_t bytes, double depth, uint64_t seed) {
  Random random(seed);
  std::string key(1, static_cast<char>('1' + random.Below(9)));
  while (key.size() < static_cast<size_t>(task.digits)) key += random.Digit();
  const std::string needle = Replaced(task.needle, "{}", key);
  const std::string question = task.question.substr(0, task.question.find("{}"));
  const size_t rest = needle.size() + question.size() + 2;  // the 2 is for two newlines

  std::string filler =
      Repeated(task.filler.empty() ? kFiller : task.filler, bytes > rest ? bytes - rest : 0);
  if (!filler.empty() && filler.back() != '\n') filler += '\n';
  const size_t at =
      NearestLine(filler, static_cast<size_t>(depth * static_cast<double>(filler.size())));
  Sample sample;
  sample.context = filler.substr(0, at) + needle + filler.substr(at);
  // The question begins on a new line.
  if (sample.context.back() != '\n') sample.context += '\n';
  // The model generates the blank before the number, because tokenizers join it to the number.
  const size_t end = question.find_last_not_of(' ');
  sample.questions.push_back({question.substr(0, end + 1), key, depth});
  return sample;
}

Sample Draw(const ListOps& task, size_t bytes, uint64_t seed) {
  constexpr size_t kExample = 20;
  Random random(seed);
  Sample sample;
  for (int i = 0; i < task.examples; ++i) {
    const Expression example = DrawExpression(task, kExample, &random);
    sample.context += example.text + " = " + std::to_string(example.value) + "\n";
  }
  const size_t used = sample.context.size() + 2;
  const Expression asked = DrawExpression(task, bytes > used ? bytes - used : 0, &random);
  sample.questions.push_back({asked.text + " =", std::to_string(asked.value), 0});
  return sample;
}

Sample Draw(const Recall& task, size_t bytes, uint64_t seed) {
  constexpr size_t kAnswer = 5;  // the bytes of " = 12", in which the last two are the answer
  constexpr size_t kAlphabet = 26;
  // Use so many letters that at least half of all possible keys stay unused. Then it is fast to
  // draw a key that is not used yet.
  size_t letters = 3;
  size_t keys = kAlphabet * kAlphabet * kAlphabet;
  while (keys / 2 < bytes / (letters + kAnswer + 1)) {
    ++letters;
    keys *= kAlphabet;
  }
  const size_t question = letters + kAnswer - 3;
  const size_t room = bytes > question ? bytes - question : 0;
  const size_t pairs = std::max<size_t>(1, room / (letters + kAnswer + 1));
  Random random(seed);
  std::set<size_t> used;
  std::vector<std::string> names;
  std::vector<std::string> values;
  Sample sample;
  while (names.size() < pairs) {
    const size_t number = random.Below(keys);
    if (!used.insert(number).second) continue;
    std::string& name = names.emplace_back();
    for (size_t rest = number, i = 0; i < letters; ++i, rest /= kAlphabet) {
      name += static_cast<char>('a' + rest % kAlphabet);
    }
    values.push_back({random.Digit(), random.Digit()});
    sample.context += name + " = " + values.back() + "\n";
  }
  for (int i = 0; i < task.questions; ++i) {
    const size_t asked = random.Below(pairs);
    sample.questions.push_back({names[asked] + " =", values[asked],
                                static_cast<double>(asked) / static_cast<double>(pairs)});
  }
  return sample;
}

bool IsAnswer(const std::string& text, const std::string& answer) {
  const size_t begin = text.find_first_not_of(" \t\n");
  if (begin == std::string::npos || text.compare(begin, answer.size(), answer) != 0) return false;
  const size_t end = begin + answer.size();
  return end == text.size() || std::isalnum(static_cast<unsigned char>(text[end])) == 0;
}

}  // namespace longstream::client
