// How many connections the process can hold with the descriptors that it may open.
#ifndef LONGSTREAM_SERVICE_CONNECTIONS_DESCRIPTOR_SHARES_H_
#define LONGSTREAM_SERVICE_CONNECTIONS_DESCRIPTOR_SHARES_H_

#include <cstddef>
#include <cstdint>

namespace longstream {

struct DescriptorShares {
  size_t calls;    // connections to the gRPC port
  size_t scrapes;  // connections to the metrics port
};

// The process's soft limit of open descriptors (RLIMIT_NOFILE).
uint64_t DescriptorLimit();

// Divides `limit` descriptors. The program's own files (checkpoints, plugins, GPUs, logs,
// libraries) keep 128 descriptors, or half of the limit if that is less. A quarter of these serves
// scrapes.
DescriptorShares ShareDescriptors(uint64_t limit);

// The limit of connections to the gRPC port for the configured number. 0: as many as the
// descriptors allow, at most 10000. The result never exceeds the share of `limit` descriptors.
size_t MaxConnections(uint64_t configured, uint64_t limit);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CONNECTIONS_DESCRIPTOR_SHARES_H_
