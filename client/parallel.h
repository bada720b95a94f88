// Runs numbered pieces of work, several at once.
#ifndef LONGSTREAM_CLIENT_PARALLEL_H_
#define LONGSTREAM_CLIENT_PARALLEL_H_

#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace longstream::client {

// Calls work(i) for i = 0 … count − 1 on up to `threads` threads, and begins the calls in this
// order. After a call throws or the program is interrupted, begins no further call. Returns when
// all calls have ended, and throws the first exception. An exception after an interrupt is not a
// failure: then it returns without throwing.
void ForEach(int count, int threads, const std::function<void(int)>& work);

// As ForEach, for calls that return a result: calls take(result) one at a time, in the order of i,
// whichever call ends first.
template <typename Result>
void ForEachInOrder(int count, int threads, const std::function<Result(int)>& work,
                    const std::function<void(const Result&)>& take) {
  std::mutex mutex;
  std::map<int, Result> ahead;  // results that wait for earlier ones
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
