// The same work many times, several at once.
#ifndef LONGSTREAM_CLIENT_PARALLEL_H_
#define LONGSTREAM_CLIENT_PARALLEL_H_

#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace longstream::client {

// Calls work(i) for i = 0 … count − 1, in this order on up to `threads` threads. Once a call throws
// or the program is interrupted none is begun; when all have ended, the first exception is thrown
// on. What an interrupt brought to its end has not failed: then it returns.
void ForEach(int count, int threads, const std::function<void(int)>& work);

// The same for calls that return something: `take` is given what they returned in the order of i,
// one at a time, whichever ended first.
template <typename Result>
void ForEachInOrder(int count, int threads, const std::function<Result(int)>& work,
                    const std::function<void(const Result&)>& take) {
  std::mutex mutex;
  std::map<int, Result> ahead;  // of their turn
  int next = 0;
  ForEach(count, threads, [&](int i) {
    Result result = work(i);
    const std::lock_guard<std::mutex> lock(mutex);
    ahead.emplace(i, std::move(result));
    for (auto first = ahead.begin(); first != ahead.end() && first->first == next; ++next) {
      take(first->second);
      first = ahead.erase(first);
    }
  });
}

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_PARALLEL_H_
