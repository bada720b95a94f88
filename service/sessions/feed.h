// How the tokens of a session were read: the runs of prefill and of decode.
#ifndef LONGSTREAM_SERVICE_SESSIONS_FEED_H_
#define LONGSTREAM_SERVICE_SESSIONS_FEED_H_

#include <cstdint>
#include <vector>

namespace longstream {

// Consecutive tokens that were read in the same way: as one prefill, or one by one as decode
// entries. A run begins where the run before it ends.
struct FeedRun {
  uint64_t end = 0;  // the position after its last token
  bool is_decode = false;

  friend bool operator==(const FeedRun&, const FeedRun&) = default;
};

// A sequence that reads the same tokens in the same runs has the same bits (backends/api/backend.h,
// Determinism). So a session's caches can be computed again exactly. A prefill may be cut at
// multiples of the prefill grid without a change of bits; the feed does not record such cuts.
class Feed {
 public:
  // The number of tokens that were read.
  uint64_t end() const { return runs_.empty() ? 0 : Run(runs_.back()).end; }
  // The run that reads the token at `position`. REQUIRES: position < end().
  FeedRun RunAt(uint64_t position) const;
  // How many of the tokens from `from` on were read as decode entries.
  uint64_t decode_tokens(uint64_t from = 0) const;
  std::vector<FeedRun> runs() const;

  // Records that the tokens from end() up to `end` were read, as decode entries or as a piece of a
  // prefill. Does nothing if end() is not lower. `grid`: the model's prefill grid.
  void Add(uint64_t end, bool is_decode, uint32_t grid);
  // Forgets the tokens from `position` on.
  void Truncate(uint64_t position);
  // As Truncate, but a prefill that `position` would cut between two grid lines ends at the first
  // of them. So the tokens that remain have the bits that they had before, however they are read
  // again, and a prefill may go on behind them.
  void GoBack(uint64_t position, uint32_t grid);
  // How many of the first `limit` tokens `other` has read as this feed has, to the bit.
  uint64_t CommonEnd(const Feed& other, uint64_t limit, uint32_t grid) const;
  // The tokens from `position` on will be read again, as one prefill.
  void ReadAsPrefill(uint64_t position, uint32_t grid);

  // The runs as they are stored. For counting their memory.
  const std::vector<uint64_t>& block() const { return runs_; }

 private:
  static FeedRun Run(uint64_t stored) { return {stored >> 1, (stored & 1) != 0}; }

  std::vector<uint64_t> runs_;  // per run: 2 * end + is_decode
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SESSIONS_FEED_H_
