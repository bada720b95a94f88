// Wraps each op of an op table in a timer.
#include "tests/bench/model/timed_ops.h"

#include <algorithm>
#include <map>

#include "tests/bench/timing.h"

namespace longstream {
namespace {

// Seconds in each op since the last TakeOpSeconds.
std::map<std::string, double>& Sums() {
  static std::map<std::string, double> sums;
  return sums;
}

// Puts a timed form of the op kMember into the table.
template <auto kMember, typename Args>
void Wrap(const char* name, void (*OpTable::*)(Stream&, const Args&), OpTable* table) {
  static double* const sum = &Sums()[name];
  table->*kMember = [](Stream& stream, const Args& args) {
    *sum += SecondsOf([&] { (DeviceOps().*kMember)(stream, args); });
  };
}

// Returns the sum for a product. There are three sums, by the work that follows the product: none,
// an activation, or the addition to the residual stream.
double& SumOf(const LinearArgs& args) {
  static double* const plain = &Sums()["linear"];
  static double* const activated = &Sums()["linear_activated"];
  static double* const added = &Sums()["linear_added"];
  if (args.activation != Activation::kNone) return *activated;
  return args.accumulate ? *added : *plain;
}

OpTable MakeTable() {
  OpTable table = DeviceOps();
  Wrap<&OpTable::embed>("embed", &OpTable::embed, &table);
  table.linear = [](Stream& stream, const LinearArgs& args) {
    SumOf(args) += SecondsOf([&] { DeviceOps().linear(stream, args); });
  };
  Wrap<&OpTable::norm_rows>("norm_rows", &OpTable::norm_rows, &table);
  Wrap<&OpTable::gau_activate>("gau_activate", &OpTable::gau_activate, &table);
  Wrap<&OpTable::soft_cap>("soft_cap", &OpTable::soft_cap, &table);
  Wrap<&OpTable::rope_table>("rope_table", &OpTable::rope_table, &table);
  Wrap<&OpTable::logit_scale>("logit_scale", &OpTable::logit_scale, &table);
  Wrap<&OpTable::rope_cache_write>("rope_cache_write", &OpTable::rope_cache_write, &table);
  Wrap<&OpTable::attention>("attention", &OpTable::attention, &table);
  Wrap<&OpTable::ring_write>("ring_write", &OpTable::ring_write, &table);
  Wrap<&OpTable::ring_rebuild>("ring_rebuild", &OpTable::ring_rebuild, &table);
  Wrap<&OpTable::linear_recurrence>("linear_recurrence", &OpTable::linear_recurrence, &table);
  Wrap<&OpTable::sample>("sample", &OpTable::sample, &table);
  Wrap<&OpTable::log_probs>("log_probs", &OpTable::log_probs, &table);
  Wrap<&OpTable::finite_rows>("finite_rows", &OpTable::finite_rows, &table);
  Wrap<&OpTable::gather_rows>("gather_rows", &OpTable::gather_rows, &table);
  Wrap<&OpTable::route>("route", &OpTable::route, &table);
  Wrap<&OpTable::expert_hidden>("expert_hidden", &OpTable::expert_hidden, &table);
  Wrap<&OpTable::expert_sum>("expert_sum", &OpTable::expert_sum, &table);
  return table;
}

}  // namespace

const OpTable& TimedOps() {
  static const OpTable table = MakeTable();
  return table;
}

std::vector<std::pair<std::string, double>> TakeOpSeconds() {
  std::vector<std::pair<std::string, double>> ops;
  for (auto& [name, seconds] : Sums()) {
    if (seconds > 0) ops.emplace_back(name, seconds);
    seconds = 0;
  }
  std::sort(ops.begin(), ops.end(),
            [](const auto& a, const auto& b) { return a.second > b.second; });
  return ops;
}

}  // namespace longstream
