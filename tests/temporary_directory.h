// A directory for the files of one test. Functions throw std::runtime_error if a file or the
// directory cannot be written.
#ifndef LONGSTREAM_TESTS_TEMPORARY_DIRECTORY_H_
#define LONGSTREAM_TESTS_TEMPORARY_DIRECTORY_H_

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace longstream {

// The constructor makes an empty directory; the destructor removes it with its contents.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "longstream-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string string() const { return path_.string(); }

  // Writes a file and returns its path.
  std::string Write(const std::string& name, std::string_view content) const {
    std::string file = (path_ / name).string();
    if (!(std::ofstream(file, std::ios::binary) << content).flush()) {
      throw std::runtime_error("cannot write " + file);
    }
    return file;
  }
  // The same for a file that nobody but its owner may use.
  std::string WriteSecret(const std::string& name, std::string_view content) const {
    using std::filesystem::perms;
    std::string file = Write(name, content);
    std::filesystem::permissions(file, perms::owner_read | perms::owner_write);
    return file;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_TEMPORARY_DIRECTORY_H_
