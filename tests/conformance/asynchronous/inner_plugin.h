// The path of the plugin whose steps asynchronous.cc delays. The asynchronous plugins differ only
// in this path.
#ifndef LONGSTREAM_TESTS_CONFORMANCE_ASYNCHRONOUS_INNER_PLUGIN_H_
#define LONGSTREAM_TESTS_CONFORMANCE_ASYNCHRONOUS_INNER_PLUGIN_H_

extern const char* const kInnerPlugin;

#endif  // LONGSTREAM_TESTS_CONFORMANCE_ASYNCHRONOUS_INNER_PLUGIN_H_
