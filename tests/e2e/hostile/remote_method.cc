#include "tests/e2e/hostile/remote_method.h"

#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/descriptor_database.h>
#include <grpcpp/grpcpp.h>

#include <set>
#include <stdexcept>

#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"

namespace longstream {
namespace {

using google::protobuf::FileDescriptorProto;
using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;
using grpc::reflection::v1alpha::ServerReflection;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;

ServerReflectionResponse Ask(ServerReflection::Stub& stub, const ServerReflectionRequest& request) {
  grpc::ClientContext context;
  const auto stream = stub.ServerReflectionInfo(&context);
  ServerReflectionResponse response;
  const bool answered = stream->Write(request) && stream->WritesDone() && stream->Read(&response);
  const grpc::Status status = stream->Finish();
  if (!status.ok()) throw std::runtime_error("reflection: " + status.error_message());
  if (!answered) throw std::runtime_error("reflection: no answer");
  return response;
}

}  // namespace

struct RemoteServices::Pool {
  google::protobuf::SimpleDescriptorDatabase files;
  std::set<std::string> names;  // of the files
  google::protobuf::DescriptorPool descriptors{&files};

  void Add(const std::string& serialized) {
    FileDescriptorProto file;
    if (!file.ParseFromString(serialized)) throw std::runtime_error("reflection: no file");
    if (names.insert(file.name()).second) files.Add(file);
  }
};

RemoteServices::RemoteServices(const std::string& address, const client::ChannelSecurity& security)
    : pool_(std::make_unique<Pool>()) {
  ServerReflection::Stub stub(client::MakeChannel(address, security, {}));
  ServerReflectionRequest list;
  list.set_list_services("");
  const ServerReflectionResponse listed = Ask(stub, list);
  for (const auto& service : listed.list_services_response().service()) {
    services_.push_back(service.name());
  }
  for (const std::string& name : services_) {
    ServerReflectionRequest files;
    files.set_file_containing_symbol(name);
    const ServerReflectionResponse answer = Ask(stub, files);
    for (const std::string& file : answer.file_descriptor_response().file_descriptor_proto()) {
      pool_->Add(file);
    }
    const ServiceDescriptor* service = pool_->descriptors.FindServiceByName(name);
    if (service == nullptr) throw std::runtime_error("reflection: no descriptor of " + name);
    for (int i = 0; i < service->method_count(); ++i) {
      const MethodDescriptor& method = *service->method(i);
      methods_.push_back({"/" + name + "/" + method.name(), method.input_type()});
    }
  }
}

RemoteServices::~RemoteServices() = default;

}  // namespace longstream
