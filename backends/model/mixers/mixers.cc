// From a layer's spec to its mixer.
#include "backends/model/mixers/mixers.h"

#include <cassert>
#include <cstdlib>

namespace longstream {

const Mixer& MixerOf(const MixerSpec& mixer) {
  switch (mixer.kind) {
    case MixerKind::kFull:
    case MixerKind::kWindow:
      return mixer.gau ? GatedAttentionUnit() : Attention();
    case MixerKind::kLightning:
      assert(!mixer.gau);
      return Lightning();
    case MixerKind::kGatedRnn:
      assert(!mixer.gau);
      return GatedRnn();
  }
  std::abort();  // no other kind exists
}

}  // namespace longstream
