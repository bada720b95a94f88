// A prefix tree of strings.
#ifndef LONGSTREAM_SERVICE_GRAMMAR_FORMATS_STRING_TREE_H_
#define LONGSTREAM_SERVICE_GRAMMAR_FORMATS_STRING_TREE_H_

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

namespace longstream {

// Each node stands for a prefix of the strings. Node 0 is the empty prefix, and children come after
// their parents.
class StringTree {
 public:
  struct Node {
    size_t depth = 0;
    bool is_end = false;                                  // the prefix is one of the strings
    std::vector<std::pair<char32_t, size_t>> children{};  // in rising order
  };

  StringTree() : nodes_(1) {}

  // Adds a string. Returns false if the tree has more than `most_nodes` nodes then.
  // REQUIRES: text is UTF-8.
  bool Add(std::string_view text, size_t most_nodes);

  size_t size() const { return nodes_.size(); }
  const Node& operator[](size_t node) const { return nodes_[node]; }

 private:
  size_t Child(size_t node, char32_t c);

  std::vector<Node> nodes_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_FORMATS_STRING_TREE_H_
