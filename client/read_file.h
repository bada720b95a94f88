// Reads whole files.
#ifndef LONGSTREAM_CLIENT_READ_FILE_H_
#define LONGSTREAM_CLIENT_READ_FILE_H_

#include <string>

namespace longstream::client {

// Returns all bytes of the file at `path`. Throws std::invalid_argument, which names the path, if
// it cannot be read or is a directory.
std::string ReadFile(const std::string& path);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_READ_FILE_H_
