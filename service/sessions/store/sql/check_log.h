// Looks for damage in the tables of the log.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_CHECK_LOG_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_CHECK_LOG_H_

#include <cstddef>
#include <string>
#include <vector>

#include "service/sessions/store/sql/database.h"

namespace longstream::store {

// Runs the database's own checks, then checks every row's checksum and the links between rows.
// Returns one sentence for each fault, at most `limit`. If the file cannot be read to the end, the
// last sentence says so.
std::vector<std::string> CheckLog(Database& database, size_t limit);

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_CHECK_LOG_H_
