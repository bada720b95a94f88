// Draws grammars, and recognises their strings.
#include "tests/service/grammar/random_grammar.h"

namespace longstream {

RandomGrammar::RandomGrammar(uint64_t seed) : random_(seed) {
  const size_t num_rules = 1 + random_() % 4;
  rules_.resize(num_rules);
  for (Tree& rule : rules_) rule = Draw(0);
  std::vector<GrammarBuilder::Rule> rules;
  for (size_t i = 0; i < num_rules; ++i) rules.push_back(builder_.Declare());
  for (size_t i = 0; i < num_rules; ++i) builder_.Define(rules[i], Add(rules_[i]));
}

RandomGrammar::Tree RandomGrammar::Draw(int depth) {
  Tree tree;
  const uint64_t kind = random_() % (depth > 3 ? 2 : 6);
  switch (kind) {
    case 0:
      tree.kind = Tree::kLetter;
      for (const char letter : kLetters) {
        if (random_() % 2 == 0) tree.letters += letter;
      }
      if (tree.letters.empty()) tree.letters = "a";
      break;
    case 1:
      tree.kind = Tree::kCall;
      tree.rule = static_cast<uint32_t>(random_() % rules_.size());
      break;
    case 2:
    case 3:
      tree.kind = kind == 2 ? Tree::kSequence : Tree::kChoice;
      for (uint64_t parts = random_() % 4; parts > 0; --parts)
        tree.parts.push_back(Draw(depth + 1));
      break;
    default:
      tree.kind = Tree::kRepeat;
      tree.parts.push_back(Draw(depth + 1));
      tree.least = static_cast<uint32_t>(random_() % 3);
      tree.most = kind == 4 ? kNoMost : tree.least + static_cast<uint32_t>(random_() % 3);
  }
  return tree;
}

GrammarBuilder::Expression RandomGrammar::Add(const Tree& tree) {
  std::vector<GrammarBuilder::Expression> parts;
  for (const Tree& part : tree.parts) parts.push_back(Add(part));
  switch (tree.kind) {
    case Tree::kLetter: {
      if (tree.letters.size() == 1) return builder_.Literal(tree.letters);
      std::vector<CodePoints> ranges;
      for (const char letter : tree.letters) {
        ranges.push_back({static_cast<char32_t>(letter), static_cast<char32_t>(letter)});
      }
      return builder_.Character(ranges);
    }
    case Tree::kSequence:
      return builder_.Sequence(parts);
    case Tree::kChoice:
      return builder_.Choice(parts);
    case Tree::kRepeat:
      return builder_.Repeat(parts[0], tree.least,
                             tree.most == kNoMost ? std::nullopt : std::optional(tree.most));
    case Tree::kCall:
      break;
  }
  return builder_.Call({tree.rule});
}

RandomGrammar::Ends RandomGrammar::EndsOf(const Tree& tree, std::string_view text, size_t place,
                                          const Table& table) {
  Ends ends;
  switch (tree.kind) {
    case Tree::kLetter:
      if (place < text.size() && tree.letters.find(text[place]) != std::string::npos) {
        ends.insert(place + 1);
      }
      break;
    case Tree::kCall:
      ends = table[tree.rule][place];
      break;
    case Tree::kChoice:
      for (const Tree& part : tree.parts) ends.merge(EndsOf(part, text, place, table));
      break;
    case Tree::kSequence:
      ends = {place};
      for (const Tree& part : tree.parts) {
        Ends next;
        for (const size_t end : ends) next.merge(EndsOf(part, text, end, table));
        ends = std::move(next);
      }
      break;
    case Tree::kRepeat: {
      // More repetitions than the text has places add nothing new.
      Ends here = {place};
      for (uint32_t i = 0; i <= tree.most && i <= tree.least + text.size() + 1; ++i) {
        if (i >= tree.least) ends.insert(here.begin(), here.end());
        Ends next;
        for (const size_t end : here) next.merge(EndsOf(tree.parts[0], text, end, table));
        here = std::move(next);
      }
      break;
    }
  }
  return ends;
}

bool RandomGrammar::Has(std::string_view text) const {
  Table table(rules_.size(), std::vector<Ends>(text.size() + 1));
  for (bool grows = true; grows;) {
    grows = false;
    for (size_t rule = 0; rule < rules_.size(); ++rule) {
      for (size_t place = 0; place <= text.size(); ++place) {
        Ends ends = EndsOf(rules_[rule], text, place, table);
        grows = grows || ends.size() > table[rule][place].size();
        table[rule][place] = std::move(ends);
      }
    }
  }
  return table[0][0].contains(text.size());
}

bool RandomGrammar::HasWithPrefix(std::string_view text, size_t longest) const {
  if (Has(text)) return true;
  if (text.size() >= longest) return false;
  for (const char letter : kLetters) {
    if (HasWithPrefix(std::string(text) + letter, longest)) return true;
  }
  return false;
}

}  // namespace longstream
