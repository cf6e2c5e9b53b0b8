// dropout: whole Philox blocks, sixteen at a time, in integer arithmetic: the mask is the same on
// every backend.
#include <cmath>
#include <cstdint>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/dropout.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/parallel.h"
#include "core/kernels/cpu/vectors-inl.h"
#include "core/kernels/cpu/whole_indices.h"
#include "core/tensor/random.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

constexpr int kBlocks = 16;

// The words of blocks [first, first + kBlocks), in order. Plain loops over the blocks, which the
// compiler makes vectors of with this target's instructions.
void DrawBlocks(uint64_t key, uint64_t step, uint64_t first, uint32_t* words) {
  uint32_t c0[kBlocks], c1[kBlocks], c2[kBlocks], c3[kBlocks];
  for (int b = 0; b < kBlocks; ++b) {
    c0[b] = static_cast<uint32_t>(first + b);
    c1[b] = static_cast<uint32_t>((first + b) >> 32);
    c2[b] = static_cast<uint32_t>(step);
    c3[b] = static_cast<uint32_t>(step >> 32);
  }
  uint32_t key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int b = 0; b < kBlocks; ++b) {
      const uint64_t product0 = uint64_t{0xD2511F53} * c0[b];
      const uint64_t product1 = uint64_t{0xCD9E8D57} * c2[b];
      c0[b] = static_cast<uint32_t>(product1 >> 32) ^ c1[b] ^ key0;
      c1[b] = static_cast<uint32_t>(product1);
      c2[b] = static_cast<uint32_t>(product0 >> 32) ^ c3[b] ^ key1;
      c3[b] = static_cast<uint32_t>(product0);
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  for (int b = 0; b < kBlocks; ++b) {
    words[4 * b] = c0[b];
    words[4 * b + 1] = c1[b];
    words[4 * b + 2] = c2[b];
    words[4 * b + 3] = c3[b];
  }
}

// Elements x[0, count) have the indices index, index + 1, ... in the whole tensor. An element is
// kept where its word is at least `threshold`.
void DropoutRun(uint64_t key, uint64_t step, uint64_t index, uint32_t threshold, float kept_share,
                const float* x, float* y, int64_t count) {
  const FloatTag d;
  const hn::RebindToUnsigned<FloatTag> du;
  const Floats divisor = hn::Set(d, kept_share);
  // Room for a vector that begins at the last word.
  HWY_ALIGN uint32_t words[4 * kBlocks + kLanes] = {};
  for (int64_t i = 0; i < count;) {
    const uint64_t first = (index + i) / 4;
    const int64_t skipped = static_cast<int64_t>((index + i) % 4);
    const int64_t run = HWY_MIN(count - i, 4 * kBlocks - skipped);
    DrawBlocks(key, step, first, words);
    const uint32_t* const drawn = words + skipped;
    ForEachVector(run, [=](auto access, int64_t j) HWY_ATTR {
      const auto word = hn::LoadU(du, drawn + j);
      // Without signed comparisons: the larger of the two is the word.
      const auto kept = hn::Eq(hn::Max(word, hn::Set(du, threshold)), word);
      const Floats scaled = hn::Div(access.Load(x + i + j), divisor);
      access.Store(hn::IfThenElseZero(hn::RebindMask(d, kept), scaled), y + i + j);
    });
    i += run;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {
HWY_EXPORT(DropoutRun);
}  // namespace

absl::Status Dropout(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  const Attributes& attributes = call.request.attributes;
  const auto seed = static_cast<uint64_t>(*call.inputs[1].As<int64_t>());
  const auto step = static_cast<uint64_t>(*call.inputs[2].As<int64_t>());
  const double probability = attributes.GetDouble("probability");
  const auto threshold = static_cast<uint64_t>(std::round(probability * 0x1p32));
  const RandomStream stream = MakeStream(seed, attributes.GetString("random_path"));
  const WholeIndices whole(attributes, y.shape);
  ParallelFor(call.request.threads, y.elements(), 4096, [&](int64_t begin, int64_t end) {
    if (threshold > 0xffffffffu) {  // No word is so large.
      std::fill(y.As<float>() + begin, y.As<float>() + end, 0.0f);
      return;
    }
    whole.ForEachRun(begin, end, [&](int64_t first, int64_t count, int64_t index) {
      HWY_DYNAMIC_DISPATCH(DropoutRun)
      (stream.key, step, static_cast<uint64_t>(index), static_cast<uint32_t>(threshold),
       static_cast<float>(1 - probability), x.As<float>() + first, y.As<float>() + first, count);
    });
  });
  return absl::OkStatus();
}

}  // namespace tessera::cpu
#endif  // HWY_ONCE
