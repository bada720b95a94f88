// The kit's output: one line per check, and the number of failures.
#ifndef LONGSTREAM_TESTS_CONFORMANCE_REPORT_H_
#define LONGSTREAM_TESTS_CONFORMANCE_REPORT_H_

#include <algorithm>
#include <exception>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

namespace longstream::conformance {

// Exceptions that end a check at once; Report::Run catches them.
struct CheckFailed {
  std::string why;
};
struct CheckNotApplicable {
  std::string why;
};

// A check in progress. Expect notes a failure and goes on; Require ends the check. Not thread-safe.
class Check {
 public:
  // Returns `ok`, so that a caller can stop after a failure.
  bool Expect(bool ok, const std::string& why) {
    if (!ok) failures_.push_back(why);
    return ok;
  }
  void Require(bool ok, const std::string& why) const {
    if (!ok) throw CheckFailed{why};
  }

  const std::vector<std::string>& failures() const { return failures_; }

 private:
  std::vector<std::string> failures_;
};

// Runs, counts and prints checks. `out` must outlive it. Not thread-safe.
class Report {
 public:
  explicit Report(std::ostream& out) : out_(out) {}

  // From now on, runs only checks whose names begin with one of the prefixes. Empty: runs all.
  void RunOnly(std::vector<std::string> prefixes) { only_ = std::move(prefixes); }

  // Runs body(check) and prints a line for the check. An exception counts as a failure.
  template <typename Body>
  void Run(const std::string& name, Body&& body) {
    if (!IsWanted(name)) return;
    Check check;
    try {
      body(check);
      Finish(name, check);
    } catch (const CheckNotApplicable& end) {
      check.failures().empty() ? NotApplicable(name, end.why) : Finish(name, check);
    } catch (const CheckFailed& end) {
      check.Expect(false, end.why);
      Finish(name, check);
    } catch (const std::exception& end) {
      check.Expect(false, end.what());
      Finish(name, check);
    }
  }

  void NotApplicable(const std::string& name, const std::string& why);

  // Prints how many checks passed, failed and were not applicable.
  void Summarise();

  int num_failed() const { return num_failed_; }
  int num_passed() const { return num_passed_; }
  int num_run() const { return num_passed_ + num_failed_ + num_not_applicable_; }

 private:
  bool IsWanted(const std::string& name) const {
    return only_.empty() || std::any_of(only_.begin(), only_.end(), [&](const std::string& prefix) {
             return name.starts_with(prefix);
           });
  }
  void Finish(const std::string& name, const Check& check);

  std::ostream& out_;
  std::vector<std::string> only_;
  int num_passed_ = 0;
  int num_failed_ = 0;
  int num_not_applicable_ = 0;
};

}  // namespace longstream::conformance

#endif  // LONGSTREAM_TESTS_CONFORMANCE_REPORT_H_
