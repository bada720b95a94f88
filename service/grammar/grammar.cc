// Counts the memory of a grammar.
#include "service/grammar/grammar.h"

namespace longstream {

size_t Grammar::bytes() const {
  return firsts_.capacity() * sizeof(Node) + (nullable_.capacity() + ends_.capacity()) / 8 +
         (edges_begin_.capacity() + calls_begin_.capacity()) * sizeof(uint32_t) +
         edges_.capacity() * sizeof(Edge) + calls_.capacity() * sizeof(Call);
}

}  // namespace longstream
