// When and how free pieces give their memory back.
#include "backends/caches/idle_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace longstream {
namespace {

// Giving back 32 MiB takes some milliseconds, in which the model computes nothing.
constexpr uint64_t kMostMore = uint64_t{32} << 20;

// The largest page that the system gives for one write (DeviceMemory::SetPieceBytes).
constexpr uintptr_t kHugePage = uintptr_t{2} << 20;

// Whether a piece in [first, last) is taken. Pieces after the last one that was ever taken count as
// taken, because the pool's memory may end there or hold something else.
bool AnyTaken(const IdPool& ids, size_t first, size_t last) {
  for (size_t id = first; id < last; ++id) {
    if (ids.IsTaken(id)) return true;
  }
  return false;
}

}  // namespace

uint64_t IdleBytesToReturn(uint64_t idle, uint64_t reserved, uint64_t recent_peak, uint64_t limit) {
  const uint64_t within_limit = limit - std::min(limit, reserved);
  const uint64_t given_up = recent_peak - std::min(recent_peak, reserved);
  const uint64_t kept = std::min(std::max(reserved, given_up) + kIdleBytesKept, within_limit);
  return idle <= kept ? 0 : idle - kept + std::min(kept / 4, kMostMore);
}

void ReturnPieces(DeviceMemory& memory, size_t piece_bytes, const IdPool& ids, size_t first,
                  size_t last) {
  if (piece_bytes == 0) return;
  // A write to one piece may have given memory to all of its huge page, so also to pieces that
  // nobody has taken since. Their memory is returned with their neighbour's.
  const auto base = reinterpret_cast<uintptr_t>(memory.data());
  const size_t spare = memory.size() / piece_bytes - 1;
  const uintptr_t huge_begin = (base + first * piece_bytes) / kHugePage * kHugePage;
  while (first > 0 && base + first * piece_bytes > huge_begin && ids.IsEmpty(first - 1)) --first;
  const uintptr_t huge_end = (base + last * piece_bytes + kHugePage - 1) / kHugePage * kHugePage;
  while (last < spare && base + last * piece_bytes < huge_end && ids.IsEmpty(last)) ++last;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  size_t begin = first * piece_bytes / page * page;
  if (AnyTaken(ids, begin / piece_bytes, first)) begin += page;
  size_t end = (last * piece_bytes + page - 1) / page * page;
  if (AnyTaken(ids, last, (end + piece_bytes - 1) / piece_bytes)) end -= page;
  const size_t free_begin = first * piece_bytes, free_end = last * piece_bytes;
  if (begin >= end) return memory.ZeroPoisoned(free_begin, free_end - free_begin);
  memory.Discard(begin, end - begin);
  if (free_begin < begin) memory.ZeroPoisoned(free_begin, begin - free_begin);
  if (end < free_end) memory.ZeroPoisoned(end, free_end - end);
}

}  // namespace longstream
