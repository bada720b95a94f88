// The limits that control groups put on this process. Containers, Kubernetes and systemd set them.
#ifndef LONGSTREAM_KERNELS_CORE_LIMITS_CONTROL_GROUPS_H_
#define LONGSTREAM_KERNELS_CORE_LIMITS_CONTROL_GROUPS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longstream {

// Reads both versions, cgroup v1 and v2; a process may be in groups of both. A limit holds for all
// groups below its group. So for each resource the least limit counts that the process's group or
// one of its parents has. A file that cannot be read, or that holds no number, sets no limit.
//
// The constructor reads which groups the process is in. The other functions read the limits each
// time, because they may change. Thread-safe.
class ControlGroups {
 public:
  // `root` is put before the path of every file: proc/self/cgroup, proc/self/mountinfo, and the
  // folders of the groups. Tests pass a tree of their own.
  explicit ControlGroups(std::string root = "");

  // The limit on memory, in bytes. UINT64_MAX: there is none. memory.high counts too: a group that
  // is above it is slowed down almost to a halt.
  uint64_t MemoryLimit() const;
  // Bytes of memory that the process may still use: the least of limit - use over the groups. The
  // file cache does not count as used, because the system gives it up when memory is needed.
  // UINT64_MAX: no group has a limit.
  uint64_t MemoryLeft() const;
  // The processor time per second that the process may use, in seconds: 1.5 means one and a half
  // processors. Infinity: there is no limit.
  double ProcessorQuota() const;

 private:
  // The folders of the process's group and of all its parents, by version and resource. A folder
  // may not exist.
  using Folders = std::vector<std::string>;
  // An empty name of a controller means version 2.
  Folders FoldersOf(std::string_view controller) const;

  const std::string root_;
  const Folders memory_v1_;
  const Folders processors_v1_;
  const Folders v2_;
};

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_LIMITS_CONTROL_GROUPS_H_
