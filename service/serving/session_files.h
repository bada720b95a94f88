// How sessions are written to files and read from them.
#ifndef LONGSTREAM_SERVICE_SERVING_SESSION_FILES_H_
#define LONGSTREAM_SERVICE_SERVING_SESSION_FILES_H_

#include "service/sealing/sealing_keys.h"

namespace longstream {

struct SessionFiles {
  Sealing sealing;           // without keys, files cannot be sealed, and sealed ones not be read
  bool only_sealed = false;  // whether other files are refused
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_SESSION_FILES_H_
