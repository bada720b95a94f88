// The first byte of an opened block.
#ifndef LONGSTREAM_SERVICE_SEALING_BLOCK_KIND_H_
#define LONGSTREAM_SERVICE_SEALING_BLOCK_KIND_H_

namespace longstream {

inline constexpr char kPlainBlock = 0;
inline constexpr char kZstdBlock = 1;

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SEALING_BLOCK_KIND_H_
