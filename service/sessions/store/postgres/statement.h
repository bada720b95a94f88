// Prepared statements of a PostgreSQL connection: their parameters, and the row that was read.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_STATEMENT_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_STATEMENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "service/sessions/store/postgres/connection.h"
#include "service/sessions/store/sql/database.h"

namespace longstream::store {

class PostgresStatement;

// The connection that executes statements.
class StatementRunner {
 public:
  virtual ~StatementRunner() = default;
  virtual void Announce(PostgresStatement& statement) = 0;
  virtual Stepped Step(PostgresStatement& statement) = 0;
  // The statement's rows are not needed any more.
  virtual void End(PostgresStatement& statement) = 0;
};

class PostgresStatement final : public Statement {
 public:
  // `sql`: in PostgreSQL's words. `name`: of the prepared statement.
  PostgresStatement(StatementRunner* runner, std::string sql, std::string name)
      : runner_(runner), sql_(std::move(sql)), name_(std::move(name)) {}

  void Bind(int parameter, int64_t value) override;
  void BindText(int parameter, std::string_view text) override { BindBytes(parameter, text); }
  void BindBlob(int parameter, std::string_view bytes) override { BindBytes(parameter, bytes); }
  void BindNull(int parameter) override { At(parameter) = {}; }
  void Announce() override { runner_->Announce(*this); }
  Stepped Step() override { return runner_->Step(*this); }
  void Reset() override;
  bool IsNull(int column) const override;
  int64_t Int(int column) const override;
  std::string Bytes(int column) const override;

  const std::string& sql() const { return sql_; }
  const std::string& name() const { return name_; }

  // Sends the statement, which must have been prepared. False: libpq says why.
  bool Send(PGconn* connection) const;
  // The same bytes for the same parameters.
  std::string Key() const;

  // For the runner: the result that Step reads, and which of its rows is the present one.
  const PGresult* result = nullptr;
  int row = -1;
  bool begun = false;
  std::shared_ptr<const void> keeps_result;

 private:
  struct Parameter {
    bool is_null = true;
    bool is_number = false;
    std::string number = {};      // in decimal digits
    std::string_view bytes = {};  // of a text or a blob
  };

  Parameter& At(int parameter);
  void BindBytes(int parameter, std::string_view bytes);

  StatementRunner* const runner_;
  const std::string sql_;
  const std::string name_;
  std::vector<Parameter> parameters_;
};

// The statements of a connection, each translated once.
class StatementCache {
 public:
  // `writes`: as ToPostgres.
  StatementCache(StatementRunner* runner, bool writes) : runner_(runner), writes_(writes) {}

  // `sql` must outlive this object.
  PostgresStatement& Find(const char* sql);

 private:
  StatementRunner* const runner_;
  const bool writes_;
  std::unordered_map<std::string_view, PostgresStatement> statements_;
};

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_STATEMENT_H_
