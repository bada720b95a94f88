// The asynchronous copies that one thread has started and not yet waited for.
#ifndef LONGSTREAM_TESTS_SIMT_HARNESS_COPIES_H_
#define LONGSTREAM_TESTS_SIMT_HARNESS_COPIES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace longstream::simt {

struct Copy {
  void* to;
  const void* from;
  size_t bytes;
  size_t zeros;  // the last `zeros` bytes are written as 0
};

class Copies {
 public:
  // Says what is wrong with a copy; "" if nothing is.
  static std::string ProblemOf(const Copy& copy) {
    const auto misaligned = [&copy](const void* address) {
      return reinterpret_cast<uintptr_t>(address) % copy.bytes != 0;
    };
    const std::string name = "an asynchronous copy of " + std::to_string(copy.bytes) + " bytes";
    if (copy.bytes != 4 && copy.bytes != 8 && copy.bytes != 16) return name;
    if (copy.zeros > copy.bytes) return name;
    return misaligned(copy.to) || misaligned(copy.from) ? name + " that is not aligned" : "";
  }

  // Starts a copy. With at_once the copy is done now, but the thread must still wait for it.
  void Ask(const Copy& copy, bool at_once) {
    asked_.push_back({copy, commits_});
    if (at_once) Do(copy);
  }
  void Commit() { ++commits_; }
  // Waits until at most the last `groups` commits are under way.
  void Wait(size_t groups) {
    size_t kept = 0;
    for (const Asked& asked : asked_) {
      if (asked.group + groups < commits_) {
        Do(asked.copy);
      } else {
        asked_[kept++] = asked;
      }
    }
    asked_.resize(kept);
  }
  bool all_awaited() const { return asked_.empty(); }

 private:
  struct Asked {
    Copy copy;
    size_t group;  // number of commits before it
  };

  static void Do(const Copy& copy) {
    auto* to = static_cast<std::byte*>(copy.to);
    const size_t read = copy.bytes - copy.zeros;
    if (read > 0) std::memcpy(to, copy.from, read);
    std::memset(to + read, 0, copy.zeros);
  }

  std::vector<Asked> asked_;
  size_t commits_ = 0;
};

}  // namespace longstream::simt

#endif  // LONGSTREAM_TESTS_SIMT_HARNESS_COPIES_H_
