// Drawing tokens from a model's logits.
#ifndef TESSERA_CORE_TRAIN_SAMPLING_H_
#define TESSERA_CORE_TRAIN_SAMPLING_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/runtime/engine.h"
#include "core/train/config/run_config.pb.h"

namespace tessera {

// Draws one of the top_k most probable tokens (of all if top_k is 0; the lower token wins a tie):
// token i with a probability proportional to exp(logit_i / temperature). `uniform` in [0, 1)
// determines the draw. At temperature 0, or if no logit is finite, returns the most probable token.
// `logits` must not be empty.
//
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
  // Chooses the token for all ranks of a run, given the token that this rank has drawn. If null,
  // each rank uses its own token.
  std::function<absl::StatusOr<int32_t>(int32_t token)> agree;
};

// Runs the generate Program (programs.h) of `engine` token by token, and passes each new token to
// `receive`, until there are enough or `receive` returns false. `receive` must return the same on
// all ranks of a run. If the text becomes longer than the model's longest sequence, the last half
// of the context is fed again from position 0. A model whose Program reads no position has no such
// limit; its sequence is first filled with the prompt's first token. The n-th new token is drawn
// from Philox by seed and n.
absl::Status Generate(Engine& engine, const GenerationRequest& request,
                      const std::function<bool(int32_t token)>& receive);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_SAMPLING_H_
