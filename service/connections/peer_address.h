// The address by which connections of one peer are counted.
#ifndef LONGSTREAM_SERVICE_CONNECTIONS_PEER_ADDRESS_H_
#define LONGSTREAM_SERVICE_CONNECTIONS_PEER_ADDRESS_H_

#include <sys/socket.h>

#include <string>

namespace longstream {

// Returns the bytes of an IPv4 address, or the first 64 bits of an IPv6 address: a host usually has
// a whole network of 64 bits and can choose any address in it. An IPv4 address that is written as
// an IPv6 address counts as IPv4.
std::string PeerKey(const sockaddr_storage& address);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CONNECTIONS_PEER_ADDRESS_H_
