// Prints medians, with the least and the greatest value.
#include "tests/bench/handover/handover_figures.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tests/bench/timing.h"

namespace longstream::bench {
namespace {

std::string Text(const Times& times) {
  if (times.empty()) return "-";
  const auto [least, most] = std::minmax_element(times.begin(), times.end());
  char text[64];
  std::snprintf(text, sizeof(text), "%.1f (%.1f-%.1f)", Median(times), *least, *most);
  return text;
}

nlohmann::ordered_json Json(const Times& times) {
  if (times.empty()) return nullptr;
  const auto [least, most] = std::minmax_element(times.begin(), times.end());
  return {{"median", Median(times)}, {"least", *least}, {"most", *most}, {"count", times.size()}};
}

nlohmann::ordered_json Json(const Moves& moves) {
  return {{"first_token", Json(moves.first_token)},
          {"whole", Json(moves.whole)},
          {"caches", Json(moves.caches)}};
}

}  // namespace

void PrintTitles() {
  std::printf(
      "milliseconds: median (least-greatest)\n%-8s %6s %11s  %-18s %-20s %-20s %-20s %-20s "
      "%-20s %-20s %s\n",
      "model", "tokens", "bytes", "turn where it is", "turn elsewhere", "later by", "fetch, whole",
      "its caches", "offer, whole", "turn after offer", "turn from the log");
}

void Print(const HandoverFigures& figures) {
  std::printf("%-8s %6llu %11llu  %-18s %-20s %-20s %-20s %-20s %-20s %-20s %s\n",
              figures.model.c_str(), static_cast<unsigned long long>(figures.tokens),
              static_cast<unsigned long long>(figures.bytes), Text(figures.local).c_str(),
              Text(figures.fetched.first_token).c_str(), Text(figures.later).c_str(),
              Text(figures.fetched.whole).c_str(), Text(figures.fetched.caches).c_str(),
              Text(figures.offered.whole).c_str(), Text(figures.offered.first_token).c_str(),
              Text(figures.recomputed).c_str());
  std::fflush(stdout);
}

nlohmann::ordered_json ToJson(const HandoverFigures& figures) {
  return {{"model", figures.model},
          {"tokens", figures.tokens},
          {"bytes", figures.bytes},
          {"milliseconds",
           {{"local", Json(figures.local)},
            {"fetched", Json(figures.fetched)},
            {"later", Json(figures.later)},
            {"offered", Json(figures.offered)},
            {"ended", Json(figures.ended)},
            {"recomputed", Json(figures.recomputed)},
            {"prefill", figures.prefill_ms}}}};
}

}  // namespace longstream::bench
