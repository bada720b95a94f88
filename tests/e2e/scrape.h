// Reads a server's metrics as Prometheus does.
#ifndef LONGSTREAM_TESTS_E2E_SCRAPE_H_
#define LONGSTREAM_TESTS_E2E_SCRAPE_H_

#include <map>
#include <optional>
#include <string>

namespace longstream {

// Returns the body of GET http://127.0.0.1:PORT/metrics. Throws std::runtime_error unless the
// status is 200.
std::string Scrape(int port);

// Returns the value of the first sample that has this name and all of these labels.
std::optional<double> SampleValue(const std::string& text, const std::string& name,
                                  const std::map<std::string, std::string>& labels);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_E2E_SCRAPE_H_
