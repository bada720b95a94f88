// The numbers of a Load by name.
#ifndef LONGSTREAM_SERVICE_LOAD_LOAD_SIGNALS_H_
#define LONGSTREAM_SERVICE_LOAD_LOAD_SIGNALS_H_

#include <array>
#include <string>
#include <string_view>

#include "service/load/load.h"

namespace longstream {

// The name is the same everywhere: in ORCA's reports, in the metadata of KEDA's triggers, and
// behind "longstream_load_" in Prometheus.
struct LoadSignal {
  const char* name;
  double Load::*value;
  const char* meaning;  // for Prometheus
};

inline constexpr std::array kLoadSignals = {
    LoadSignal{"turns_running", &Load::turns_running,
               "Turns with a place in the batch, of all models"},
    LoadSignal{"turns_waiting", &Load::turns_waiting,
               "Turns that wait for memory or for a place, of all models"},
    LoadSignal{"queue_seconds", &Load::queue_seconds,
               "Mean time in which turns got their first place in the batch, of all models"},
    LoadSignal{"utilization", &Load::utilization,
               "Turns for each place in the batch, of the model that is used most"},
    LoadSignal{"cache_usage", &Load::cache_usage,
               "Share of the cache budget that is used, of the model that uses most of it"},
    LoadSignal{"session_bytes", &Load::session_bytes,
               "Share of the host's memory for sessions that they hold"},
    LoadSignal{"cpu_utilization", &Load::cpu_utilization,
               "Share of the processor time that the process may use"},
    LoadSignal{"memory_utilization", &Load::memory_utilization,
               "Share of the host's memory that the process may use"},
    LoadSignal{"tokens_per_second", &Load::tokens_per_second, "Tokens generated per second"},
    LoadSignal{"turns_per_second", &Load::turns_per_second, "Turns that ended per second"},
    LoadSignal{"failed_turns_per_second", &Load::failed_turns_per_second,
               "Turns per second that the server failed"},
};

// Null: there is no signal of this name.
const LoadSignal* FindLoadSignal(std::string_view name);
// The names of all signals, with commas between them.
std::string LoadSignalNames();

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_LOAD_LOAD_SIGNALS_H_
