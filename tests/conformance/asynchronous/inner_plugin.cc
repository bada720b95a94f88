#include "tests/conformance/asynchronous/inner_plugin.h"

const char* const kInnerPlugin = LONGSTREAM_INNER_PLUGIN;
