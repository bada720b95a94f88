// Each thread takes the next number until no number is left.
#include "client/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "client/interrupt.h"

namespace longstream::client {

void ForEach(int count, int threads, const std::function<void(int)>& work) {
  std::atomic<int> next = 0;
  std::mutex mutex;
  std::exception_ptr thrown;
  const auto draw = [&] {
    try {
      for (int i = next.fetch_add(1); i < count && !Interrupted(); i = next.fetch_add(1)) work(i);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex);
      if (!Interrupted() && !thrown) thrown = std::current_exception();
      next = count;
    }
  };
  // The destructor of the vector joins the threads, even if one of them cannot be started.
  std::vector<std::jthread> running(static_cast<size_t>(std::min(count, threads)));
  for (std::jthread& thread : running) thread = std::jthread(draw);
  running.clear();
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace longstream::client
