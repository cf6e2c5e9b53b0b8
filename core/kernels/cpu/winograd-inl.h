// The tiles of Winograd's minimal filtering (winograd.h): their addresses, and the transform of
// what a convolution reads.
#include <cstdint>

#include "core/kernels/cpu/vectors-inl.h"
#include "core/kernels/cpu/winograd.h"

#if defined(TESSERA_CORE_KERNELS_CPU_WINOGRAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CORE_KERNELS_CPU_WINOGRAD_INL_H_
#undef TESSERA_CORE_KERNELS_CPU_WINOGRAD_INL_H_
#else
#define TESSERA_CORE_KERNELS_CPU_WINOGRAD_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {

inline constexpr int kTaps = 3, kTile = 4, kResults = 2;  // along one side

inline int64_t FullVectors(int64_t channels) { return (channels + kLanes - 1) / kLanes * kLanes; }

// A tile's first result, and the addresses of the pixels that it reads; padding is `zeros`.
template <typename T>
struct TilePixels {
  int64_t picture, row, column;
  const T* pixels[kTile * kTile];

  TilePixels(const WinogradTiles& tiles, const T* x, const T* zeros, int64_t tile) {
    picture = tile / tiles.of_picture();
    row = tile % tiles.of_picture() / tiles.across() * kResults;
    column = tile % tiles.across() * kResults;
    for (int i = 0; i < kTile; ++i) {
      const int64_t h = row - tiles.top + i;
      for (int j = 0; j < kTile; ++j) {
        const int64_t w = column - tiles.left + j;
        const bool inside = h >= 0 && h < tiles.height && w >= 0 && w < tiles.width;
        const int64_t pixel = (picture * tiles.height + h) * tiles.width + w;
        pixels[i * kTile + j] = inside ? x + pixel * tiles.channels : zeros;
      }
    }
  }
};

// Finds the addresses of the 2 x 2 results of a tile. Those outside of the picture are `outside`.
template <typename T>
HWY_INLINE void FindResults(const WinogradTiles& tiles, T* y, T* outside, int64_t tile,
                            T* (&results)[kResults * kResults]) {
  const int64_t picture = tile / tiles.of_picture();
  const int64_t row = tile % tiles.of_picture() / tiles.across() * kResults;
  const int64_t column = tile % tiles.across() * kResults;
  for (int i = 0; i < kResults; ++i) {
    for (int j = 0; j < kResults; ++j) {
      const bool inside = row + i < tiles.out_height && column + j < tiles.out_width;
      const int64_t pixel = (picture * tiles.out_height + row + i) * tiles.out_width + column + j;
      results[i * kResults + j] = inside ? y + pixel * tiles.out_channels : outside;
    }
  }
}

// Writes B^T d B of tiles [first, first + count) to rows of `to` from `row` on.
template <typename T>
HWY_INLINE void TransformPictures(const WinogradTiles& tiles, const T* x, const T* zeros,
                                  int64_t first, int64_t count, const WinogradMatrices& to,
                                  int64_t row) {
  const int64_t position = to.position;
  for (int64_t t = 0; t < count; ++t) {
    const TilePixels<T> tile(tiles, x, zeros, first + t);
    const T* const* const pixels = tile.pixels;
    float* const target = to.data + (row + t) * to.pitch;
    ForEachVector(tiles.channels, [=](auto access, int64_t c) HWY_ATTR {
      const FloatTag d;
      Floats s[kTile][kTile];
      for (int j = 0; j < kTile; ++j) {
        const Floats d0 = access.Load(pixels[j] + c), d1 = access.Load(pixels[kTile + j] + c);
        const Floats d2 = access.Load(pixels[2 * kTile + j] + c);
        const Floats d3 = access.Load(pixels[3 * kTile + j] + c);
        s[0][j] = hn::Sub(d0, d2);
        s[1][j] = hn::Add(d1, d2);
        s[2][j] = hn::Sub(d2, d1);
        s[3][j] = hn::Sub(d1, d3);
      }
      for (int i = 0; i < kTile; ++i) {
        float* const at = target + i * kTile * position + c;
        hn::StoreU(hn::Sub(s[i][0], s[i][2]), d, at);
        hn::StoreU(hn::Add(s[i][1], s[i][2]), d, at + position);
        hn::StoreU(hn::Sub(s[i][2], s[i][1]), d, at + 2 * position);
        hn::StoreU(hn::Sub(s[i][1], s[i][3]), d, at + 3 * position);
      }
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard for each target
