// Addresses of this machine and of others.
#include "service/security/loopback.h"

#include <gtest/gtest.h>

namespace longstream {
namespace {

TEST(LoopbackTest, KnowsTheAddressesOfThisMachine) {
  for (const char* address : {"127.0.0.1:50051", "127.1.2.3:0", "localhost:1", "[::1]:50051"}) {
    EXPECT_TRUE(IsLoopback(address)) << address;
  }
  for (const char* address :
       {"0.0.0.0:50051", "[::]:50051", "10.0.0.1:127", "localhost.example.com:1", "128.0.0.1:1", "",
        ":1", "::1:1", "[::1", "127.0.0.1.example.com:1", "[::ffff:10.0.0.1]:1"}) {
    EXPECT_FALSE(IsLoopback(address)) << address;
  }
}

}  // namespace
}  // namespace longstream
