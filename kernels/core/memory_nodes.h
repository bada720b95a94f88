// Memory nodes of a machine that divides its memory among its processors (NUMA), and how to spread
// memory over them.
//
// Any thread of the pool may take any task (thread_pool.h), so no part of a weight or a cache
// belongs to one thread. Therefore memory is read fastest if each node holds an equal share of
// everything. The pages of a range are placed on the nodes in turn (they are interleaved).
#ifndef LONGSTREAM_KERNELS_CORE_MEMORY_NODES_H_
#define LONGSTREAM_KERNELS_CORE_MEMORY_NODES_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace longstream {

// Parses ascending numbers in the system's notation, "0-2,5". White space at the end and an empty
// list are allowed. Returns nullopt for any other text.
std::optional<std::vector<int>> ParseNumberList(std::string_view text);

// The nodes whose memory this process should use. Such a node
//   - has memory (`nodes_directory`/has_memory),
//   - may give memory to this process (Mems_allowed_list of `status_file`), and
//   - has a processor on which this process may run (Cpus_allowed_list of `status_file` and
//     `nodes_directory`/nodeN/cpulist).
// The result is empty if the system does not tell.
std::vector<int> NodesOfProcess(const std::string& nodes_directory, const std::string& status_file);

// The nodes to spread large memory of this process over, as they were at the first call. The list
// is empty on a machine with one node. It is also empty if the process was started with a memory
// policy (numactl), because that policy then holds. Thread-safe.
const std::vector<int>& NodesToSpreadOver();

// Makes new pages of [data, data + size) come from these nodes in turn; a huge page comes from one
// node. Pages that exist do not move. Returns false if the system refuses, as in some containers;
// then nothing has changed. Without nodes, does nothing. REQUIRES: data is at the beginning of a
// page.
bool Interleave(void* data, size_t size, const std::vector<int>& nodes);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_MEMORY_NODES_H_
