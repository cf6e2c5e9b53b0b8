// Unfolds pictures into a matrix with a row for each window ("im2col"), so that a convolution is a
// product of matrices, and adds such a matrix up to pictures ("col2im").
//
// A row has the elements that its window reads, in the order of the weight's dimensions [window
// height, window width, in]; those in the padding are 0. Everything is f32, in one group. Rows are
// handled in whole rows of windows, of which a picture has out_height; "strip" is one of those.
#ifndef TESSERA_CORE_KERNELS_CPU_IM2COL_H_
#define TESSERA_CORE_KERNELS_CPU_IM2COL_H_

#include <cstdint>

#include "core/ops/convolution.h"

namespace tessera::cpu {

// The matrix of the windows of strips [first, first + count) of a batch. Strips are numbered
// through all pictures.
struct UnfoldedStrips {
  float* data;
  int64_t pitch;  // elements from one row to the next
  int64_t first, count;
};

// Fills the matrix from the pictures x.
void Unfold(int threads, const ConvolutionSizes& sizes, const float* x,
            const UnfoldedStrips& strips);

// Adds the elements of the matrix to the elements of the pictures dx that the windows read, in an
// order that does not depend on the number of threads.
void AddFolded(int threads, const ConvolutionSizes& sizes, const UnfoldedStrips& strips, float* dx);

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_IM2COL_H_
