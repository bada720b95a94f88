// Finds, compiles and keeps formats.
#include "service/grammar/response/compiled_formats.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace longstream {
namespace {

// Steps of TokenMasks::Prepare, which take about 0.1 s.
constexpr uint64_t kPreparation = 10'000'000;
// Formats that are kept for later turns.
constexpr size_t kMostKept = 256;

}  // namespace

CompiledFormats::CompiledFormats(const Tokenizer& tokenizer, const Limits& limits)
    : tokenizer_(tokenizer), limits_(limits), store_(std::make_shared<MaskStore>(limits.masks)) {}

absl::StatusOr<std::shared_ptr<const TokenMasks>> CompiledFormats::Get(
    const ResponseFormat& format) {
  const std::string key = KeyOf(format);
  if (auto found = Find(key); found != nullptr) return found;
  absl::StatusOr<Grammar> grammar = Compile(format);
  if (!grammar.ok()) return grammar.status();
  auto masks = std::make_shared<const TokenMasks>(*std::move(grammar), Trie(), store_);
  if (absl::Status status = Keep(key, masks); !status.ok()) return status;
  masks->Prepare(kPreparation);
  return masks;
}

std::shared_ptr<const TokenMasks> CompiledFormats::Find(const std::string& key) {
  absl::MutexLock lock(&mutex_);
  const auto found = index_.find(key);
  if (found == index_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, found->second);
  return found->second->masks;
}

std::shared_ptr<const TokenTrie> CompiledFormats::Trie() {
  absl::MutexLock lock(&trie_mutex_);
  if (trie_ == nullptr) trie_ = std::make_shared<const TokenTrie>(tokenizer_);
  return trie_;
}

absl::Status CompiledFormats::Keep(const std::string& key,
                                   std::shared_ptr<const TokenMasks> masks) {
  absl::MutexLock lock(&mutex_);
  const size_t bytes = masks->grammar().bytes() + 2 * key.size();
  // Room is made from the formats that no turn uses.
  size_t used = GrammarBytes();
  for (; !kept_.empty() && used + bytes > limits_.grammars; used = GrammarBytes()) DropLast();
  if (used + bytes > limits_.grammars) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "response_format: the grammars of running turns take ", used, " bytes; with this one of ",
        bytes, " they would exceed the limit of ", limits_.grammars));
  }
  all_.push_back(masks);
  if (index_.contains(key)) return absl::OkStatus();  // another thread was faster
  kept_.push_front({key, std::move(masks), bytes});
  index_[key] = kept_.begin();
  kept_bytes_ += bytes;
  while ((kept_bytes_ > limits_.kept && kept_.size() > 1) || kept_.size() > kMostKept) DropLast();
  return absl::OkStatus();
}

void CompiledFormats::DropLast() {
  kept_bytes_ -= kept_.back().bytes;
  index_.erase(kept_.back().key);
  kept_.pop_back();
}

size_t CompiledFormats::GrammarBytes() {
  size_t bytes = 0;
  for (auto it = all_.begin(); it != all_.end();) {
    if (const auto masks = it->lock(); masks != nullptr) {
      bytes += masks->grammar().bytes();
      ++it;
    } else {
      it = all_.erase(it);
    }
  }
  return bytes;
}

size_t CompiledFormats::bytes() const {
  size_t bytes = store_->bytes();
  {
    absl::MutexLock lock(&trie_mutex_);
    if (trie_ != nullptr) bytes += trie_->bytes();
  }
  absl::MutexLock lock(&mutex_);
  for (const auto& weak : all_) {
    if (const auto masks = weak.lock(); masks != nullptr) bytes += masks->grammar().bytes();
  }
  return bytes;
}

}  // namespace longstream
