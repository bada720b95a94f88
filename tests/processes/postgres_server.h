// A PostgreSQL server of a test's own, in a folder of its own, on a free port of the loopback.
#ifndef LONGSTREAM_TESTS_PROCESSES_POSTGRES_SERVER_H_
#define LONGSTREAM_TESTS_PROCESSES_POSTGRES_SERVER_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

namespace longstream {

// The folder is in memory where the system has such one, so fsync is on and costs nothing. As root,
// the server runs as another user, as PostgreSQL demands. The destructor ends the server and
// removes the folder; the server also ends when the thread ends that has started it.
//
// Functions throw std::runtime_error if PostgreSQL is not installed, or does not do what it should.
class PostgresServer {
 public:
  static constexpr const char* kPassword = "correct-horse";

  // Makes and starts a server. `settings`: such as {"synchronous_commit=off"}.
  explicit PostgresServer(std::vector<std::string> settings = {});
  // A standby that copies `primary`, which waits for it with each commit from now on.
  static std::unique_ptr<PostgresServer> StandbyOf(PostgresServer& primary);
  ~PostgresServer();
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;

  int port() const { return port_; }
  // The URL of a database, without a password, through the socket of the folder.
  std::string Url(const std::string& database) const;
  // The same through TCP, where the server asks for kPassword.
  std::string TcpUrl(const std::string& database, const std::string& password = kPassword) const;
  // Makes an empty database and returns its name.
  std::string NewDatabase();
  // Runs statements. Returns the first column of the last one's first row.
  std::string Sql(const std::string& database, const std::string& sql) const;

  // Ends the server as a crash does, but for what is in the system's memory. It recovers at Start.
  void Crash();
  // Ends the server; it closes all connections.
  void Stop();
  void Start();
  // Stops all of the server's processes (SIGSTOP), and lets them go on.
  void Freeze();
  void Thaw();
  // Makes a standby the primary.
  void Promote();
  // Sets a setting in the file, and reads the file again.
  void Set(const std::string& name, const std::string& value);

 private:
  struct NoData {};
  explicit PostgresServer(NoData);

  void MakeFolder();
  std::string Data() const { return folder_ + "/data"; }
  // Runs a program of PostgreSQL until it ends, as the server's user.
  void Run(const std::string& program, const std::vector<std::string>& arguments) const;
  pid_t Spawn(const std::string& program, const std::vector<std::string>& arguments) const;
  void End(int signal);
  void WaitUntilReady() const;
  std::string Log() const;
  std::vector<pid_t> Processes() const;

  std::string folder_;
  int port_ = 0;
  pid_t pid_ = -1;
  int databases_ = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_PROCESSES_POSTGRES_SERVER_H_
