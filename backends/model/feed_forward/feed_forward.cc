// The choice of a feed-forward part by its kind.
#include "backends/model/feed_forward/feed_forward.h"

#include <cstdlib>

#include "backends/model/feed_forward/kinds.h"

namespace longstream {
namespace {

class NoFeedForward final : public FeedForward {
 public:
  void Read(const NamedTensors&, LayerWeights*) const override {}
  void RaiseSizes(const StepLimits&, const ModelSpec&, StepSizes*) const override {}
  LinearInput Hidden(ForwardPass&, size_t, const NormWeights&) const override { return {}; }
  void AddHidden(ForwardPass&, size_t, const LinearInput&) const override {}
};

}  // namespace

const FeedForward& FeedForwardOf(FeedForwardKind kind) {
  static const NoFeedForward none;
  switch (kind) {
    case FeedForwardKind::kGated:
      return GatedMlp();
    case FeedForwardKind::kPlain:
      return PlainMlp();
    case FeedForwardKind::kExperts:
      return Experts();
    case FeedForwardKind::kNone:
      return none;
  }
  std::abort();  // no other kind exists
}

}  // namespace longstream
