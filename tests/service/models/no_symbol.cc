// A shared library that does not export the plugin's symbol.
extern "C" int longstream_registry_test_answer() { return 42; }
