// One row for each method of each service.
#include "service/security/access_table.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace longstream {
namespace {

constexpr unsigned Bit(Role role) { return 1u << static_cast<unsigned>(role); }

constexpr unsigned kClient = Bit(Role::kClient);
constexpr unsigned kOperator = Bit(Role::kOperator);
constexpr unsigned kPeer = Bit(Role::kPeer);

struct Row {
  std::string_view method;
  unsigned roles;  // bits
};

// Sessions are their clients' alone. An operator sees how the server is, not what it is told.
constexpr Row kRows[] = {
    {"/longstream.v1.Longstream/OpenSession", kClient},
    {"/longstream.v1.Longstream/Append", kClient},
    {"/longstream.v1.Longstream/Generate", kClient},
    {"/longstream.v1.Longstream/GetSession", kClient},
    {"/longstream.v1.Longstream/ListSessions", kClient},
    {"/longstream.v1.Longstream/ForkSession", kClient},
    {"/longstream.v1.Longstream/RewindSession", kClient},
    {"/longstream.v1.Longstream/CloseSession", kClient},
    {"/longstream.v1.Longstream/CancelTurn", kClient},
    {"/longstream.v1.Longstream/ListTurns", kClient},
    {"/longstream.v1.Longstream/ReadHistory", kClient},
    {"/longstream.v1.Longstream/ExportSession", kClient},
    {"/longstream.v1.Longstream/ImportSession", kClient},
    {"/longstream.v1.Longstream/PutNotes", kClient},
    {"/longstream.v1.Longstream/FindNotes", kClient},
    {"/longstream.v1.Longstream/Score", kClient},
    {"/longstream.v1.Longstream/Tokenize", kClient},
    {"/longstream.v1.Longstream/Detokenize", kClient},
    {"/longstream.v1.Longstream/Compare", kClient},
    {"/longstream.v1.Longstream/ListModels", kClient | kOperator},
    {"/longstream.v1.Longstream/GetModel", kClient | kOperator},
    {"/longstream.admin.v1.Admin/LoadModel", kOperator},
    {"/longstream.admin.v1.Admin/SwapModel", kOperator},
    {"/longstream.admin.v1.Admin/UnloadModel", kOperator},
    {"/longstream.admin.v1.Admin/ListModels", kOperator},
    {"/longstream.admin.v1.Admin/SetAlias", kOperator},
    {"/longstream.admin.v1.Admin/DeleteAlias", kOperator},
    {"/longstream.admin.v1.Admin/ListAliases", kOperator},
    {"/longstream.peer.v1.Peer/Fetch", kPeer},
    {"/longstream.peer.v1.Peer/Offer", kPeer},
    {"/longstream.peer.v1.Peer/Attach", kPeer},
    {"/longstream.peer.v1.Peer/Cancel", kPeer},
    {"/longstream.peer.v1.Peer/Notify", kPeer},
    {"/grpc.health.v1.Health/Check", kClient | kOperator | kPeer},
    {"/grpc.health.v1.Health/Watch", kClient | kOperator | kPeer},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", kOperator},
};

constexpr std::string_view kCheck = "/grpc.health.v1.Health/Check";

// Null if the method has no row.
const Row* RowOf(std::string_view method) {
  const auto* const found = std::find_if(std::begin(kRows), std::end(kRows),
                                         [method](const Row& row) { return row.method == method; });
  return found == std::end(kRows) ? nullptr : found;
}

}  // namespace

AccessTable::Answer AccessTable::Find(std::string_view method) const {
  if (RowOf(method) == nullptr) return Answer::kForbidden;
  return open_health_ && method == kCheck ? Answer::kOpen : Answer::kRoles;
}

bool AccessTable::Allows(std::string_view method, Role role) const {
  const Row* const row = RowOf(method);
  return row != nullptr && (row->roles & Bit(role)) != 0;
}

absl::Status AccessTable::CheckHasRows(const std::vector<std::string>& methods) const {
  for (const std::string& method : methods) {
    if (RowOf(method) != nullptr) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("the table of methods has no row for ", method));
  }
  return absl::OkStatus();
}

std::vector<std::string_view> AccessTable::Methods() {
  std::vector<std::string_view> methods;
  for (const Row& row : kRows) methods.push_back(row.method);
  return methods;
}

}  // namespace longstream
