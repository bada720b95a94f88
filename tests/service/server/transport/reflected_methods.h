// The methods of all services of a server, as its reflection shows them.
#ifndef LONGSTREAM_TESTS_SERVICE_SERVER_TRANSPORT_REFLECTED_METHODS_H_
#define LONGSTREAM_TESTS_SERVICE_SERVER_TRANSPORT_REFLECTED_METHODS_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"

namespace longstream {

class ReflectedMethods {
 public:
  // `authorization`: the value of the header; empty: none.
  explicit ReflectedMethods(const std::shared_ptr<grpc::Channel>& channel,
                            const std::string& authorization = "") {
    namespace v1alpha = grpc::reflection::v1alpha;
    grpc::ClientContext context;
    if (!authorization.empty()) context.AddMetadata("authorization", authorization);
    const auto stream = v1alpha::ServerReflection::NewStub(channel)->ServerReflectionInfo(&context);
    const auto ask = [&stream](const v1alpha::ServerReflectionRequest& request) {
      v1alpha::ServerReflectionResponse answer;
      EXPECT_TRUE(stream->Write(request));
      EXPECT_TRUE(stream->Read(&answer));
      return answer;
    };
    v1alpha::ServerReflectionRequest list;
    list.set_list_services("");
    const v1alpha::ServerReflectionResponse services = ask(list);
    for (const auto& service : services.list_services_response().service()) {
      v1alpha::ServerReflectionRequest request;
      request.set_file_containing_symbol(service.name());
      AddFiles(ask(request));
      const auto* const found = pool_.FindServiceByName(service.name());
      if (found == nullptr) {
        ADD_FAILURE() << service.name();
        continue;
      }
      for (int i = 0; i < found->method_count(); ++i) methods_.push_back(found->method(i));
    }
    stream->WritesDone();
    EXPECT_TRUE(stream->Finish().ok());
  }

  const google::protobuf::DescriptorPool& pool() const { return pool_; }
  const std::vector<const google::protobuf::MethodDescriptor*>& all() const { return methods_; }
  // As HTTP names it: "/package.Service/Method".
  static std::string PathOf(const google::protobuf::MethodDescriptor& method) {
    return "/" + method.service()->full_name() + "/" + method.name();
  }

 private:
  // A file follows the files that import it.
  void AddFiles(const grpc::reflection::v1alpha::ServerReflectionResponse& answer) {
    const auto& files = answer.file_descriptor_response().file_descriptor_proto();
    for (int i = files.size() - 1; i >= 0; --i) {
      google::protobuf::FileDescriptorProto file;
      EXPECT_TRUE(file.ParseFromString(files[i]));
      if (pool_.FindFileByName(file.name()) != nullptr) continue;
      EXPECT_NE(pool_.BuildFile(file), nullptr) << file.name();
    }
  }

  google::protobuf::DescriptorPool pool_;
  std::vector<const google::protobuf::MethodDescriptor*> methods_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_SERVER_TRANSPORT_REFLECTED_METHODS_H_
