// The figures of handovers, as a table and as JSON.
#ifndef LONGSTREAM_TESTS_BENCH_HANDOVER_HANDOVER_FIGURES_H_
#define LONGSTREAM_TESTS_BENCH_HANDOVER_HANDOVER_FIGURES_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace longstream::bench {

// Milliseconds, one value for each repeat.
using Times = std::vector<double>;

// How a session came to a replica.
struct Moves {
  Times first_token;  // of the turn that found the session there, or brought it
  Times whole;
  Times caches;
};

// The figures of a model and a length of the history.
struct HandoverFigures {
  std::string model;
  uint64_t tokens = 0;
  uint64_t bytes = 0;     // of the caches
  Times local;            // to the first token, of a turn on the replica that has the session
  Moves fetched;          // the turn comes to the other replica
  Times later;            // first_token of `fetched` beyond `local`, pair by pair
  Moves offered;          // the replica has handed the session over at its end
  Times ended;            // from SIGTERM to the end of that replica
  Times recomputed;       // to the first token, of a turn that has the log alone
  double prefill_ms = 0;  // of the history, when it was new
};

void PrintTitles();
void Print(const HandoverFigures& figures);
nlohmann::ordered_json ToJson(const HandoverFigures& figures);

}  // namespace longstream::bench

#endif  // LONGSTREAM_TESTS_BENCH_HANDOVER_HANDOVER_FIGURES_H_
