// The keys of segments: what the caches in them have read, and which model has computed them.
#ifndef LONGSTREAM_SERVICE_SERVING_CACHES_CACHE_KEYS_H_
#define LONGSTREAM_SERVICE_SERVING_CACHES_CACHE_KEYS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "service/sessions/feed.h"
#include "service/sessions/store/segments.h"

struct evp_md_ctx_st;

namespace longstream {

// A SHA-256 of bytes that come in pieces. Values of fixed size keep apart what their neighbours
// have. Used by one thread.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  // Goes on from the bytes that `other` has got so far.
  Sha256(const Sha256& other);
  Sha256& operator=(const Sha256&) = delete;

  void Add(std::span<const std::byte> bytes);
  void Add(uint64_t value) { Add(std::as_bytes(std::span(&value, 1))); }
  // Call it once, at the end.
  store::SegmentKey Finish();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  const std::unique_ptr<evp_md_ctx_st, Free> context_;
};

// Computes the keys of one history, in one pass. Histories have equal keys at a position if and
// only if they have the same tokens before it, have read them in the same way to the bit, and were
// computed by the same model. So a key of one session is good for every other, and a session that
// has changed does not find the caches of what it was. Used by one thread.
class CacheKeys {
 public:
  // `cache`: names the model and how it computes (CacheName). `feed`: how the tokens were read; it
  // may go on behind them. `grid`: the model's prefill grid. The tokens must outlive the object.
  CacheKeys(std::string_view cache, std::span<const int32_t> tokens, const Feed& feed,
            uint32_t grid);
  // Goes on with another history, which is the same up to position().
  void GoOn(std::span<const int32_t> tokens, const Feed& feed) {
    tokens_ = tokens;
    runs_ = feed.runs();
  }
  // Of the last key.
  uint64_t position() const { return position_; }

  // Each position is not lower than those of the calls before, and not behind the tokens.
  store::SegmentKey Span(uint64_t begin, uint64_t end);
  store::SegmentKey Fixed(uint64_t position);

 private:
  store::SegmentKey KeyAt(store::SegmentKind kind, uint64_t begin, uint64_t position);

  std::span<const int32_t> tokens_;
  std::vector<FeedRun> runs_;
  const uint64_t grid_;
  uint64_t position_ = 0;  // tokens that were added
  size_t run_ = 0;         // runs that were added
  Sha256 tokens_hash_;     // begins with the cache's name
  Sha256 runs_hash_;
};

// The keys of fixed blocks of one history, which grows, and is cut at times. Only new tokens are
// hashed. Used by one thread.
class GrowingKeys {
 public:
  // As for CacheKeys.
  GrowingKeys(std::string cache, uint32_t grid) : cache_(std::move(cache)), grid_(grid) {}

  // `positions` ascend. `unchanged`: the history is the same up to there as in the last call.
  std::vector<store::SegmentKey> Fixed(std::span<const uint64_t> positions,
                                       std::span<const int32_t> tokens, const Feed& feed,
                                       uint64_t unchanged);

  // Bytes of memory that the object holds, about.
  uint64_t bytes() const;

 private:
  struct Known {
    uint64_t position = 0;
    store::SegmentKey key;
  };

  std::string cache_;
  uint32_t grid_;
  uint64_t end_ = 0;          // of the feed in the last call
  std::vector<Known> known_;  // of the last call
  // The hash up to the last known position, and up to the one before it: many turns replace the end
  // of the turn before.
  std::list<CacheKeys> hashes_;
};

// The name of caches that a model with this fingerprint has computed with these kernels.
std::string CacheName(uint64_t fingerprint, const std::string& kernels);
// The kernels in a name; an empty string if the name is of another model.
std::string KernelsOf(const std::string& cache, uint64_t fingerprint);
// The kernels of caches that `first` has computed and that go on with `then`.
std::string MixedKernels(const std::string& first, const std::string& then);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_CACHES_CACHE_KEYS_H_
