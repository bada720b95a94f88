// The C side of the plugin, under another name than the symbol of the ABI: timed_backend.cc exports
// that symbol.
#define longstream_backend longstream_untimed_backend
#include "backends/runtime/c_abi.cc"  // NOLINT(bugprone-suspicious-include)
