// `longstream eval text`: measures next-token accuracy and perplexity by position and by length.
#include <algorithm>
#include <cmath>
#include <memory>

#include "client/commands/input.h"
#include "client/eval/eval.h"
#include "client/parallel.h"
#include "client/text_windows.h"
#include "nlohmann/json.hpp"

namespace longstream::client {
namespace {

constexpr uint64_t kFirstEdge = 64;

struct TextOptions {
  EvalOptions eval;
  std::string file;
  size_t max_bytes = 0;
  std::vector<uint64_t> edges;
};

// Figures for each position in windows of one length. Position 0 has no figures.
using ByPosition = std::vector<Figures>;

// Scores windows of about `length` tokens, each from an empty history. Ignores the positions from
// `length` on.
ByPosition ScoreWindows(Connection& connection, const std::string& model, const std::string& text,
                        double bytes_per_token, uint64_t length, int streams) {
  const size_t bytes =
      static_cast<size_t>(std::ceil(bytes_per_token * static_cast<double>(length)));
  const std::vector<std::string> windows = Windows(text, bytes);
  if (windows.empty()) {
    throw CLI::ValidationError("--lengths", std::to_string(length) + " tokens of " + model +
                                                " are about " + std::to_string(bytes) +
                                                " bytes, and the text has " +
                                                std::to_string(text.size()));
  }
  const auto score = [&](int i) {
    ByPosition of_window(length);
    v1::ScoreRequest request;
    request.set_model(model);
    request.mutable_input()->set_text(windows[static_cast<size_t>(i)]);
    connection.Score(request, [&](const v1::ScoreResponse& piece) {
      uint64_t position = piece.first_index();
      for (const v1::TokenScore& token : piece.tokens()) {
        if (token.has_log_prob() && position < length) {
          of_window[position] = {1, token.top1() ? 1u : 0u, token.log_prob()};
        }
        ++position;
      }
    });
    return of_window;
  };
  // Add the figures in order, so that sums have the same bits in every run.
  ByPosition sums(length);
  ForEachInOrder<ByPosition>(static_cast<int>(windows.size()), streams, score,
                             [&sums](const ByPosition& of_window) {
                               for (size_t i = 0; i < sums.size(); ++i) sums[i].Add(of_window[i]);
                             });
  return sums;
}

Figures Sum(const ByPosition& by_position, uint64_t begin, uint64_t end) {
  Figures sum;
  for (uint64_t i = begin; i < std::min<uint64_t>(end, by_position.size()); ++i) {
    sum.Add(by_position[i]);
  }
  return sum;
}

// Returns the ends of the ranges of positions: the values of --positions or powers of two, and the
// length itself.
std::vector<uint64_t> Edges(const TextOptions& options, uint64_t length) {
  std::vector<uint64_t> edges = options.edges;
  if (edges.empty()) {
    for (uint64_t edge = kFirstEdge; edge < length; edge *= 2) edges.push_back(edge);
  }
  edges.push_back(length);
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  edges.erase(std::upper_bound(edges.begin(), edges.end(), length), edges.end());
  return edges;
}

// `figures` has a list per model, with an entry per length.
Report MakeReport(const TextOptions& options, const std::vector<std::vector<ByPosition>>& figures) {
  const std::vector<uint64_t>& lengths = options.eval.lengths;
  Report report{"text", "Next token", options.eval.models, /*likelihood=*/true, {}, 0};
  report.mark = static_cast<double>(options.eval.mark);
  const size_t longest =
      static_cast<size_t>(std::max_element(lengths.begin(), lengths.end()) - lengths.begin());

  Grid& positions = report.grids.emplace_back(Grid{"position", {}});
  uint64_t begin = 0;
  for (const uint64_t end : Edges(options, lengths[longest])) {
    Row row{std::to_string(begin) + "-" + std::to_string(end - 1),
            static_cast<double>(begin + end) / 2,
            {}};
    for (const auto& by_length : figures) row.models.push_back(Sum(by_length[longest], begin, end));
    positions.rows.push_back(std::move(row));
    begin = end;
  }
  Grid& whole = report.grids.emplace_back(Grid{"length", {}});
  for (size_t i = 0; i < lengths.size(); ++i) {
    Row row{std::to_string(lengths[i]), static_cast<double>(lengths[i]), {}};
    for (const auto& by_length : figures) row.models.push_back(Sum(by_length[i], 0, lengths[i]));
    whole.rows.push_back(std::move(row));
  }
  return report;
}

void Evaluate(const Global& global, TextOptions options) {
  std::string text = ReadFile(options.file, "file");
  if (options.max_bytes > 0 && options.max_bytes < text.size()) {
    text = Windows(text, options.max_bytes, 1).front();
  }
  if (text.empty()) throw CLI::ValidationError("file", options.file + " is empty");
  const std::string beginning = Windows(text, std::min(text.size(), kCalibrationBytes), 1).front();
  std::vector<std::vector<ByPosition>> figures;
  ForEachModel(global, &options.eval, beginning,
               [&](Connection& connection, const std::string& model, double bytes_per_token) {
                 std::vector<ByPosition>& by_length = figures.emplace_back();
                 for (const uint64_t length : options.eval.lengths) {
                   by_length.push_back(ScoreWindows(connection, model, text, bytes_per_token,
                                                    length, options.eval.streams));
                 }
               });
  const Report report = MakeReport(options, figures);
  nlohmann::ordered_json json = JsonOf(report);
  json["bytes"] = text.size();
  Publish(global, options.eval, report, json);
}

}  // namespace

void AddEvalText(CLI::App* eval, const Global* global) {
  auto options = std::make_shared<TextOptions>();
  options->eval.lengths = {512, 4096};
  CLI::App* command = AddEvaluation(
      eval, "text", "Accuracy and perplexity of the next token, by position and by length",
      &options->eval);
  command->add_option("file", options->file, "file with the text; -: standard input")->required();
  command
      ->add_option("--max-bytes", options->max_bytes,
                   "use only the beginning of the text; 0: all of it")
      ->check(WholeNumber());
  command
      ->add_option("--positions", options->edges,
                   "where ranges of positions end, separated by commas; default: 64, 128, 256 …")
      ->delimiter(',')
      ->check(WholeNumber(1, 1 << 24));
  command->footer(
      "For each length, the text is cut into windows, and each is scored from an empty history.\n"
      "The table by position is for the greatest length.\n"
      "Example:\n"
      "  longstream eval text -m dense -m hwfa2 --lengths 512,4096 models/demo/heldout.txt");
  command->callback([=] { Evaluate(*global, *options); });
}

}  // namespace longstream::client
