// Joins the pieces in which a request has arrived, and decodes them.
#include "service/server/transport/raw_request.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/wire/wire_decoder.h"

namespace longstream {
namespace {

// Moves all bytes to one array. Frees each piece as soon as it is copied, because a piece may hold
// a much larger buffer of the connection.
absl::StatusOr<grpc::Slice> JoinAndFree(grpc::ByteBuffer* bytes) {
  grpc::Slice whole;
  if (bytes->TrySingleSlice(&whole).ok()) {
    bytes->Clear();
    return whole;
  }
  std::vector<grpc::Slice> pieces;
  const size_t size = bytes->Length();
  if (!bytes->Dump(&pieces).ok()) return absl::InvalidArgumentError("the message is compressed");
  bytes->Clear();
  whole = grpc::Slice(size);
  auto* to = const_cast<uint8_t*>(whole.begin());  // no one else has this slice yet
  for (grpc::Slice& piece : pieces) {
    to = std::copy(piece.begin(), piece.end(), to);
    piece = grpc::Slice();
  }
  return whole;
}

}  // namespace

absl::Status DecodeBytes(grpc::ByteBuffer* bytes, RequestCharge* charge,
                         google::protobuf::Message* message) {
  const auto named = [message](const absl::Status& status) {
    if (status.ok()) return status;
    return absl::Status(status.code(),
                        absl::StrCat(message->GetDescriptor()->name(), ": ", status.message()));
  };
  if (!bytes->Valid()) return named(absl::InvalidArgumentError("the call has no message"));
  const size_t size = bytes->Length();
  if (absl::Status status = charge->Add(size); !status.ok()) return named(status);
  const absl::StatusOr<grpc::Slice> joined = JoinAndFree(bytes);
  if (!joined.ok()) return named(joined.status());
  const std::string_view view(reinterpret_cast<const char*>(joined->begin()), joined->size());
  absl::Status status = DecodeMessage(view, charge, message);
  charge->Subtract(size);
  return named(status);
}

}  // namespace longstream
