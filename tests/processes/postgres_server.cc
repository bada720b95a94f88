// Runs initdb, pg_basebackup and postgres of Debian's package.
#include "tests/processes/postgres_server.h"

#include <fcntl.h>
#include <grp.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

#include "tests/processes/free_port.h"

namespace longstream {
namespace {

namespace fs = std::filesystem;

constexpr auto kPatience = std::chrono::minutes(2);

// The folder of the newest version's programs.
std::string Programs() {
  const fs::path all = "/usr/lib/postgresql";
  fs::path newest;
  std::error_code error;
  for (const auto& version : fs::directory_iterator(all, error)) {
    if (fs::exists(version.path() / "bin/postgres")) newest = std::max(newest, version.path());
  }
  if (newest.empty()) {
    throw std::runtime_error(
        "PostgreSQL's server is not installed: install the Debian package postgresql "
        "(tools/install_packages.sh)");
  }
  return (newest / "bin").string();
}

struct User {
  bool is_other = false;
  uid_t user = 0;
  gid_t group = 0;
};

// PostgreSQL does not run as root.
User ServerUser() {
  if (geteuid() != 0) return {};
  for (const char* name : {"postgres", "nobody"}) {
    if (const passwd* found = getpwnam(name)) {
      return {.is_other = true, .user = found->pw_uid, .group = found->pw_gid};
    }
  }
  throw std::runtime_error("there is no user 'postgres' or 'nobody' for PostgreSQL");
}

// Gives a file to the server's user.
void GiveAway(const std::string& path) {
  const User user = ServerUser();
  if (user.is_other && chown(path.c_str(), user.user, user.group) != 0) {
    throw std::runtime_error("cannot give away " + path);
  }
}

std::string Escaped(const std::string& path) {
  std::string text;
  for (const char c : path) text += c == '/' ? std::string("%2F") : std::string(1, c);
  return text;
}

}  // namespace

PostgresServer::PostgresServer(NoData) {}

// The destructor runs when the other constructor has ended, also if this one throws.
PostgresServer::PostgresServer(std::vector<std::string> settings) : PostgresServer(NoData{}) {
  MakeFolder();
  std::ofstream(folder_ + "/password") << kPassword;
  GiveAway(folder_ + "/password");  // initdb's user reads it, whatever the umask is
  Run("initdb", {"--pgdata", Data(), "--username", "longstream", "--encoding", "UTF8", "--locale",
                 "C", "--no-sync", "--auth-local", "trust", "--auth-host", "scram-sha-256",
                 "--pwfile", folder_ + "/password", "--wal-segsize", "1"});
  std::ofstream file(Data() + "/postgresql.conf", std::ios::app);
  file << "unix_socket_directories = '" << folder_ << "'\n"
       << "listen_addresses = '127.0.0.1'\nmax_connections = 60\nshared_buffers = 16MB\n"
       << "fsync = on\njit = off\nautovacuum = off\nmin_wal_size = 2MB\nmax_wal_size = 64MB\n"
       << "max_worker_processes = 2\nwal_level = replica\nlog_min_messages = warning\n"
       << "password_encryption = scram-sha-256\n";
  for (const std::string& setting : settings) file << setting << "\n";
  file.close();
  Start();
}

std::unique_ptr<PostgresServer> PostgresServer::StandbyOf(PostgresServer& primary) {
  std::unique_ptr<PostgresServer> standby(new PostgresServer(NoData{}));
  standby->MakeFolder();
  standby->Run("pg_basebackup", {"--host", primary.folder_, "--port", std::to_string(primary.port_),
                                 "--username", "longstream", "--pgdata", standby->Data(),
                                 "--write-recovery-conf", "--checkpoint", "fast", "--no-sync"});
  std::ofstream(standby->Data() + "/postgresql.auto.conf", std::ios::app)
      << "primary_conninfo = 'host=" << primary.folder_ << " port=" << primary.port_
      << " user=longstream application_name=standby'\n"
      << "synchronous_standby_names = ''\n"
      << "unix_socket_directories = '" << standby->folder_ << "'\n";
  standby->Start();
  primary.Set("synchronous_standby_names", "standby");
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (primary.Sql("postgres",
                     "SELECT count(*) FROM pg_stat_replication WHERE sync_state = "
                     "'sync'") != "1") {
    if (std::chrono::steady_clock::now() > end) throw std::runtime_error(standby->Log());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return standby;
}

PostgresServer::~PostgresServer() {
  if (pid_ > 0) {
    Thaw();
    kill(pid_, SIGQUIT);
    waitpid(pid_, nullptr, 0);
  }
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void PostgresServer::MakeFolder() {
  const bool has_memory = access("/dev/shm", W_OK) == 0;
  folder_ =
      (has_memory ? fs::path("/dev/shm") : fs::temp_directory_path()) / "longstream-pg-XXXXXX";
  if (mkdtemp(folder_.data()) == nullptr) {
    throw std::runtime_error("cannot make " + std::exchange(folder_, ""));
  }
  GiveAway(folder_);
  port_ = FreePort();
}

pid_t PostgresServer::Spawn(const std::string& program,
                            const std::vector<std::string>& arguments) const {
  const std::string path = Programs() + "/" + program, log = folder_ + "/log";
  const User user = ServerUser();
  std::vector<char*> values = {const_cast<char*>(path.c_str())};
  for (const std::string& argument : arguments) {
    values.push_back(const_cast<char*>(argument.c_str()));
  }
  values.push_back(nullptr);
  const pid_t pid = fork();
  if (pid != 0) return pid;
  if (user.is_other &&
      (setgroups(0, nullptr) != 0 || setgid(user.group) != 0 || setuid(user.user) != 0)) {
    _exit(126);
  }
  prctl(PR_SET_PDEATHSIG, SIGQUIT);
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
  dup2(out, 1);
  dup2(out, 2);
  if (chdir(folder_.c_str()) != 0) _exit(126);
  execv(path.c_str(), values.data());
  _exit(127);
}

void PostgresServer::Run(const std::string& program,
                         const std::vector<std::string>& arguments) const {
  int status = 0;
  if (waitpid(Spawn(program, arguments), &status, 0) < 0 || status != 0) {
    throw std::runtime_error(program + " failed:\n" + Log());
  }
}

std::string PostgresServer::Log() const {
  std::ostringstream text;
  text << std::ifstream(folder_ + "/log").rdbuf();
  return text.str();
}

void PostgresServer::Start() {
  pid_ = Spawn("postgres", {"-D", Data(), "-p", std::to_string(port_)});
  WaitUntilReady();
}

void PostgresServer::WaitUntilReady() const {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (PQping(Url("postgres").c_str()) != PQPING_OK) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_ || std::chrono::steady_clock::now() > end) {
      throw std::runtime_error("PostgreSQL does not start:\n" + Log());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void PostgresServer::End(int signal) {
  kill(pid_, signal);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void PostgresServer::Crash() { End(SIGQUIT); }
void PostgresServer::Stop() { End(SIGINT); }

std::vector<pid_t> PostgresServer::Processes() const {
  std::vector<pid_t> all = {pid_};
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "stat");
    std::string text;
    std::getline(file, text);
    // PID (NAME) STATE PARENT; the name may have spaces.
    const size_t name_end = text.rfind(')');
    if (name_end == std::string::npos) continue;
    std::istringstream rest(text.substr(name_end + 1));
    std::string state;
    pid_t parent = 0;
    rest >> state >> parent;
    if (parent == pid_) all.push_back(static_cast<pid_t>(std::stol(text)));
  }
  return all;
}

void PostgresServer::Freeze() {
  for (const pid_t pid : Processes()) kill(pid, SIGSTOP);
}

void PostgresServer::Thaw() {
  for (const pid_t pid : Processes()) kill(pid, SIGCONT);
}

void PostgresServer::Promote() {
  if (Sql("postgres", "SELECT pg_promote()") != "t") throw std::runtime_error(Log());
}

void PostgresServer::Set(const std::string& name, const std::string& value) {
  Sql("postgres", "ALTER SYSTEM SET " + name + " = '" + value + "'");
  Sql("postgres", "SELECT pg_reload_conf()");
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (Sql("postgres", "SHOW " + name) != value) {
    if (std::chrono::steady_clock::now() > end) throw std::runtime_error(Log());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

std::string PostgresServer::Url(const std::string& database) const {
  return "postgresql://longstream@" + Escaped(folder_) + ":" + std::to_string(port_) + "/" +
         database;
}

std::string PostgresServer::TcpUrl(const std::string& database, const std::string& password) const {
  return "postgresql://longstream:" + password + "@127.0.0.1:" + std::to_string(port_) + "/" +
         database;
}

std::string PostgresServer::NewDatabase() {
  std::string name = "store" + std::to_string(++databases_);
  Sql("postgres", "CREATE DATABASE " + name);
  return name;
}

std::string PostgresServer::Sql(const std::string& database, const std::string& sql) const {
  PGconn* const connection = PQconnectdb(Url(database).c_str());
  PGresult* const result = PQexec(connection, sql.c_str());
  const ExecStatusType status = PQresultStatus(result);
  const std::string value = PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "";
  const std::string error = PQerrorMessage(connection);
  PQclear(result);
  PQfinish(connection);
  if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) throw std::runtime_error(error);
  return value;
}

}  // namespace longstream
