#include "core/kernels/cpu/winograd.h"

#include <algorithm>
#include <cstdint>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/winograd.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/convert_floats.h"
#include "core/kernels/cpu/product-inl.h"
#include "core/kernels/cpu/transpose-inl.h"
#include "core/kernels/cpu/winograd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

// to = G g G^T, for the taps g[3 i + j].
HWY_INLINE void TransformTaps(const Floats (&g)[kTaps * kTaps], Floats (&to)[kTile * kTile]) {
  const Floats half = hn::Set(FloatTag(), 0.5f);
  Floats s[kTile][kTaps];
  for (int j = 0; j < kTaps; ++j) {
    const Floats outer = hn::Add(g[j], g[2 * kTaps + j]);
    s[0][j] = g[j];
    s[1][j] = hn::Mul(half, hn::Add(outer, g[kTaps + j]));
    s[2][j] = hn::Mul(half, hn::Sub(outer, g[kTaps + j]));
    s[3][j] = g[2 * kTaps + j];
  }
  for (int i = 0; i < kTile; ++i) {
    const Floats outer = hn::Add(s[i][0], s[i][2]);
    to[i * kTile] = s[i][0];
    to[i * kTile + 1] = hn::Mul(half, hn::Add(outer, s[i][1]));
    to[i * kTile + 2] = hn::Mul(half, hn::Sub(outer, s[i][1]));
    to[i * kTile + 3] = s[i][2];
  }
}

// Transforms the weight of channels [first, end) of the convolution's result.
template <typename T>
void TransformWeightOf(const WinogradPass& pass, int64_t first, int64_t end) {
  const auto* const weight = static_cast<const T*>(pass.weight);
  // The channels of the convolution's pictures: those of its weight's rows.
  const int64_t in = pass.is_gradient ? pass.tiles.out_channels : pass.tiles.channels;
  const WinogradMatrices& to = pass.transformed;
  // Of one vector of `in` for each of a block of channels, by position, to be transposed.
  HWY_ALIGN float block[kTile * kTile][kWinogradBlock][kLanes] = {};
  for (int64_t c = 0; c < in; c += kLanes) {
    const ShortVector access{std::min(kLanes, in - c)};
    for (int64_t k = first; k < end; ++k) {
      Floats taps[kTaps * kTaps], transformed[kTile * kTile];
      for (int tap = 0; tap < kTaps * kTaps; ++tap) {
        const int from = pass.is_gradient ? kTaps * kTaps - 1 - tap : tap;
        taps[tap] = access.Load(weight + (k * kTaps * kTaps + from) * in + c);
      }
      TransformTaps(taps, transformed);
      for (int p = 0; p < kTile * kTile; ++p) {
        float* const direct = to.data + p * to.position + k * to.pitch + c;
        hn::StoreU(transformed[p], FloatTag(), pass.is_gradient ? direct : block[p][k - first]);
      }
    }
    if (pass.is_gradient) continue;
    for (int p = 0; p < kTile * kTile; ++p) {
      // Rows past the last channel are zeros, which fill the last vector of a row.
      Transpose(&block[p][0][0], kLanes, kWinogradBlock, access.count,
                to.data + p * to.position + c * to.pitch + first, to.pitch);
    }
  }
}

void TransformWeight(const WinogradPass& pass, int64_t first, int64_t end) {
  WithFloatType(pass.dtype, [&](auto type) {
    for (int64_t k = first; k < end; k += kWinogradBlock) {
      TransformWeightOf<decltype(type)>(pass, k, std::min(end, k + kWinogradBlock));
    }
  });
}

HWY_INLINE Floats Finished(Floats y, Floats bias, bool has_bias, bool relu) {
  if (has_bias) y = hn::Add(y, bias);
  // As the operator relu: NaN stays.
  return relu ? hn::IfThenZeroElse(hn::Le(y, hn::Zero(FloatTag())), y) : y;
}

// Writes A^T m A of a tile to its results; m is the row of the tile. Returns whether all are
// finite.
template <typename T>
bool StoreResults(const WinogradPass& pass, const float* m, int64_t position, T* const* results) {
  const float* const bias = pass.bias;
  const bool has_bias = bias != nullptr, relu = pass.relu;
  Floats check = hn::Zero(FloatTag());
  ForEachVector(pass.tiles.out_channels, [=, &check](auto access, int64_t c) HWY_ATTR {
    const FloatTag d;
    Floats s[kResults][kTile];
    for (int j = 0; j < kTile; ++j) {
      const float* const at = m + j * position + c;
      const Floats m0 = hn::LoadU(d, at), m1 = hn::LoadU(d, at + kTile * position);
      const Floats m2 = hn::LoadU(d, at + 2 * kTile * position);
      const Floats m3 = hn::LoadU(d, at + 3 * kTile * position);
      s[0][j] = hn::Add(m0, hn::Add(m1, m2));
      s[1][j] = hn::Sub(hn::Sub(m1, m2), m3);
    }
    const Floats added = has_bias ? access.Load(bias + c) : hn::Zero(d);
    for (int i = 0; i < kResults; ++i) {
      const Floats y0 = hn::Add(s[i][0], hn::Add(s[i][1], s[i][2]));
      const Floats y1 = hn::Sub(hn::Sub(s[i][1], s[i][2]), s[i][3]);
      // An infinity becomes a NaN, and a NaN stays.
      check = hn::MulAdd(hn::Zero(d), y0, hn::MulAdd(hn::Zero(d), y1, check));
      access.Store(Finished(y0, added, has_bias, relu), results[i * kResults] + c);
      access.Store(Finished(y1, added, has_bias, relu), results[i * kResults + 1] + c);
    }
  });
  return hn::AllFalse(FloatTag(), hn::IsNaN(check));
}

// Adds the products of a pixel with a tap's weight to the sums of a result.
template <typename T>
void AddTap(const WinogradPass& pass, const T* pixel, int tap, float* sums) {
  const int64_t channels = pass.tiles.channels, out = pass.tiles.out_channels;
  const auto* const weight = static_cast<const T*>(pass.weight);
  if (pass.is_gradient) {
    for (int64_t k = 0; k < channels; ++k) {
      const T* const row = weight + (k * kTaps * kTaps + kTaps * kTaps - 1 - tap) * out;
      HWY_ALIGN float factors[kLanes];
      hn::Store(ShortVector{1}.Load(pixel + k), FloatTag(), factors);
      const Floats factor = hn::Set(FloatTag(), factors[0]);
      ForEachVector(out, [=](auto access, int64_t c) HWY_ATTR {
        access.Store(hn::MulAdd(factor, access.Load(row + c), access.Load(sums + c)), sums + c);
      });
    }
    return;
  }
  for (int64_t k = 0; k < out; ++k) {
    const T* const row = weight + (k * kTaps * kTaps + tap) * channels;
    Floats sum = hn::Zero(FloatTag());
    ForEachVector(channels, [=, &sum](auto access, int64_t c) HWY_ATTR {
      sum = hn::MulAdd(access.Load(pixel + c), access.Load(row + c), sum);
    });
    sums[k] += hn::GetLane(hn::SumOfLanes(FloatTag(), sum));
  }
}

// Computes the results of a tile by the definition. `sums` has room for a pixel of the result.
template <typename From, typename To>
void ComputeByDefinition(const WinogradPass& pass, int64_t tile, float* sums) {
  const auto* const zeros = static_cast<const From*>(pass.zeros);
  const TilePixels<From> read(pass.tiles, static_cast<const From*>(pass.x), zeros, tile);
  To* results[kResults * kResults];
  FindResults<To>(pass.tiles, static_cast<To*>(pass.y), nullptr, tile, results);
  for (int result = 0; result < kResults * kResults; ++result) {
    To* const y = results[result];
    if (y == nullptr) continue;
    std::fill(sums, sums + pass.tiles.out_channels, 0.0f);
    for (int tap = 0; tap < kTaps * kTaps; ++tap) {
      const int row = result / kResults + tap / kTaps, column = result % kResults + tap % kTaps;
      const From* const pixel = read.pixels[row * kTile + column];
      if (pixel != zeros) AddTap(pass, pixel, tap, sums);
    }
    const float* const bias = pass.bias;
    const bool has_bias = bias != nullptr, relu = pass.relu;
    ForEachVector(pass.tiles.out_channels, [=](auto access, int64_t c) HWY_ATTR {
      const Floats added = has_bias ? access.Load(bias + c) : hn::Zero(FloatTag());
      access.Store(Finished(access.Load(sums + c), added, has_bias, relu), y + c);
    });
  }
}

// The scratch has the transformed tiles, their products, and a pixel of the result.
void RunTiles(const WinogradPass& pass, int64_t first, int64_t count, float* scratch) {
  const int64_t channels = pass.tiles.channels, out = pass.tiles.out_channels;
  const WinogradMatrices from(scratch, count, channels);
  const WinogradMatrices products(scratch + WinogradMatrices::Floats(count, channels), count, out);
  float* const pixel = products.data + WinogradMatrices::Floats(count, out);
  WithFloatType(pass.dtype, [&](auto type) {
    using T = decltype(type);
    TransformPictures(pass.tiles, static_cast<const T*>(pass.x), static_cast<const T*>(pass.zeros),
                      first, count, from, 0);
  });
  for (int64_t p = 0; p < kWinogradPositions; ++p) {
    const ProductArguments<float> product = {
        .a = from.data + p * from.position,
        .a_row = from.pitch,
        .a_depth = 1,
        .b = pass.transformed.data + p * pass.transformed.position,
        .b_row = pass.transformed.pitch,
        .c = products.data + p * products.position,
        .c_row = products.pitch,
        .depth = channels,
        .accumulate = false};
    Product(product, count, FullVectors(out));
  }
  WithFloatType(pass.stored, [&](auto type) {
    using To = decltype(type);
    for (int64_t t = 0; t < count; ++t) {
      To* results[kResults * kResults];
      FindResults(pass.tiles, static_cast<To*>(pass.y), reinterpret_cast<To*>(pixel), first + t,
                  results);
      if (StoreResults<To>(pass, products.data + t * products.pitch, products.position, results)) {
        continue;
      }
      WithFloatType(pass.dtype, [&](auto read) {
        ComputeByDefinition<decltype(read), To>(pass, first + t, pixel);
      });
    }
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {
HWY_EXPORT(TransformWeight);
HWY_EXPORT(RunTiles);
}  // namespace

void TransformWinogradWeight(const WinogradPass& pass, int64_t first, int64_t end) {
  HWY_DYNAMIC_DISPATCH(TransformWeight)(pass, first, end);
}

void RunWinogradTiles(const WinogradPass& pass, int64_t first, int64_t count, float* scratch) {
  HWY_DYNAMIC_DISPATCH(RunTiles)(pass, first, count, scratch);
}

int64_t WinogradScratch(const WinogradTiles& tiles, int64_t count) {
  return WinogradMatrices::Floats(count, tiles.channels) +
         WinogradMatrices::Floats(count, tiles.out_channels) + tiles.out_channels;
}

}  // namespace tessera::cpu
#endif  // HWY_ONCE
