// dropout. It draws complete Philox blocks, a vector of blocks at a time, in integer arithmetic.
// The mask is the same on every backend.
#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/dropout.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/convert_floats.h"
#include "core/kernels/cpu/global_indices.h"
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/parallel.h"
#include "core/kernels/cpu/vectors-inl.h"
#include "core/ops/dropout.h"
#include "core/tensor/random.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

using WordTag = hn::RebindToUnsigned<FloatTag>;
using Words = hn::Vec<WordTag>;

// Computes the high and low halves of 64-bit products.
HWY_INLINE void Multiply(Words a, uint32_t factor, Words& high, Words& low) {
  const WordTag d;
#if HWY_TARGET == HWY_SCALAR
  const uint64_t product = uint64_t{hn::GetLane(a)} * factor;
  high = hn::Set(d, static_cast<uint32_t>(product >> 32));
  low = hn::Set(d, static_cast<uint32_t>(product));
#else
  const hn::RepartitionToWide<WordTag> dw;
  const Words factors = hn::Set(d, factor);
  const auto even = hn::MulEven(a, factors);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(dw, a))), factors);
  const auto upper = hn::Set(dw, 0xffffffff00000000u);
  high = hn::BitCast(d, hn::Or(hn::ShiftRight<32>(even), hn::And(odd, upper)));
  low = hn::BitCast(d, hn::Or(hn::AndNot(upper, even), hn::ShiftLeft<32>(odd)));
#endif
}

// The number of blocks that are drawn together, one in each lane.
constexpr int64_t kBlocks = kLanes;

// Writes the words of blocks [first, first + kBlocks), in order, by Philox4x32-10
// (core/tensor/philox.h).
void DrawBlocks(uint64_t key, uint64_t step, uint64_t first, uint32_t* words) {
  const WordTag d;
  HWY_ALIGN uint32_t high_of_index[kBlocks];
  for (int64_t b = 0; b < kBlocks; ++b) {
    high_of_index[b] = static_cast<uint32_t>((first + b) >> 32);
  }
  Words c0 = hn::Iota(d, static_cast<uint32_t>(first)), c1 = hn::Load(d, high_of_index);
  Words c2 = hn::Set(d, static_cast<uint32_t>(step));
  Words c3 = hn::Set(d, static_cast<uint32_t>(step >> 32));
  uint32_t key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    Words high0, low0, high1, low1;
    Multiply(c0, 0xD2511F53, high0, low0);
    Multiply(c2, 0xCD9E8D57, high1, low1);
    c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(d, key0));
    c1 = low1;
    c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(d, key1));
    c3 = low0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  hn::StoreInterleaved4(c0, c1, c2, c3, d, words);
}

// Sets y to x / kept_share where an element is kept, and to 0 elsewhere. Elements x[0, count) have
// the indices index, index + 1, ... in the global tensor. An element is kept if its word is at
// least `threshold`.
template <typename T>
void DropElements(uint64_t key, uint64_t step, uint64_t index, uint32_t threshold, float kept_share,
                  const T* x, T* y, int64_t count) {
  const FloatTag d;
  const WordTag du;
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
      // Compares unsigned: the word is at least the threshold if it is the larger of the two.
      const auto kept = hn::Eq(hn::Max(word, hn::Set(du, threshold)), word);
      const Floats scaled = hn::Div(access.Load(x + i + j), divisor);
      access.Store(hn::IfThenElseZero(hn::RebindMask(d, kept), scaled), y + i + j);
    });
    i += run;
  }
}

void DropoutRun(DType dtype, uint64_t key, uint64_t step, uint64_t index, uint32_t threshold,
                float kept_share, const void* x, void* y, int64_t count) {
  WithFloatType(dtype, [&](auto type) {
    using T = decltype(type);
    DropElements(key, step, index, threshold, kept_share, static_cast<const T*>(x),
                 static_cast<T*>(y), count);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {
HWY_EXPORT(DropoutRun);

absl::Status Dropout(const KernelCall& call) {
  const TensorView &x = call.inputs[DropoutInput::kX], &y = call.outputs[0];
  const Attributes& attributes = call.request.attributes;
  const auto seed = static_cast<uint64_t>(*call.inputs[DropoutInput::kSeed].As<int64_t>());
  const auto step = static_cast<uint64_t>(*call.inputs[DropoutInput::kStep].As<int64_t>());
  const double probability = attributes.GetDouble("probability");
  const auto threshold = static_cast<uint64_t>(std::round(probability * 0x1p32));
  const RandomStream stream = MakeStream(seed, call.draw->path);
  const GlobalIndices indices(*call.draw, y.shape);
  ParallelFor(call.request.threads, y.elements(), 4096, [&](int64_t begin, int64_t end) {
    if (threshold > 0xffffffffu) {  // no word is so large
      std::memset(ElementAt(y.dtype, y.data, begin), 0, (end - begin) * SizeOf(y.dtype));
      return;
    }
    indices.ForEachRun(begin, end, [&](int64_t first, int64_t count, int64_t index) {
      HWY_DYNAMIC_DISPATCH(DropoutRun)
      (x.dtype, stream.key, step, static_cast<uint64_t>(index), static_cast<uint32_t>(threshold),
       static_cast<float>(1 - probability), ElementAt(x.dtype, x.data, first),
       ElementAt(x.dtype, y.data, first), count);
    });
  });
  return absl::OkStatus();
}

}  // namespace

void AddDropoutKernels(KernelList& list) { list.Add("dropout", "highway", Dropout, kRowMajor); }

}  // namespace tessera::cpu
#endif  // HWY_ONCE
