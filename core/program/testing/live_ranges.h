// Examples of live ranges for the test and the benchmark of AssignOffsets().
#ifndef TESSERA_CORE_PROGRAM_TESTING_LIVE_RANGES_H_
#define TESSERA_CORE_PROGRAM_TESTING_LIVE_RANGES_H_

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "core/program/memory/assign_offsets.h"

namespace tessera {

// Returns random live ranges. About one in eight is long; the others last a few steps.
inline std::vector<LiveRange> RandomLiveRanges(int count, int steps, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<LiveRange> ranges;
  for (int i = 0; i < count; ++i) {
    const int32_t first = static_cast<int32_t>(random() % steps);
    const int32_t last = first + static_cast<int32_t>(random() % (random() % 8 == 0 ? steps : 5));
    ranges.push_back({static_cast<int64_t>(64 * (1 + random() % 1000)), first, last});
  }
  return ranges;
}

// Returns the live ranges of a transformer's training step in micro-batches: activations that are
// kept until the backward pass, values that last a few steps, sums of gradients that are replaced
// in each micro-batch, and the largest tensors (chunks of logits and a tied embedding's gradients).
// There are 24 * layers + 6 ranges a micro-batch.
inline std::vector<LiveRange> TrainingLiveRanges(int layers, int micro_batches) {
  constexpr int kForward = 8, kBackward = 16;  // instructions of a layer
  constexpr int64_t kUnit = 3 * 64 * 1024;     // bytes of [tokens, channels]
  constexpr int64_t kLarge = 50 * kUnit;
  const int32_t steps = layers * (kForward + kBackward) + 6;
  std::vector<LiveRange> ranges;
  for (int m = 0; m < micro_batches; ++m) {
    const int32_t begin = m * steps;
    const bool last = m + 1 == micro_batches;
    const int32_t end = begin + steps - 1;
    for (int l = 0; l < layers; ++l) {
      const int32_t forward = begin + l * kForward;
      const int32_t backward = begin + layers * kForward + 6 + (layers - 1 - l) * kBackward;
      const int64_t kept[] = {1, 3, 1, 1, 1, 4, 4, 1};
      for (int i = 0; i < kForward; ++i) {
        const bool is_short = i == 3 || i == 7;
        ranges.push_back(
            {kept[i] * kUnit, forward + i, is_short ? forward + i + 1 : backward + 15 - 2 * i});
      }
      for (int i = 0; i < kBackward; ++i) {
        const bool sum = i % 4 == 3;  // of a weight's gradients
        const int64_t bytes = sum ? (i + 1) * kUnit / 2 : (1 + i % 4) * kUnit;
        const int32_t first = backward + i;
        ranges.push_back(
            {bytes, first, sum ? (last ? end + 1 : first + steps) : first + 1 + i % 3});
      }
    }
    const int32_t middle = begin + layers * kForward;
    ranges.push_back({kLarge / 4, middle, middle + 4});
    ranges.push_back({kLarge, middle + 1, end});
    ranges.push_back({64, middle + 2, end});
    ranges.push_back({kUnit, middle + 3, middle + 6});
    ranges.push_back({kLarge, end - 1, end});
    ranges.push_back({kLarge, end, last ? end + 1 : end + steps});
  }
  return ranges;
}

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_TESTING_LIVE_RANGES_H_
