// SQLite's write-ahead log, before SQLite reads it.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_SQLITE_WAL_FILE_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_SQLITE_WAL_FILE_H_

#include <string>

#include "absl/status/status.h"

namespace longstream::store {

// Makes the write-ahead log of the closed database `path` durable as it reads now: writes its own
// bytes over it, and calls fsync. After a failed fsync a system may hold bytes that are not on the
// disk and that later calls of fsync do not write either. SQLite would accept these bytes as
// committed, and a loss of power would then take them, and all that follows them. OK if there is no
// such file. `vfs`: as for SqliteDatabase::Open.
//
// DATA_LOSS: a frame is damaged, and a whole transaction follows it. SQLite would read up to the
// damaged frame and silently drop the rest, as if power had failed in that transaction. But SQLite
// writes a transaction only when the one before is durable, so here the bytes of a durable one have
// changed.
//
// REQUIRES: since power failed before, SQLite has emptied the file, as SqliteStore::Open makes it
// do. Writing a range of the file does not change bytes outside of it (SQLite's "powersafe
// overwrite", which its own VFS for Unix assumes also).
absl::Status RenewWal(const std::string& path, const std::string& vfs);

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_SQLITE_WAL_FILE_H_
