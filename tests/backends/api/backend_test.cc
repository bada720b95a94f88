// The backend ABI in C++: it has the layout that backend_layout.c checks in C, and C++ can call a
// table that C has filled.
#include "backends/api/backend.h"

#include <gtest/gtest.h>

#include <type_traits>

#include "tests/backends/api/backend_layout.h"
#include "tests/backends/api/c_backend.h"

namespace {

#define CHECK_FIELD(structure, field, offset) \
  static_assert(offsetof(structure, field) == (offset), #structure "." #field " has moved");
#define CHECK_SIZE(structure, bytes)                                           \
  static_assert(sizeof(structure) == (bytes), #structure " has another size"); \
  static_assert(std::is_standard_layout_v<structure> && std::is_trivial_v<structure>);
LS_BACKEND_LAYOUT(CHECK_FIELD, CHECK_SIZE)

// struct_size comes first in structures whose reader must know how much the other side has filled
// in. The table begins with the versions, which every major version must keep in place.
static_assert(offsetof(ls_host, struct_size) == 0);
static_assert(offsetof(ls_model_options, struct_size) == 0);
static_assert(offsetof(ls_model_info, struct_size) == 0);
static_assert(offsetof(ls_memory, struct_size) == 0);
static_assert(offsetof(ls_sequence_bytes, struct_size) == 0);
static_assert(offsetof(ls_sampling, struct_size) == 0);
static_assert(offsetof(ls_batch, struct_size) == 0);
static_assert(offsetof(ls_snapshot_info, struct_size) == 0);
static_assert(offsetof(ls_backend, abi_major) == 0);

// Readers require this struct_size for ever: a later minor version must not raise it.
static_assert(LS_HOST_SIZE_1_0 == 40);
static_assert(LS_MODEL_OPTIONS_SIZE_1_0 == 64);
static_assert(LS_SAMPLING_SIZE_1_0 == 76);
// Hosts before 1.4 give the size of their structure, 80: the new field begins behind its padding.
static_assert(offsetof(ls_sampling, allowed) == 80 && LS_SAMPLING_SIZE_1_4 == 88);
static_assert(LS_BATCH_SIZE_1_0 == 20);
static_assert(LS_BACKEND_SIZE_1_0 == 184);
static_assert(LS_BACKEND_SIZE_1_2 == 192);
static_assert(LS_BACKEND_SIZE_1_3 == 248);

TEST(BackendAbi, TableWrittenInCIsCalledFromCxx) {
  const ls_backend_function backend_function = &CBackend;
  const ls_backend* backend = backend_function();
  EXPECT_EQ(backend->abi_major, LS_ABI_MAJOR);
  EXPECT_EQ(backend->struct_size, sizeof(ls_backend));
  EXPECT_STREQ(backend->name, "c");
  EXPECT_EQ(backend->submit, nullptr);

  char text[8] = "unset";
  int32_t fit = 0;
  EXPECT_EQ(backend->probe("anywhere", &fit, ls_error{text, sizeof(text)}), LS_OK);
  EXPECT_EQ(fit, 7);
  EXPECT_STREQ(text, "");
}

TEST(BackendAbi, CapabilitiesAreDistinctBits) {
  const uint64_t bits[] = {
      LS_CAP_SNAPSHOT,         LS_CAP_FORK,       LS_CAP_SCORE,      LS_CAP_QUANTISED_WEIGHTS,
      LS_CAP_IN_FLIGHT_TOKENS, LS_CAP_LOOK_AHEAD, LS_CAP_SET_BUDGET, LS_CAP_SEGMENTS,
      LS_CAP_ALLOWED_TOKENS};
  uint64_t all = 0;
  for (const uint64_t bit : bits) {
    EXPECT_EQ(bit & (bit - 1), 0u);
    EXPECT_EQ(all & bit, 0u);
    all |= bit;
  }
}

}  // namespace
