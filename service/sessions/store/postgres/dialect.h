// The SQL of the log in PostgreSQL's words.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_DIALECT_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_DIALECT_H_

#include <string>
#include <string_view>

namespace longstream::store {

// Replaces the names of types, of parameters and of the few functions in which SQLite and
// PostgreSQL differ. `writes`: takes locks and the parts that are PostgreSQL's alone out of their
// comments.
std::string ToPostgres(std::string_view sql, bool writes);

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_DIALECT_H_
