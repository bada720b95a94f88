// The path of the plugin whose steps asynchronous.cc delays: the only thing in which the
// asynchronous plugins differ.
#ifndef LONGSTREAM_TESTS_CONFORMANCE_ASYNCHRONOUS_INNER_PLUGIN_H_
#define LONGSTREAM_TESTS_CONFORMANCE_ASYNCHRONOUS_INNER_PLUGIN_H_

extern const char* const kInnerPlugin;

#endif  // LONGSTREAM_TESTS_CONFORMANCE_ASYNCHRONOUS_INNER_PLUGIN_H_
