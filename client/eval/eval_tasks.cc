// `longstream eval passkey`, `listops` and `recall`: ask generated questions with contexts of given
// lengths.
#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <memory>

#include "client/commands/commands.h"
#include "client/commands/input.h"
#include "client/eval/eval.h"
#include "client/eval/tasks.h"
#include "client/parallel.h"
#include "client/session.h"
#include "nlohmann/json.hpp"

namespace longstream::client {
namespace {

constexpr int kDepthRows = 5;

// Draws sample number `i` of `samples`, with about `bytes` bytes.
using DrawSample = std::function<Sample(size_t bytes, int i, int samples, uint64_t seed)>;

struct TaskOptions {
  EvalOptions eval;
  int samples = 20;
  uint64_t seed = 1;
  std::string name;
  std::string title;
  bool by_depth = false;
  // Adds a column with the accuracy that a model would have if it always gave the most frequent
  // answer.
  bool constant = false;
  DrawSample draw;
};

// A question that was asked.
struct Asked {
  Question question;
  uint64_t tokens = 0;  // tokens before the answer
  std::string text;     // the model's continuation
  bool correct = false;
};

// Generates the most probable continuation of `prompt`.
Asked Ask(Connection& connection, const Session& session, const std::string& prompt,
          const Question& question) {
  v1::GenerateRequest request;
  request.set_session_id(session.id());
  request.mutable_input()->set_text(prompt);
  // The answer has at most one token per byte. Add one token for a blank before it and one token
  // after it.
  request.set_max_tokens(static_cast<uint32_t>(question.answer.size()) + 2);
  v1::Sampling& sampling = *request.mutable_sampling();
  sampling.set_temperature(0);
  sampling.set_repetition_penalty(1);
  sampling.set_presence_penalty(0);
  sampling.set_frequency_penalty(0);
  const Generation generation = connection.Generate(request);
  return {question, generation.started.position() + generation.started.prompt_tokens(),
          generation.text, IsAnswer(generation.text, question.answer)};
}

std::string WholeText(const Sample& sample) {
  return sample.context + sample.questions.front().text;
}

// Asks every question of the sample. If there are several questions, computes the context once and
// forks its session.
std::vector<Asked> AskAll(Connection& connection, const std::string& model, const Sample& sample) {
  Session session = OpenSession(connection, model);
  if (sample.questions.size() == 1) {
    const Question& question = sample.questions.front();
    return {Ask(connection, session, WholeText(sample), question)};
  }
  session.Append(sample.context);
  std::vector<Asked> asked;
  for (const Question& question : sample.questions) {
    const Session fork = session.Fork();
    asked.push_back(Ask(connection, fork, question.text, question));
  }
  return asked;
}

// Asks the questions of all samples of one length; returns them in the order of the samples.
std::vector<Asked> AskModel(Connection& connection, const std::string& model,
                            const TaskOptions& options, double bytes_per_token, uint64_t length) {
  const size_t bytes = static_cast<size_t>(bytes_per_token * static_cast<double>(length));
  std::vector<std::vector<Asked>> asked(static_cast<size_t>(options.samples));
  ForEach(options.samples, options.eval.streams, [&](int i) {
    // Each length and sample number has its own seed.
    const uint64_t seed =
        (options.seed * 1'000'003 + length) * 1'000'003 + static_cast<uint64_t>(i);
    const Sample sample = options.draw(bytes, i, options.samples, seed);
    const size_t needed = WholeText(sample).size();
    if (needed > bytes) {
      throw CLI::ValidationError("--lengths", std::to_string(length) + " tokens of " + model +
                                                  " are about " + std::to_string(bytes) +
                                                  " bytes, and a question needs " +
                                                  std::to_string(needed));
    }
    asked[static_cast<size_t>(i)] = AskAll(connection, model, sample);
  });
  std::vector<Asked> all;
  for (std::vector<Asked>& of_sample : asked) {
    std::move(of_sample.begin(), of_sample.end(), std::back_inserter(all));
  }
  return all;
}

Figures Count(const std::vector<Asked>& all, double from_depth, double to_depth) {
  Figures figures;
  for (const Asked& asked : all) {
    if (asked.question.depth < from_depth || asked.question.depth >= to_depth) continue;
    figures.Add({1, asked.correct ? 1u : 0u, 0});
  }
  return figures;
}

// Counts how many questions would be right if every answer were the most frequent one.
Figures CountConstant(const std::vector<Asked>& all) {
  std::map<std::string, uint64_t> answers;
  Figures figures{all.size(), 0, 0};
  for (const Asked& asked : all) {
    figures.correct = std::max(figures.correct, ++answers[asked.question.answer]);
  }
  return figures;
}

// `answers` has a list per model, which has a list per length.
Report MakeReport(const TaskOptions& options,
                  const std::vector<std::vector<std::vector<Asked>>>& answers) {
  Report report{options.name, options.title, options.eval.models, /*likelihood=*/false, {}, 0};
  report.mark = static_cast<double>(options.eval.mark);
  Grid& lengths = report.grids.emplace_back(Grid{"length", {}});
  for (size_t i = 0; i < options.eval.lengths.size(); ++i) {
    const uint64_t length = options.eval.lengths[i];
    Row row{std::to_string(length), static_cast<double>(length), {}};
    for (const auto& by_length : answers) row.models.push_back(Count(by_length[i], 0, INFINITY));
    if (options.constant) row.models.push_back(CountConstant(answers.front()[i]));
    lengths.rows.push_back(std::move(row));
  }
  if (options.constant) report.models.emplace_back("(commonest answer)");
  if (!options.by_depth) return report;
  Grid& depths = report.grids.emplace_back(Grid{"depth", {}});
  for (int i = 0; i < kDepthRows; ++i) {
    const double from = static_cast<double>(i) / kDepthRows;
    const double to = static_cast<double>(i + 1) / kDepthRows;
    Row row{std::to_string(100 * i / kDepthRows) + "-" + std::to_string(100 * (i + 1) / kDepthRows),
            0,
            {}};
    for (const auto& by_length : answers) {
      Figures& sum = row.models.emplace_back();
      for (const std::vector<Asked>& all : by_length) {
        sum.Add(Count(all, from, i + 1 == kDepthRows ? INFINITY : to));
      }
    }
    depths.rows.push_back(std::move(row));
  }
  return report;
}

nlohmann::ordered_json ToJson(const Asked& asked, const std::string& model, uint64_t length) {
  return {{"model", model},
          {"length", length},
          {"tokens", asked.tokens},
          {"depth", asked.question.depth},
          {"question", asked.question.text},
          {"answer", asked.question.answer},
          {"text", asked.text},
          {"correct", asked.correct}};
}

void Evaluate(const Global& global, TaskOptions options) {
  const std::string beginning =
      WholeText(options.draw(kCalibrationBytes, 0, options.samples, options.seed));
  std::vector<std::vector<std::vector<Asked>>> answers;
  nlohmann::ordered_json questions = nlohmann::ordered_json::array();
  ForEachModel(
      global, &options.eval, beginning,
      [&](Connection& connection, const std::string& model, double bytes_per_token) {
        std::vector<std::vector<Asked>>& by_length = answers.emplace_back();
        for (const uint64_t length : options.eval.lengths) {
          by_length.push_back(AskModel(connection, model, options, bytes_per_token, length));
          for (const Asked& asked : by_length.back()) {
            questions.push_back(ToJson(asked, model, length));
          }
        }
      });
  const Report report = MakeReport(options, answers);
  nlohmann::ordered_json json = JsonOf(report);
  json["seed"] = options.seed;
  json["questions"] = questions;
  Publish(global, options.eval, report, json);
}

CLI::App* AddTask(CLI::App* eval, const Global* global, const std::string& description,
                  std::vector<uint64_t> lengths, const std::shared_ptr<TaskOptions>& options) {
  options->eval.lengths = std::move(lengths);
  CLI::App* command = AddEvaluation(eval, options->name, description, &options->eval);
  command->add_option("--samples", options->samples, "number of contexts per length")
      ->check(WholeNumber(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "seed of the questions")
      ->check(WholeNumber())
      ->capture_default_str();
  command->callback([=] { Evaluate(*global, *options); });
  return command;
}

// Validates --needle and --question.
CLI::Validator HasNumber() {
  return {[](const std::string& text) {
            return text.find("{}") != std::string::npos
                       ? std::string()
                       : "expected {}, which stands for the number, in: " + text;
          },
          "TEXT with {}"};
}

void AddPasskey(CLI::App* eval, const Global* global) {
  auto task = std::make_shared<Passkey>();
  auto options = std::make_shared<TaskOptions>();
  options->name = "passkey";
  options->title = "Passkey retrieval";
  options->by_depth = true;
  options->draw = [task](size_t bytes, int i, int samples, uint64_t seed) {
    return Draw(*task, bytes, (i + 0.5) / samples, seed);
  };
  CLI::App* command = AddTask(eval, global, "Find a number in a long text, at evenly spaced depths",
                              {256, 512, 1024, 2048}, options);
  command->add_option("--digits", task->digits, "digits of the number")
      ->check(WholeNumber(1, 18))
      ->capture_default_str();
  command->add_option_function<std::string>(
      "--filler",
      [task](const std::string& path) {
        task->filler = ReadFile(path, "--filler");
        if (task->filler.empty()) throw CLI::ValidationError("--filler", path + " is empty");
      },
      "file with the long text; default: built-in sentences");
  command
      ->add_option("--needle", task->needle,
                   "line that states the number; {} stands for the number")
      ->check(HasNumber());
  command
      ->add_option("--question", task->question,
                   "question for the number; only the part before {} is asked")
      ->check(HasNumber());
}

void AddListOps(CLI::App* eval, const Global* global) {
  auto task = std::make_shared<ListOps>();
  auto options = std::make_shared<TaskOptions>();
  options->name = "listops";
  options->title = "ListOps";
  options->draw = [task](size_t bytes, int /*i*/, int /*samples*/, uint64_t seed) {
    return Draw(*task, bytes, seed);
  };
  options->constant = true;
  CLI::App* command = AddTask(eval, global, "Compute nested operations on lists of digits",
                              {128, 256, 512, 1024}, options);
  command->add_option("--examples", task->examples, "number of solved examples before the question")
      ->check(WholeNumber(0, 1000))
      ->capture_default_str();
  command->add_option("--arguments", task->arguments, "maximum number of arguments of an operator")
      ->check(WholeNumber(2, 100))
      ->capture_default_str();
}

void AddRecall(CLI::App* eval, const Global* global) {
  auto task = std::make_shared<Recall>();
  auto options = std::make_shared<TaskOptions>();
  options->name = "recall";
  options->title = "Associative recall";
  options->by_depth = true;
  options->draw = [task](size_t bytes, int /*i*/, int /*samples*/, uint64_t seed) {
    return Draw(*task, bytes, seed);
  };
  CLI::App* command = AddTask(eval, global, "Recall the values of keys in a list; chance is 1 %",
                              {128, 256, 512, 1024, 2048}, options);
  command->add_option("--questions", task->questions, "number of questions per context")
      ->check(WholeNumber(1, 1000))
      ->capture_default_str();
}

}  // namespace

void AddEvalTasks(CLI::App* eval, const Global* global) {
  AddPasskey(eval, global);
  AddListOps(eval, global);
  AddRecall(eval, global);
}

}  // namespace longstream::client
