// Hashes the tokens and the runs of the feed side by side, because a run may end behind a position.
#include "service/serving/caches/cache_keys.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cassert>

#include "absl/strings/str_format.h"
#include "service/host_memory/host_memory.h"
#include "service/sessions/stored_caches.h"

namespace longstream {
namespace {

void AddRun(uint64_t end, bool is_decode, Sha256* hash) {
  hash->Add(2 * end + (is_decode ? 1 : 0));
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr);
}

Sha256::~Sha256() = default;

Sha256::Sha256(const Sha256& other) : context_(EVP_MD_CTX_new()) {
  EVP_MD_CTX_copy_ex(context_.get(), other.context_.get());
}

void Sha256::Add(std::span<const std::byte> bytes) {
  EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size());
}

store::SegmentKey Sha256::Finish() {
  store::SegmentKey key;
  EVP_DigestFinal_ex(context_.get(), key.bytes.data(), nullptr);
  return key;
}

CacheKeys::CacheKeys(std::string_view cache, std::span<const int32_t> tokens, const Feed& feed,
                     uint32_t grid)
    : tokens_(tokens), runs_(feed.runs()), grid_(grid) {
  tokens_hash_.Add(cache.size());
  tokens_hash_.Add(std::as_bytes(std::span(cache)));
}

store::SegmentKey CacheKeys::KeyAt(store::SegmentKind kind, uint64_t begin, uint64_t position) {
  assert(position >= position_ && position <= tokens_.size());
  tokens_hash_.Add(std::as_bytes(tokens_.subspan(position_, position - position_)));
  position_ = position;
  // A run that ends here may go on in a longer history (GoOn).
  for (; run_ < runs_.size() && runs_[run_].end < position; ++run_) {
    AddRun(runs_[run_].end, runs_[run_].is_decode, &runs_hash_);
  }
  Sha256 runs(runs_hash_);
  const uint64_t complete = run_ > 0 ? runs_[run_ - 1].end : 0;
  if (complete < position && run_ < runs_.size()) {
    // The end of a prefill matters for the bits of the tokens on the same grid interval only.
    const FeedRun& run = runs_[run_];
    const uint64_t line = (position + grid_ - 1) / grid_ * grid_;
    AddRun(run.is_decode ? position : std::min(run.end, line), run.is_decode, &runs);
  }
  Sha256 key;
  key.Add(static_cast<uint64_t>(kind));
  key.Add(begin);
  key.Add(position);
  const store::SegmentKey hashes[] = {Sha256(tokens_hash_).Finish(), runs.Finish()};
  for (const store::SegmentKey& hash : hashes) key.Add(std::as_bytes(std::span(hash.bytes)));
  return key.Finish();
}

store::SegmentKey CacheKeys::Span(uint64_t begin, uint64_t end) {
  return KeyAt(store::SegmentKind::kSpan, begin, end);
}

store::SegmentKey CacheKeys::Fixed(uint64_t position) {
  return KeyAt(store::SegmentKind::kFixed, 0, position);
}

std::vector<store::SegmentKey> GrowingKeys::Fixed(std::span<const uint64_t> positions,
                                                  std::span<const int32_t> tokens, const Feed& feed,
                                                  uint64_t unchanged) {
  // The end of a prefill matters for the tokens on the same grid interval, also if it is cut.
  if (unchanged < end_) unchanged = unchanged / grid_ * grid_;
  end_ = feed.end();
  std::erase_if(known_, [&](const Known& known) { return known.position > unchanged; });
  std::erase_if(hashes_, [&](const CacheKeys& hash) { return hash.position() > unchanged; });
  std::vector<Known> all;
  all.reserve(positions.size());
  for (const uint64_t position : positions) {
    const auto found = std::find_if(known_.begin(), known_.end(),
                                    [&](const Known& known) { return known.position == position; });
    if (found != known_.end()) {
      all.push_back(*found);
      continue;
    }
    while (!hashes_.empty() && hashes_.back().position() > position) hashes_.pop_back();
    if (hashes_.empty()) {
      hashes_.emplace_back(cache_, tokens, feed, grid_);
    } else {
      hashes_.push_back(hashes_.back());
      hashes_.back().GoOn(tokens, feed);
    }
    if (hashes_.size() > 2) hashes_.pop_front();
    all.push_back({position, hashes_.back().Fixed(position)});
  }
  known_ = std::move(all);
  assert(std::all_of(known_.begin(), known_.end(), [&](const Known& known) {
    return known.key == CacheKeys(cache_, tokens, feed, grid_).Fixed(known.position);
  }));
  for (CacheKeys& hash : hashes_) hash.GoOn({}, Feed());  // the tokens may move now
  std::vector<store::SegmentKey> keys;
  keys.reserve(known_.size());
  for (const Known& known : known_) keys.push_back(known.key);
  return keys;
}

uint64_t GrowingKeys::bytes() const {
  // The library does not say how much a hash takes.
  constexpr uint64_t kHashBytes = 512;
  return BlockBytes(cache_) + BlockBytes(known_) +
         hashes_.size() * (NodeBytes<CacheKeys>() + 2 * kHashBytes);
}

std::string CacheName(uint64_t fingerprint, const std::string& kernels) {
  return absl::StrFormat("%016x %s", fingerprint, kernels);
}

std::string KernelsOf(const std::string& cache, uint64_t fingerprint) {
  const std::string prefix = CacheName(fingerprint, "");
  return cache.starts_with(prefix) ? cache.substr(prefix.size()) : "";
}

std::string MixedKernels(const std::string& first, const std::string& then) {
  const std::string end = "+" + then;
  if (first == then || first.ends_with(end)) return first;
  const size_t plus = first.find('+');
  if (plus == std::string::npos) return first + end;
  return (first.starts_with(kFromFile) ? first.substr(0, plus) + "+mixed" : "mixed") + end;
}

}  // namespace longstream
