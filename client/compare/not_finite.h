// The numbers that are not finite.
#ifndef LONGSTREAM_CLIENT_COMPARE_NOT_FINITE_H_
#define LONGSTREAM_CLIENT_COMPARE_NOT_FINITE_H_

#include <limits>

namespace longstream::client {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMPARE_NOT_FINITE_H_
