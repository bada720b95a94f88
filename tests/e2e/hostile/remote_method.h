// The methods of all services of a server, as the server itself lists them by reflection. A service
// that is added to the server is therefore attacked without a change of the attacks.
#ifndef LONGSTREAM_TESTS_E2E_HOSTILE_REMOTE_METHOD_H_
#define LONGSTREAM_TESTS_E2E_HOSTILE_REMOTE_METHOD_H_

#include <google/protobuf/descriptor.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "client/channel.h"

namespace longstream {

struct RemoteMethod {
  std::string path;                             // "/package.Service/Method"
  const google::protobuf::Descriptor* request;  // the type of its requests
};

class RemoteServices {
 public:
  // Asks the server at this address. `security`: of an operator, if the server asks for
  // credentials. Throws std::runtime_error if it does not answer, or if a service has no
  // descriptor.
  explicit RemoteServices(const std::string& address, const client::ChannelSecurity& security = {});
  ~RemoteServices();
  RemoteServices(const RemoteServices&) = delete;
  RemoteServices& operator=(const RemoteServices&) = delete;

  // The descriptors live as long as this object.
  const std::vector<RemoteMethod>& methods() const { return methods_; }
  const std::vector<std::string>& services() const { return services_; }

 private:
  struct Pool;

  std::unique_ptr<Pool> pool_;
  std::vector<std::string> services_;
  std::vector<RemoteMethod> methods_;
};

// The id of one of the few sessions that attacks open and use. The server may draw further ids.
std::string HostileSession(uint32_t number);

// A serialized request whose fields are random. About half of them are valid. Turns of sessions
// generate at most 8 tokens, so that attacks take little of the time in which honest turns compute.
// Thread-safe.
std::string RandomRequest(const google::protobuf::Descriptor& type, std::mt19937& random);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_E2E_HOSTILE_REMOTE_METHOD_H_
