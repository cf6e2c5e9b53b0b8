// The gradient of a convolution's weight by Winograd's minimal filtering. From the bilinear form of
// the convolution, it is G^T [sum over tiles of (A dy A^T) (B^T d B)] G.
#include <algorithm>
#include <cstdint>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/winograd_weight.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/convert_floats.h"
#include "core/kernels/cpu/product-inl.h"
#include "core/kernels/cpu/winograd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

// Writes A dy A^T of tiles [first, first + count) to rows of `to` from `row` on.
template <typename T>
void TransformGradients(const WinogradTiles& tiles, const T* dy, const T* zeros, int64_t first,
                        int64_t count, const WinogradMatrices& to, int64_t row) {
  const int64_t position = to.position;
  for (int64_t t = 0; t < count; ++t) {
    const T* results[kResults * kResults];
    FindResults(tiles, dy, zeros, first + t, results);
    const T* const* const from = results;
    float* const target = to.data + (row + t) * to.pitch;
    ForEachVector(tiles.out_channels, [=](auto access, int64_t c) HWY_ATTR {
      const FloatTag d;
      Floats s[kTile][kResults];
      for (int j = 0; j < kResults; ++j) {
        const Floats y0 = access.Load(from[j] + c), y1 = access.Load(from[kResults + j] + c);
        s[0][j] = y0;
        s[1][j] = hn::Add(y0, y1);
        s[2][j] = hn::Sub(y0, y1);
        s[3][j] = hn::Neg(y1);
      }
      for (int i = 0; i < kTile; ++i) {
        float* const at = target + i * kTile * position + c;
        hn::StoreU(s[i][0], d, at);
        hn::StoreU(hn::Add(s[i][0], s[i][1]), d, at + position);
        hn::StoreU(hn::Sub(s[i][0], s[i][1]), d, at + 2 * position);
        hn::StoreU(hn::Neg(s[i][1]), d, at + 3 * position);
      }
    });
  }
}

void TransformTiles(const WinogradWeightPass& pass, int64_t first, int64_t count, int64_t row) {
  WithFloatType(pass.dtype, [&](auto type) {
    using T = decltype(type);
    const auto* const zeros = static_cast<const T*>(pass.zeros);
    TransformPictures(pass.tiles, static_cast<const T*>(pass.x), zeros, first, count, pass.x_tiles,
                      row);
    TransformGradients(pass.tiles, static_cast<const T*>(pass.dy), zeros, first, count,
                       pass.dy_tiles, row);
  });
}

void AddProducts(const WinogradWeightPass& pass, const WinogradSum& sum, int64_t count) {
  const WinogradMatrices &x = pass.x_tiles, &dy = pass.dy_tiles, &sums = pass.sums;
  const ProductArguments<float> product = {
      .a = dy.data + sum.position * dy.position + sum.first_channel,
      .a_row = 1,
      .a_depth = dy.pitch,
      .b = x.data + sum.position * x.position,
      .b_row = x.pitch,
      .c = sums.data + sum.position * sums.position + sum.first_channel * sums.pitch,
      .c_row = sums.pitch,
      .depth = count,
      .accumulate = sum.accumulate};
  Product(product, sum.channels, FullVectors(pass.tiles.channels));
}

// Computes, by the definition, the gradients of all taps for one channel k of dy and a vector of
// channels of x.
template <typename T, class Access>
void GradientByDefinition(const WinogradWeightPass& pass, int64_t k, Access access, int64_t c,
                          Floats (&g)[kTaps * kTaps]) {
  const WinogradTiles& tiles = pass.tiles;
  for (Floats& each : g) each = hn::Zero(FloatTag());
  const auto* dy = static_cast<const T*>(pass.dy) + k;
  for (int64_t picture = 0; picture < tiles.batch; ++picture) {
    for (int64_t row = 0; row < tiles.out_height; ++row) {
      for (int64_t column = 0; column < tiles.out_width; ++column, dy += tiles.out_channels) {
        HWY_ALIGN float first[kLanes];
        hn::Store(ShortVector{1}.Load(dy), FloatTag(), first);
        const Floats factor = hn::Set(FloatTag(), first[0]);
        for (int tap = 0; tap < kTaps * kTaps; ++tap) {
          const int64_t h = row - tiles.top + tap / kTaps, w = column - tiles.left + tap % kTaps;
          if (h < 0 || h >= tiles.height || w < 0 || w >= tiles.width) continue;
          const int64_t pixel = (picture * tiles.height + h) * tiles.width + w;
          const T* const x = static_cast<const T*>(pass.x) + pixel * tiles.channels + c;
          g[tap] = hn::MulAdd(factor, access.Load(x), g[tap]);
        }
      }
    }
  }
}

// g = G^T s G, for the sums s of all positions. Returns whether all are finite.
HWY_INLINE bool GradientOfTaps(const Floats (&s)[kTile * kTile], Floats (&g)[kTaps * kTaps]) {
  const FloatTag d;
  const Floats half = hn::Set(d, 0.5f);
  Floats rows[kTaps][kTile], check = hn::Zero(d);
  for (int j = 0; j < kTile; ++j) {
    const Floats s1 = hn::Mul(half, s[kTile + j]), s2 = hn::Mul(half, s[2 * kTile + j]);
    rows[0][j] = hn::Add(s[j], hn::Add(s1, s2));
    rows[1][j] = hn::Sub(s1, s2);
    rows[2][j] = hn::Add(hn::Add(s1, s2), s[3 * kTile + j]);
  }
  for (int i = 0; i < kTaps; ++i) {
    const Floats s1 = hn::Mul(half, rows[i][1]), s2 = hn::Mul(half, rows[i][2]);
    g[i * kTaps] = hn::Add(rows[i][0], hn::Add(s1, s2));
    g[i * kTaps + 1] = hn::Sub(s1, s2);
    g[i * kTaps + 2] = hn::Add(hn::Add(s1, s2), rows[i][3]);
  }
  // An infinity becomes a NaN, and a NaN stays.
  for (const Floats& each : g) check = hn::MulAdd(hn::Zero(d), each, check);
  return hn::AllFalse(d, hn::IsNaN(check));
}

void StoreGradient(const WinogradWeightPass& pass, int64_t first, int64_t end) {
  const int64_t channels = pass.tiles.channels;
  const WinogradMatrices& sums = pass.sums;
  WithFloatType(pass.stored, [&](auto type) {
    auto* const dweight = static_cast<decltype(type)*>(pass.dweight);
    for (int64_t k = first; k < end; ++k) {
      ForEachVector(channels, [&, k](auto access, int64_t c) HWY_ATTR {
        Floats s[kTile * kTile], g[kTaps * kTaps];
        for (int p = 0; p < kTile * kTile; ++p) {
          s[p] = access.Load(sums.data + p * sums.position + k * sums.pitch + c);
        }
        if (!GradientOfTaps(s, g)) {
          WithFloatType(pass.dtype, [&](auto read) {
            GradientByDefinition<decltype(read)>(pass, k, access, c, g);
          });
        }
        for (int tap = 0; tap < kTaps * kTaps; ++tap) {
          access.Store(g[tap], dweight + (k * kTaps * kTaps + tap) * channels + c);
        }
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
HWY_EXPORT(TransformTiles);
HWY_EXPORT(AddProducts);
HWY_EXPORT(StoreGradient);
}  // namespace

void TransformWinogradTiles(const WinogradWeightPass& pass, int64_t first, int64_t count,
                            int64_t row) {
  HWY_DYNAMIC_DISPATCH(TransformTiles)(pass, first, count, row);
}

void AddWinogradProducts(const WinogradWeightPass& pass, const WinogradSum& sum, int64_t count) {
  HWY_DYNAMIC_DISPATCH(AddProducts)(pass, sum, count);
}

void StoreWinogradGradient(const WinogradWeightPass& pass, int64_t first, int64_t end) {
  HWY_DYNAMIC_DISPATCH(StoreGradient)(pass, first, end);
}

}  // namespace tessera::cpu
#endif  // HWY_ONCE
