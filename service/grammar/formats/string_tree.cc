#include "service/grammar/formats/string_tree.h"

#include <algorithm>

#include "service/tokenizer/text/utf8.h"

namespace longstream {

bool StringTree::Add(std::string_view text, size_t most_nodes) {
  size_t node = 0;
  for (size_t offset = 0; offset < text.size() && nodes_.size() <= most_nodes;) {
    node = Child(node, NextCodePoint(text, &offset));
  }
  nodes_[node].is_end = true;
  return nodes_.size() <= most_nodes;
}

size_t StringTree::Child(size_t node, char32_t c) {
  auto& children = nodes_[node].children;
  const auto place = std::ranges::lower_bound(children, c, {}, &std::pair<char32_t, size_t>::first);
  if (place != children.end() && place->first == c) return place->second;
  const size_t child = nodes_.size();
  children.insert(place, {c, child});
  const size_t depth = nodes_[node].depth + 1;
  nodes_.push_back({.depth = depth});
  return child;
}

}  // namespace longstream
