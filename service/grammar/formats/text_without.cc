// The search of D. Knuth, J. Morris and V. Pratt ("Fast pattern matching in strings", 1977) as a
// machine: state i has read a text that ends with the first i characters of the one that is
// searched for, and no more of them.
#include "service/grammar/formats/text_without.h"

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "service/tokenizer/text/utf8.h"

namespace longstream {

GrammarBuilder::Expression AddTextWithout(GrammarBuilder& builder, std::string_view text) {
  std::vector<char32_t> searched;
  for (size_t offset = 0; offset < text.size();) searched.push_back(NextCodePoint(text, &offset));
  // borders[i]: the most characters, fewer than i, with which the first i ones begin and end.
  std::vector<size_t> borders{0, 0};
  for (size_t i = 1; i < searched.size(); ++i) {
    size_t border = borders[i];
    while (border > 0 && searched[border] != searched[i]) border = borders[border];
    borders.push_back(searched[border] == searched[i] ? border + 1 : 0);
  }

  const std::set<char32_t> letters(searched.begin(), searched.end());
  std::vector<CodePoints> known;
  known.reserve(letters.size());
  for (const char32_t letter : letters) known.push_back({letter, letter});
  const GrammarBuilder::Expression other = builder.CharacterExcept(known);
  std::vector<GrammarBuilder::Arc> arcs;
  for (size_t state = 0; state < searched.size(); ++state) {
    arcs.push_back({static_cast<uint32_t>(state), other, 0});
    for (const char32_t letter : letters) {
      size_t border = state;
      while (border > 0 && searched[border] != letter) border = borders[border];
      const size_t to = searched[border] == letter ? border + 1 : 0;
      if (to == searched.size()) continue;  // the text would occur
      const CodePoints only{letter, letter};
      arcs.push_back(
          {static_cast<uint32_t>(state), builder.Character({only}), static_cast<uint32_t>(to)});
    }
  }
  return builder.Machine(static_cast<uint32_t>(searched.size()), std::move(arcs));
}

}  // namespace longstream
