// Numbers travel as text, so that PostgreSQL takes them for an integer of any size. All else, and
// all results, travel as they are.
#include "service/sessions/store/postgres/statement.h"

#include "absl/strings/str_cat.h"
#include "service/sessions/store/postgres/dialect.h"

namespace longstream::store {

PostgresStatement::Parameter& PostgresStatement::At(int parameter) {
  const auto index = static_cast<size_t>(parameter);
  if (parameters_.size() <= index) parameters_.resize(index + 1);
  return parameters_[index];
}

void PostgresStatement::Bind(int parameter, int64_t value) {
  At(parameter) = {.is_null = false, .is_number = true, .number = std::to_string(value)};
}

void PostgresStatement::BindBytes(int parameter, std::string_view bytes) {
  At(parameter) = {.is_null = false, .bytes = bytes.empty() ? std::string_view("") : bytes};
}

void PostgresStatement::Reset() {
  runner_->End(*this);
  parameters_.clear();
  result = nullptr;
  keeps_result = nullptr;
  row = -1;
  begun = false;
}

bool PostgresStatement::Send(PGconn* connection) const {
  std::vector<const char*> values;
  std::vector<int> lengths, formats;
  for (const Parameter& parameter : parameters_) {
    const std::string_view bytes =
        parameter.is_number ? std::string_view(parameter.number) : parameter.bytes;
    values.push_back(parameter.is_null ? nullptr : bytes.data());
    lengths.push_back(static_cast<int>(bytes.size()));
    formats.push_back(parameter.is_number ? 0 : 1);
  }
  return PQsendQueryPrepared(connection, name_.c_str(), static_cast<int>(values.size()),
                             values.data(), lengths.data(), formats.data(),
                             /*resultFormat=*/1) == 1;
}

std::string PostgresStatement::Key() const {
  std::string key = name_;
  for (const Parameter& parameter : parameters_) {
    const std::string_view bytes =
        parameter.is_number ? std::string_view(parameter.number) : parameter.bytes;
    absl::StrAppend(&key, ":", parameter.is_null ? -1 : static_cast<int64_t>(bytes.size()), ":",
                    absl::string_view(bytes.data(), bytes.size()));
  }
  return key;
}

bool PostgresStatement::IsNull(int column) const { return PQgetisnull(result, row, column) != 0; }

int64_t PostgresStatement::Int(int column) const {
  if (IsNull(column)) return 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(PQgetvalue(result, row, column));
  const int size = PQgetlength(result, row, column);
  if (size < 1 || size > 8) return 0;
  // Big-endian, with a sign; a condition is one byte.
  uint64_t value = size > 1 && (bytes[0] & 0x80) != 0 ? ~uint64_t{0} : 0;
  for (int i = 0; i < size; ++i) value = value << 8 | bytes[i];
  return static_cast<int64_t>(value);
}

std::string PostgresStatement::Bytes(int column) const {
  if (IsNull(column)) return {};
  return {PQgetvalue(result, row, column), static_cast<size_t>(PQgetlength(result, row, column))};
}

PostgresStatement& StatementCache::Find(const char* sql) {
  auto found = statements_.find(sql);
  if (found == statements_.end()) {
    found = statements_
                .try_emplace(sql, runner_, ToPostgres(sql, writes_),
                             absl::StrCat("s", statements_.size()))
                .first;
  }
  return found->second;
}

}  // namespace longstream::store
