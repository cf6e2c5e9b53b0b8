// The arithmetic of convolutions of 3 x 3 taps by Winograd's minimal filtering, F(2 x 2, 3 x 3) of
// Lavin and Gray 2015, "Fast Algorithms for Convolutional Neural Networks".
//
// A tile of 2 x 2 results is computed from 4 x 4 elements d and the weights g of one channel as
//
//   A^T [(G g G^T) (B^T d B)] A,
//
// where the product is by element: 16 multiplications instead of 36. The sums over channels are 16
// products of matrices, one for each position in a tile. Sums are f32; the transforms of elements
// are additions, so results are about as accurate as those of the definition.
//
// A NaN or an infinity would reach all results of its tile. Results that are not finite are
// therefore computed again by the definition.
#ifndef TESSERA_CORE_KERNELS_CPU_WINOGRAD_H_
#define TESSERA_CORE_KERNELS_CPU_WINOGRAD_H_

#include <cstdint>

#include "core/tensor/dtype.h"

namespace tessera::cpu {

inline constexpr int64_t kWinogradPositions = 16;  // of a tile of 4 x 4

// Pictures that a convolution with stride 1 reads, and the tiles of its results. Tiles are numbered
// through all pictures.
struct WinogradTiles {
  int64_t batch = 0, height = 0, width = 0, channels = 0;  // that are read
  int64_t out_height = 0, out_width = 0, out_channels = 0;
  int64_t top = 0, left = 0;  // padding

  int64_t across() const { return (out_width + 1) / 2; }
  int64_t of_picture() const { return (out_height + 1) / 2 * across(); }
  int64_t count() const { return batch * of_picture(); }
};

// A matrix for each position. Rows are further apart than their elements need, so that those of
// wide matrices do not share few sets of the caches.
struct WinogradMatrices {
  float* data = nullptr;
  int64_t pitch = 0;     // elements from one row to the next
  int64_t position = 0;  // elements from one matrix to the next

  WinogradMatrices() = default;
  WinogradMatrices(float* data, int64_t rows, int64_t columns)
      : data(data), pitch(Pitch(columns)), position(rows * pitch + kPad) {}

  static int64_t Floats(int64_t rows, int64_t columns) {
    return kWinogradPositions * (rows * Pitch(columns) + kPad);
  }

 private:
  static constexpr int64_t kPad = 16;  // as many as the longest vector has
  static int64_t Pitch(int64_t columns) { return (columns + kPad - 1) / kPad * kPad + kPad; }
};

// A convolution or its gradient by data, which is the convolution of dy with the taps in reverse
// order and the channels exchanged.
struct WinogradPass {
  bool is_gradient = false;
  WinogradTiles tiles;
  DType dtype = DType::kF32;     // of x, the weight and `zeros`
  const void* x = nullptr;       // the pictures that are read
  const void* weight = nullptr;  // [out, 3, 3, in] of the convolution
  const void* zeros = nullptr;   // a pixel of padding
  WinogradMatrices transformed;  // the weight: a row for each channel that is read
  DType stored = DType::kF32;
  void* y = nullptr;            // the result, of dtype `stored`
  const float* bias = nullptr;  // added to the pixels of the result; nullptr: nothing is added
  bool relu = false;            // whether negative results become 0
};

// The gradient by weight.
struct WinogradWeightPass {
  WinogradTiles tiles;  // of the convolution
  DType dtype = DType::kF32;
  const void* x = nullptr;
  const void* dy = nullptr;
  const void* zeros = nullptr;         // a pixel of padding of x or dy
  WinogradMatrices x_tiles, dy_tiles;  // a row for each tile of a chunk
  WinogradMatrices sums;               // a row for each channel of dy
  DType stored = DType::kF32;
  void* dweight = nullptr;  // of dtype `stored`
};

// All functions may run concurrently for ranges that do not overlap.

// Transforms the weight of the channels [first, end) of the convolution's result, where `first` is
// a multiple of kWinogradBlock.
inline constexpr int64_t kWinogradBlock = 16;
void TransformWinogradWeight(const WinogradPass& pass, int64_t first, int64_t end);

// Computes the results of `count` tiles. `scratch` has the floats of WinogradScratch.
void RunWinogradTiles(const WinogradPass& pass, int64_t first, int64_t count, float* scratch);
int64_t WinogradScratch(const WinogradTiles& tiles, int64_t count);

// Transforms `count` tiles of x and dy to the rows of matrices from `row` on.
void TransformWinogradTiles(const WinogradWeightPass& pass, int64_t first, int64_t count,
                            int64_t row);
// Adds the products of `count` transformed tiles to `channels` rows of the sums of a position, or
// sets these.
struct WinogradSum {
  int64_t position, first_channel, channels;
  bool accumulate;
};
void AddWinogradProducts(const WinogradWeightPass& pass, const WinogradSum& sum, int64_t count);
// Computes the gradient of the weight from the sums, for channels [first, end) of dy.
void StoreWinogradGradient(const WinogradWeightPass& pass, int64_t first, int64_t end);

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_WINOGRAD_H_
