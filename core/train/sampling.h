// Drawing tokens from a model's logits.
#ifndef TESSERA_CORE_TRAIN_SAMPLING_H_
#define TESSERA_CORE_TRAIN_SAMPLING_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/runtime/engine.h"
#include "core/train/config/run_config.pb.h"

namespace tessera {

// The token that `uniform` in [0, 1) picks: of the top_k most probable (all if 0; the lower token
// wins a tie), token i with probability proportional to exp(logit_i / temperature). At temperature
// 0, or if no logit is finite, the most probable. `logits` is not empty.
// Thread safety: a pure function.
int32_t SampleToken(absl::Span<const double> logits, double temperature, int64_t top_k,
                    double uniform);

struct GenerationRequest {
  absl::Span<const int32_t> prompt;  // one token or more
  int64_t tokens = 0;                // to generate
  double temperature = 0;
  int64_t top_k = 0;
  uint64_t seed = 0;
  int64_t allowed_tokens = 0;  // only tokens below this are drawn
  int64_t max_sequence = 0;    // the model's
};

// Runs the generate Program (programs.h) of `engine` token by token, and hands each new token to
// `give`, until there are enough or `give` returns false. Where the text becomes longer than the
// model's longest sequence, the last half of the context is given anew and the text goes on; a
// model whose Program reads no position has no such limit, and is first given the first token of
// the prompt as often as fills its sequence. The n-th new token is drawn from Philox by seed and n.
absl::Status Generate(Engine& engine, const GenerationRequest& request,
                      const std::function<bool(int32_t token)>& give);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_SAMPLING_H_
