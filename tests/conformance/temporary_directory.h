// A directory for the files of one check.
#ifndef LONGSTREAM_TESTS_CONFORMANCE_TEMPORARY_DIRECTORY_H_
#define LONGSTREAM_TESTS_CONFORMANCE_TEMPORARY_DIRECTORY_H_

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/conformance/report.h"

namespace longstream::conformance {

// Made empty, removed with what is in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "conformance-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw CheckFailed{"cannot make the directory " + name};
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

  void Write(const std::string& name, const std::string& content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace longstream::conformance

#endif  // LONGSTREAM_TESTS_CONFORMANCE_TEMPORARY_DIRECTORY_H_
