// A port for a server that a test starts, stops and starts again.
#ifndef LONGSTREAM_TESTS_PROCESSES_FREE_PORT_H_
#define LONGSTREAM_TESTS_PROCESSES_FREE_PORT_H_

namespace longstream {

// Returns a port of the loopback on which nobody listens. Linux gives ports from 32768 on to
// connections, so one of those may be taken while the server is down; this one is smaller. Throws
// std::runtime_error if there is none.
int FreePort();

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_PROCESSES_FREE_PORT_H_
