/* The backend ABI as a C11 compiler sees it: the header compiles pedantically on its own, the
 * layout is the one written down, and a backend can be written in C. */
#include "tests/backends/api/backend_layout.h"

#include "tests/backends/api/c_backend.h"

#define CHECK_FIELD(structure, field, offset) \
  _Static_assert(offsetof(structure, field) == (offset), #structure "." #field " has moved");
#define CHECK_SIZE(structure, bytes) \
  _Static_assert(sizeof(structure) == (bytes), #structure " has another size");
LS_BACKEND_LAYOUT(CHECK_FIELD, CHECK_SIZE)

_Static_assert(sizeof(ls_code) == 4, "codes travel as 32-bit integers");
_Static_assert(LS_OK == 0 && LS_DATA_LOSS == 15, "codes are gRPC's canonical ones");
_Static_assert(LS_TOKEN_FROM_PREVIOUS < 0, "no token id is taken");

static ls_code Probe(const char* directory, int32_t* fit, ls_error error) {
  (void)directory;
  if (error.capacity > 0) error.text[0] = '\0';
  *fit = 7;
  return LS_OK;
}

static const ls_backend kBackend = {
    .abi_major = LS_ABI_MAJOR,
    .abi_minor = LS_ABI_MINOR,
    .struct_size = sizeof(ls_backend),
    .name = "c",
    .device = "cpu",
    .version = "1",
    .probe = Probe,
};

const ls_backend* CBackend(void) { return &kBackend; }
