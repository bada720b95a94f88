// Finds the folders of the process's control groups and reads the limits in them.
#include "kernels/core/limits/control_groups.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>

#include "kernels/core/limits/numbered_lines.h"

namespace longstream {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();
// Version 1 has no word for "no limit". It writes the largest number of whole pages instead.
constexpr uint64_t kLeastUnlimited = uint64_t{1} << 62;
constexpr double kNoQuota = std::numeric_limits<double>::infinity();

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool Contains(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// The path of the process's group in the hierarchy of `controller`, from lines such as
// "4:cpu,cpuacct:/pod" (version 1) and "0::/pod" (version 2). Without such a line, the top group.
std::string GroupOf(const std::string& own_groups, std::string_view controller) {
  std::ifstream file(own_groups);
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool matches = controller.empty() ? controllers.empty() && line.starts_with("0:")
                                            : Contains(Split(controllers, ','), controller);
    if (matches) return line.substr(second + 1);
  }
  return "/";
}

// A place where a hierarchy is mounted, and the group that is mounted there.
struct Mount {
  std::string path;
  std::string group;
};

// The mounts of a hierarchy, from lines such as
// "36 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory".
std::vector<Mount> MountsOf(const std::string& mountinfo, std::string_view controller) {
  constexpr size_t kGroup = 3, kPath = 4;
  std::vector<Mount> mounts;
  std::ifstream file(mountinfo);
  for (std::string line; std::getline(file, line);) {
    const size_t end = line.find(" - ");
    if (end == std::string::npos) continue;
    const std::vector<std::string> place = Split(std::string_view(line).substr(0, end), ' ');
    const std::vector<std::string> type = Split(std::string_view(line).substr(end + 3), ' ');
    if (place.size() <= kPath || type.empty()) continue;
    const bool matches = controller.empty() ? type.front() == "cgroup2"
                                            : type.front() == "cgroup" &&
                                                  Contains(Split(type.back(), ','), controller);
    if (matches) mounts.push_back({place[kPath], place[kGroup]});
  }
  return mounts;
}

// The path of `group` below a mount of the group `mounted`. If the mount does not show the group,
// the mount's top is the best that is known: a container often sees only its own group, and under
// another name.
std::string Below(const std::string& group, const std::string& mounted) {
  const std::string top = mounted == "/" ? "" : mounted;
  const bool is_below = group.starts_with(top + "/") && group.find("/..") == std::string::npos;
  std::string path = is_below ? group.substr(top.size()) : "";
  while (path.ends_with('/')) path.pop_back();
  return path;
}

// Reads a number. nullopt: the file cannot be read or holds something else, such as "max".
std::optional<uint64_t> ReadNumber(const std::string& file) {
  int64_t number = 0;
  if (!(std::ifstream(file) >> number) || number < 0) return std::nullopt;
  return static_cast<uint64_t>(number);
}

uint64_t ReadLimit(const std::string& file) {
  const uint64_t limit = ReadNumber(file).value_or(kUnlimited);
  return limit >= kLeastUnlimited ? kUnlimited : limit;
}

// The names of the files of a version.
struct MemoryFiles {
  std::array<const char*, 2> limits;
  const char* used;
  std::array<std::string_view, 2> cache;  // words of memory.stat that count the file cache
};
constexpr MemoryFiles kMemoryV1 = {{"/memory.limit_in_bytes", "/memory.limit_in_bytes"},
                                   "/memory.usage_in_bytes",
                                   {"total_active_file", "total_inactive_file"}};
constexpr MemoryFiles kMemoryV2 = {
    {"/memory.max", "/memory.high"}, "/memory.current", {"active_file", "inactive_file"}};

uint64_t LimitIn(const std::string& folder, const MemoryFiles& files) {
  return std::min(ReadLimit(folder + files.limits[0]), ReadLimit(folder + files.limits[1]));
}

uint64_t LeftIn(const std::string& folder, const MemoryFiles& files) {
  const uint64_t limit = LimitIn(folder, files);
  if (limit == kUnlimited) return limit;
  const uint64_t used = ReadNumber(folder + files.used).value_or(0);
  const uint64_t cache = SumOfNumbers(folder + "/memory.stat", files.cache).value_or(0);
  return limit - std::min(limit, used - std::min(used, cache));
}

double Quota(std::optional<uint64_t> microseconds, std::optional<uint64_t> period) {
  if (!microseconds || !period || *period == 0) return kNoQuota;
  return static_cast<double>(*microseconds) / static_cast<double>(*period);
}

double QuotaV1(const std::string& folder) {
  return Quota(ReadNumber(folder + "/cpu.cfs_quota_us"), ReadNumber(folder + "/cpu.cfs_period_us"));
}

// cpu.max holds the quota, or "max", and the period.
double QuotaV2(const std::string& folder) {
  uint64_t quota = 0, period = 0;
  std::ifstream file(folder + "/cpu.max");
  return file >> quota >> period ? Quota(quota, period) : kNoQuota;
}

}  // namespace

ControlGroups::ControlGroups(std::string root)
    : root_(std::move(root)),
      memory_v1_(FoldersOf("memory")),
      processors_v1_(FoldersOf("cpu")),
      v2_(FoldersOf("")) {}

ControlGroups::Folders ControlGroups::FoldersOf(std::string_view controller) const {
  std::vector<Mount> mounts = MountsOf(root_ + "/proc/self/mountinfo", controller);
  // Also look where hierarchies usually are: a sandbox may hide the list of mounts.
  if (controller.empty()) {
    mounts.push_back({"/sys/fs/cgroup", "/"});
    mounts.push_back({"/sys/fs/cgroup/unified", "/"});
  } else {
    mounts.push_back({"/sys/fs/cgroup/" + std::string(controller), "/"});
  }
  const std::string group = GroupOf(root_ + "/proc/self/cgroup", controller);
  Folders folders;
  for (const Mount& mount : mounts) {
    std::string path = Below(group, mount.group);
    while (true) {
      folders.push_back(root_ + mount.path + path);
      if (path.empty()) break;
      path.erase(path.rfind('/'));
    }
  }
  return folders;
}

uint64_t ControlGroups::MemoryLimit() const {
  uint64_t least = kUnlimited;
  for (const std::string& folder : v2_) least = std::min(least, LimitIn(folder, kMemoryV2));
  for (const std::string& folder : memory_v1_) least = std::min(least, LimitIn(folder, kMemoryV1));
  return least;
}

uint64_t ControlGroups::MemoryLeft() const {
  uint64_t least = kUnlimited;
  for (const std::string& folder : v2_) least = std::min(least, LeftIn(folder, kMemoryV2));
  for (const std::string& folder : memory_v1_) least = std::min(least, LeftIn(folder, kMemoryV1));
  return least;
}

double ControlGroups::ProcessorQuota() const {
  double least = kNoQuota;
  for (const std::string& folder : v2_) least = std::min(least, QuotaV2(folder));
  for (const std::string& folder : processors_v1_) least = std::min(least, QuotaV1(folder));
  return least;
}

}  // namespace longstream
