// Prints the rows of a twin and its summary.
#include "client/commands/twin_output.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

#include "client/commands/turn_output.h"
#include "client/output.h"
#include "nlohmann/json.hpp"

namespace longstream::client {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kTableRows = 10;

// Rows without a KL come last.
double KlOf(const v1::TwinRow& row) { return row.has_kl() ? row.kl() : -1; }

// The indices of the rows with the greatest KL, in the order of their tokens.
std::vector<size_t> MostDifferent(const std::vector<v1::TwinRow>& rows) {
  std::vector<size_t> indices(rows.size());
  std::iota(indices.begin(), indices.end(), size_t{0});
  std::stable_sort(indices.begin(), indices.end(),
                   [&](size_t a, size_t b) { return KlOf(rows[a]) > KlOf(rows[b]); });
  indices.resize(std::min(indices.size(), kTableRows));
  std::sort(indices.begin(), indices.end());
  return indices;
}

template <typename... Values>
std::string Format(const char* format, Values... values) {
  char text[256];
  std::snprintf(text, sizeof(text), format, values...);
  return text;
}

double Mean(double sum, uint64_t count) {
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

Json RowJson(const v1::TwinRow& row) {
  Json json = {{"token_id", row.token_id()},
               {"token", row.token()},
               {"log_prob", row.log_prob()},
               {"twin_log_prob", row.twin_log_prob()},
               {"rank", row.rank()},
               {"twin_rank", row.twin_rank()},
               {"best_token", row.best_token()},
               {"twin_best_token", row.twin_best_token()},
               {"twin_best", row.twin_best()},
               {"same_best", row.same_best()},
               {"delta_p", row.delta_p()}};
  if (row.has_kl()) json["kl"] = row.kl();
  return json;
}

}  // namespace

void PrintTwinTable(const Generation& generation) {
  const std::vector<v1::TwinRow>& rows = generation.twin_rows;
  if (rows.empty()) return;
  if (rows.size() > kTableRows) {
    Print(Format("The %zu of %zu tokens with the greatest KL; --json has all:\n", kTableRows,
                 rows.size()));
  }
  Print(Format("%8s  %9s  %9s  %9s  %9s  %s\n", "token", "log-prob", "twin", "twin rank", "KL",
               "text, and the twin's best if it is another"));
  for (const size_t index : MostDifferent(rows)) {
    const v1::TwinRow& row = rows[index];
    const std::string kl = row.has_kl() ? Format("%9.5f", row.kl()) : Format("%9s", "-");
    Print(Format("%8zu  %9.4f  %9.4f  %9u  ", index, static_cast<double>(row.log_prob()),
                 static_cast<double>(row.twin_log_prob()), row.twin_rank()) +
          kl + "  " + Dump(row.token(), -1) +
          (row.twin_best_token() == row.token_id() ? "" : "  " + Dump(row.twin_best(), -1)) + "\n");
  }
}

void PrintTwinSummary(const Generation& generation) {
  if (!generation.finish.has_twin()) return;
  const v1::TwinSummary& twin = generation.finish.twin();
  std::cerr << "[twin " << twin.model() << ": " << twin.rows() << " of "
            << generation.finish.usage().generated_tokens() << " tokens compared";
  if (twin.kl_rows() > 0) {
    std::cerr << Format(", KL %.5f on average, %.5f at most", Mean(twin.sum_kl(), twin.kl_rows()),
                        twin.max_kl());
  }
  if (twin.rows() > 0) {
    const double same = Mean(static_cast<double>(twin.same_best()), twin.rows());
    std::cerr << Format(", same best token at %.1f %%", 100 * same);
    if (twin.has_first_difference()) {
      std::cerr << ", first another one at token " << twin.first_difference();
    }
    std::cerr << Format(", log-probability %.4f against %.4f",
                        Mean(twin.sum_twin_log_prob(), twin.rows()),
                        Mean(twin.sum_log_prob(), twin.rows()));
  }
  if (twin.code() != 0) std::cerr << "; lost: " << twin.error();
  std::cerr << "]\n";
}

Json TwinJson(const Generation& generation) {
  const v1::TwinSummary& twin = generation.finish.twin();
  Json json = {{"model", twin.model()},
               {"code", twin.code()},
               {"error", twin.error()},
               {"compared_tokens", twin.rows()},
               {"kl_tokens", twin.kl_rows()},
               {"sum_kl", twin.sum_kl()},
               {"max_kl", twin.max_kl()},
               {"same_best", twin.same_best()},
               {"sum_log_prob", twin.sum_log_prob()},
               {"sum_twin_log_prob", twin.sum_twin_log_prob()}};
  if (twin.has_first_difference()) json["first_difference"] = twin.first_difference();
  json["rows"] = Json::array();
  for (const v1::TwinRow& row : generation.twin_rows) json["rows"].push_back(RowJson(row));
  return json;
}

}  // namespace longstream::client
