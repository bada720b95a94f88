// A shared library that is no plugin.
extern "C" int longstream_registry_test_answer() { return 42; }
