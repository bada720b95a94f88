// The kinds of feed-forward parts. FeedForwardOf chooses one of them.
#ifndef LONGSTREAM_BACKENDS_MODEL_FEED_FORWARD_KINDS_H_
#define LONGSTREAM_BACKENDS_MODEL_FEED_FORWARD_KINDS_H_

#include "backends/model/feed_forward/feed_forward.h"

namespace longstream {

const FeedForward& GatedMlp();
const FeedForward& PlainMlp();
const FeedForward& Experts();

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_MODEL_FEED_FORWARD_KINDS_H_
