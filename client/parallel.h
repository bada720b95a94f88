// The same work many times, several at once.
#ifndef LONGSTREAM_CLIENT_PARALLEL_H_
#define LONGSTREAM_CLIENT_PARALLEL_H_

#include <functional>

namespace longstream::client {

// Calls work(i) for i = 0 … count − 1, in this order on up to `threads` threads. Once a call throws
// or the program is interrupted none is begun; when all have ended, the first exception is thrown
// on. What an interrupt brought to its end has not failed: then it returns.
void ForEach(int count, int threads, const std::function<void(int)>& work);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_PARALLEL_H_
