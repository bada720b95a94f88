// A list in the order of use, with an index.
#include "service/grammar/mask_store.h"

namespace longstream {

size_t NodeTokens::bytes() const {
  constexpr size_t kOfList = 150;  // the entry of the list and of the index
  return kOfList + sizeof(NodeTokens) + bits.capacity() * sizeof(uint32_t) +
         tokens.capacity() * sizeof(int32_t) + leaves.capacity() * sizeof(uint32_t);
}

uint64_t MaskStore::NewGrammar() {
  absl::MutexLock lock(&mutex_);
  return ++grammars_;
}

std::shared_ptr<const NodeTokens> MaskStore::Find(uint64_t grammar, Grammar::Node node) {
  absl::MutexLock lock(&mutex_);
  const auto found = index_.find({grammar, node});
  if (found == index_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, found->second);
  return found->second->second;
}

void MaskStore::Keep(uint64_t grammar, Grammar::Node node,
                     std::shared_ptr<const NodeTokens> tokens) {
  absl::MutexLock lock(&mutex_);
  const Key key = {grammar, node};
  if (index_.contains(key)) return;
  bytes_ += tokens->bytes();
  kept_.emplace_front(key, std::move(tokens));
  index_[key] = kept_.begin();
  while (bytes_ > most_bytes_ && kept_.size() > 1) {
    bytes_ -= kept_.back().second->bytes();
    index_.erase(kept_.back().first);
    kept_.pop_back();
  }
}

size_t MaskStore::bytes() const {
  absl::MutexLock lock(&mutex_);
  return bytes_;
}

}  // namespace longstream
