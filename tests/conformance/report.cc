// The lines that the conformance kit prints.
#include "tests/conformance/report.h"

#include <ostream>

namespace longstream::conformance {

void Report::Finish(const std::string& name, const Check& check) {
  if (check.failures().empty()) {
    ++num_passed_;
    out_ << "passed          " << name << std::endl;
    return;
  }
  ++num_failed_;
  out_ << "FAILED          " << name << ": " << check.failures().front();
  if (check.failures().size() > 1) {
    out_ << " (and " << check.failures().size() - 1 << " more)";
  }
  out_ << std::endl;
}

void Report::NotApplicable(const std::string& name, const std::string& why) {
  ++num_not_applicable_;
  out_ << "not applicable  " << name << ": " << why << std::endl;
}

void Report::Summarise() {
  out_ << num_passed_ << " passed, " << num_failed_ << " failed, " << num_not_applicable_
       << " not applicable" << std::endl;
}

}  // namespace longstream::conformance
