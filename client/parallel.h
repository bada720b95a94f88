// Runs numbered pieces of work, several at once.
#ifndef LONGSTREAM_CLIENT_PARALLEL_H_
#define LONGSTREAM_CLIENT_PARALLEL_H_

#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace longstream::client {

// Calls work(i) for i = 0 … count − 1 on up to `threads` threads, and begins the calls in this
// order. Begins no further call after a call has thrown or the program was interrupted. When all
// calls have ended, throws the first exception; but after an interrupt, returns without throwing.
void ForEach(int count, int threads, const std::function<void(int)>& work);

// Like ForEach, for calls that return a result. Calls take(result) for one result at a time, in the
// order of i.
template <typename Result>
void ForEachInOrder(int count, int threads, const std::function<Result(int)>& work,
                    const std::function<void(const Result&)>& take) {
  std::mutex mutex;
  std::map<int, Result> ahead;  // results that wait for the results before them
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
