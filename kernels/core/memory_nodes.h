// Memory nodes of a machine that divides its memory among its processors (NUMA), and how to spread
// memory over them.
//
// Any thread of the pool may take any task (thread_pool.h), so no part of a weight or a cache
// belongs to one thread. Then memory is read fastest if each node holds an equal share of
// everything: interleaved, page by page.
#ifndef LONGSTREAM_KERNELS_CORE_MEMORY_NODES_H_
#define LONGSTREAM_KERNELS_CORE_MEMORY_NODES_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace longstream {

// Parses ascending numbers in the system's notation, "0-2,5". White space at the end and an empty
// list are allowed. nullopt: the text is anything else.
std::optional<std::vector<int>> ParseNumberList(std::string_view text);

// The nodes that have memory (`nodes_directory`/has_memory), from which this process may take
// memory (Mems_allowed_list of `status_file`) and on whose processors it may run
// (Cpus_allowed_list, and `nodes_directory`/nodeN/cpulist). Empty if the system does not tell.
std::vector<int> NodesOfProcess(const std::string& nodes_directory, const std::string& status_file);

// The nodes to spread large memory of this process over, as they were at the first call. None on a
// machine with one node, and none if the process was started with a memory policy (numactl): that
// policy then holds. Thread-safe.
const std::vector<int>& NodesToSpreadOver();

// Makes new pages of [data, data + size) come from these nodes in turn, huge pages as a whole.
// Pages that exist do not move. False: the system refuses, as in some containers; nothing has
// changed. Does nothing without nodes. REQUIRES: data is at the beginning of a page.
bool Interleave(void* data, size_t size, const std::vector<int>& nodes);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_MEMORY_NODES_H_
