// Looks up descriptors. A stream handles one request at a time and holds no thread meanwhile.
#include "service/server/standard/reflection_service.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/server/transport/grpc_status.h"

namespace longstream {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1alpha::ErrorResponse;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;

// A request repeats in its answer, so a long one would take several times its size.
constexpr size_t kMaxRequestBytes = 64 << 10;

void SetError(grpc::StatusCode code, const char* message, ErrorResponse* error) {
  error->set_error_code(code);
  error->set_error_message(message);
}

// Adds the file, then the files that it imports, each once.
void AddFiles(const FileDescriptor& file, std::set<std::string>* added,
              ServerReflectionResponse* response) {
  if (!added->insert(file.name()).second) return;
  google::protobuf::FileDescriptorProto proto;
  file.CopyTo(&proto);
  response->mutable_file_descriptor_response()->add_file_descriptor_proto(
      proto.SerializeAsString());
  for (int i = 0; i < file.dependency_count(); ++i) {
    AddFiles(*file.dependency(i), added, response);
  }
}

// Returns null if there is no such file.
const FileDescriptor* FileOf(const ServerReflectionRequest& request) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  if (request.has_file_by_filename()) return pool.FindFileByName(request.file_by_filename());
  if (request.has_file_containing_symbol()) {
    return pool.FindFileContainingSymbol(request.file_containing_symbol());
  }
  const auto& wanted = request.file_containing_extension();
  const google::protobuf::Descriptor* type = pool.FindMessageTypeByName(wanted.containing_type());
  if (type == nullptr) return nullptr;
  const FieldDescriptor* field = pool.FindExtensionByNumber(type, wanted.extension_number());
  return field == nullptr ? nullptr : field->file();
}

void AddExtensionNumbers(const std::string& type_name, ServerReflectionResponse* response) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  const google::protobuf::Descriptor* type = pool.FindMessageTypeByName(type_name);
  if (type == nullptr) {
    return SetError(grpc::StatusCode::NOT_FOUND, "there is no message type of this name",
                    response->mutable_error_response());
  }
  auto& numbers = *response->mutable_all_extension_numbers_response();
  numbers.set_base_type_name(type->full_name());
  std::vector<const FieldDescriptor*> fields;
  pool.FindAllExtensions(type, &fields);
  for (const FieldDescriptor* field : fields) numbers.add_extension_number(field->number());
}

}  // namespace

// Reads a request, writes its answer, reads the next one. gRPC calls one function at a time.
class ReflectionService::Reactor final
    : public grpc::ServerBidiReactor<RawRequest<Request>, Response> {
 public:
  explicit Reactor(const ReflectionService* service) : service_(service) { StartRead(&raw_); }

  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    if (const size_t size = raw_.bytes.Length(); size > kMaxRequestBytes) {
      raw_.bytes.Clear();
      return Finish(ToGrpc(absl::InvalidArgumentError(absl::StrCat(
          "ServerReflectionRequest: at most ", kMaxRequestBytes, " bytes, found ", size))));
    }
    absl::StatusOr<Decoded<Request>> request = Decode(raw_, service_->memory());
    if (!request.ok()) return Finish(ToGrpc(request.status()));
    charge_.emplace(std::move(request->charge));
    response_.Clear();
    response_.mutable_original_request()->Swap(request->message.get());
    service_->Answer(&response_);
    StartWrite(&response_);
  }
  void OnWriteDone(bool ok) override {
    response_.Clear();
    charge_.reset();
    if (!ok) return Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the client has left"));
    StartRead(&raw_);
  }
  void OnDone() override { delete this; }

 private:
  const ReflectionService* const service_;
  RawRequest<Request> raw_;
  Response response_;
  std::optional<RequestCharge> charge_;  // for the request in response_
};

ReflectionService::ReflectionService(std::vector<std::string> services, RequestMemory* memory,
                                     Authorize authorize)
    : DecodingService(memory, std::move(authorize)), services_(std::move(services)) {
  AddBidiStream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                &ReflectionService::ServerReflectionInfo);
}

grpc::ServerBidiReactor<RawRequest<ReflectionService::Request>, ReflectionService::Response>*
ReflectionService::ServerReflectionInfo(grpc::CallbackServerContext* /*context*/,
                                        const Caller& /*caller*/) {
  return new Reactor(this);
}

void ReflectionService::Answer(Response* response) const {
  const Request& request = response->original_request();
  response->set_valid_host(request.host());
  switch (request.message_request_case()) {
    case Request::kFileByFilename:
    case Request::kFileContainingSymbol:
    case Request::kFileContainingExtension:
      if (const FileDescriptor* file = FileOf(request); file != nullptr) {
        std::set<std::string> added;
        return AddFiles(*file, &added, response);
      }
      return SetError(grpc::StatusCode::NOT_FOUND, "there is no such file, symbol or extension",
                      response->mutable_error_response());
    case Request::kAllExtensionNumbersOfType:
      return AddExtensionNumbers(request.all_extension_numbers_of_type(), response);
    case Request::kListServices:
      for (const std::string& name : services_) {
        response->mutable_list_services_response()->add_service()->set_name(name);
      }
      return;
    case Request::MESSAGE_REQUEST_NOT_SET:
      SetError(grpc::StatusCode::INVALID_ARGUMENT, "message_request: the request sets none of it",
               response->mutable_error_response());
  }
}

}  // namespace longstream
