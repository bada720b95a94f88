// CRC-32C (Castagnoli), the checksum of iSCSI, of ext4 and of our snapshots.
#ifndef LONGSTREAM_BACKENDS_CACHES_CRC32C_H_
#define LONGSTREAM_BACKENDS_CACHES_CRC32C_H_

#include <cstddef>
#include <cstdint>

namespace longstream {

// Extends `crc`, the checksum of the preceding bytes, by these bytes. The checksum of no bytes is
// 0.
uint32_t ExtendCrc32c(uint32_t crc, const void* data, size_t size);
// The same without a special instruction, for processors that have none.
uint32_t ExtendCrc32cByTables(uint32_t crc, const void* data, size_t size);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CACHES_CRC32C_H_
