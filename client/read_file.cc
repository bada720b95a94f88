#include "client/read_file.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>

namespace longstream::client {

std::string ReadFile(const std::string& path) {
  std::error_code error;
  // A directory can be opened, but the first read from it would throw.
  if (std::filesystem::is_directory(path, error)) {
    throw std::invalid_argument(path + " is a directory");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::invalid_argument(path + " cannot be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace longstream::client
