// The nodes of a machine whose memory is divided among its processors (NUMA), and memory that is
// spread over them.
//
// Any thread of a pool may take any task (thread_pool.h), so no part of a weight or of a cache
// belongs to one thread, and the memory of all nodes is read fastest where each holds an equal
// share of everything: interleaved, page by page.
#ifndef LONGSTREAM_KERNELS_CORE_MEMORY_NODES_H_
#define LONGSTREAM_KERNELS_CORE_MEMORY_NODES_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace longstream {

// Numbers in the system's notation, "0-2,5", rising; white space at the end and an empty list are
// accepted. nullopt: anything else.
std::optional<std::vector<int>> ParseNumberList(std::string_view text);

// The nodes that have memory (`nodes_directory`/has_memory), that this process may take memory from
// (Mems_allowed_list of `status_file`) and whose processors it may run on (Cpus_allowed_list, and
// `nodes_directory`/nodeN/cpulist). Empty where the system does not say.
std::vector<int> NodesOfProcess(const std::string& nodes_directory, const std::string& status_file);

// The nodes that large memory of this process is to be spread over, as they were when this was
// first called: none on a machine of one node, and none where the process was started with a memory
// policy of its own (numactl), which stays.
const std::vector<int>& NodesToSpreadOver();

// Pages of [data, data + size) that are not there yet will come from these nodes in turn, huge
// pages as a whole. False where the system refuses, which some containers do: then memory stays
// what it was. Without nodes it does nothing. REQUIRES: data at the beginning of a page
bool Interleave(void* data, size_t size, const std::vector<int>& nodes);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_MEMORY_NODES_H_
