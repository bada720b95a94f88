// Tests the ops on a GPU.
#include "tests/gpu/run_tests.h"

int main(int argc, char** argv) {
  longstream::RunTestsOnGpu(argc, argv, longstream::TestHeap::kManaged);
}
