#include "core/kernels/cpu/im2col.h"

#include <algorithm>
#include <cstring>

#include "core/kernels/cpu/parallel.h"

namespace tessera::cpu {
namespace {

// Returns how many indices, each of which moves so many elements, a thread takes at least.
int64_t GrainOf(int64_t elements) { return 16384 / std::max<int64_t>(1, elements) + 1; }

void CopyFloats(const float* from, int64_t count, float* to) {
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
}

// Writes a row of the taps of one window: `from` is a row of the picture.
void UnfoldTaps(const SlidingWindow& across, int64_t width, int64_t channels, int64_t column,
                const float* from, float* to) {
  const int64_t first = across.FirstTap(column), end = across.EndTap(column, width);
  std::fill(to, to + first * channels, 0.0f);
  if (across.dilation == 1) {
    CopyFloats(from + across.ElementAt(column, first) * channels, (end - first) * channels,
               to + first * channels);
  } else {
    for (int64_t j = first; j < end; ++j) {
      CopyFloats(from + across.ElementAt(column, j) * channels, channels, to + j * channels);
    }
  }
  std::fill(to + end * channels, to + across.taps * channels, 0.0f);
}

}  // namespace

void Unfold(int threads, const ConvolutionSizes& sizes, const float* x,
            const UnfoldedStrips& strips) {
  const PictureWindows& windows = sizes.windows;
  const SlidingWindow &down = windows.vertical, &across = windows.horizontal;
  const int64_t channels = sizes.in_channels, row_of_taps = across.taps * channels;
  ParallelFor(threads, strips.count, GrainOf(windows.out_width * sizes.depth()),
              [&](int64_t begin, int64_t end) {
                for (int64_t strip = begin; strip < end; ++strip) {
                  const int64_t picture = (strips.first + strip) / windows.out_height;
                  const int64_t row = (strips.first + strip) % windows.out_height;
                  float* to = strips.data + strip * windows.out_width * strips.pitch;
                  for (int64_t column = 0; column < windows.out_width;
                       ++column, to += strips.pitch) {
                    for (int64_t i = 0; i < down.taps; ++i) {
                      const int64_t h = down.ElementAt(row, i);
                      if (h < 0 || h >= windows.height) {
                        std::fill(to + i * row_of_taps, to + (i + 1) * row_of_taps, 0.0f);
                        continue;
                      }
                      UnfoldTaps(across, windows.width, channels, column,
                                 x + (picture * windows.height + h) * windows.width * channels,
                                 to + i * row_of_taps);
                    }
                  }
                }
              });
}

void AddFolded(int threads, const ConvolutionSizes& sizes, const UnfoldedStrips& strips,
               float* dx) {
  const PictureWindows& windows = sizes.windows;
  const SlidingWindow &down = windows.vertical, &across = windows.horizontal;
  const int64_t channels = sizes.in_channels, row_elements = windows.width * channels;
  const int64_t first_picture = strips.first / windows.out_height;
  const int64_t last_picture = (strips.first + strips.count - 1) / windows.out_height;
  const int64_t rows = (last_picture - first_picture + 1) * windows.height;
  // Adds what the strip gives to row `h` of a picture, by row `i` of the taps.
  const auto add_strip = [&](const float* from, int64_t i, float* to) {
    for (int64_t w = 0; w < windows.width; ++w) {
      for (int64_t j = 0; j < across.taps; ++j) {
        const int64_t column = across.WindowReading(w, j, windows.out_width);
        if (column < 0) continue;
        const float* const term = from + column * strips.pitch + (i * across.taps + j) * channels;
        for (int64_t c = 0; c < channels; ++c) to[w * channels + c] += term[c];
      }
    }
  };
  ParallelFor(
      threads, rows, GrainOf(row_elements * windows.taps()), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const int64_t picture = first_picture + r / windows.height, h = r % windows.height;
          for (int64_t i = 0; i < down.taps; ++i) {
            const int64_t row = down.WindowReading(h, i, windows.out_height);
            const int64_t strip = picture * windows.out_height + row - strips.first;
            if (row < 0 || strip < 0 || strip >= strips.count) continue;
            add_strip(strips.data + strip * windows.out_width * strips.pitch, i,
                      dx + (picture * windows.height + h) * row_elements);
          }
        }
      });
}

}  // namespace tessera::cpu
