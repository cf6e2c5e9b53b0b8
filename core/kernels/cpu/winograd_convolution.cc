#include "core/kernels/cpu/winograd_convolution.h"

#include <algorithm>
#include <cstring>

#include "core/kernels/cpu/aligned.h"
#include "core/kernels/cpu/convert_floats.h"
#include "core/kernels/cpu/parallel.h"
#include "core/kernels/cpu/winograd.h"

namespace tessera::cpu {
namespace {

// Tiles are transformed and multiplied in chunks. Those of a pass should stay in the second level
// of caches, while the transformed weight is read once for each of them.
constexpr int64_t kPassBytes = int64_t{4} << 20;

// Returns the bytes of a chunk of the gradient by weight, which reads and writes all sums.
int64_t GradientChunkBytes(const WinogradTiles& tiles) {
  constexpr int64_t kOfSums = 4, kLeast = int64_t{2} << 20, kMost = int64_t{16} << 20;
  const int64_t sums = WinogradMatrices::Floats(tiles.out_channels, tiles.channels);
  return std::clamp(kOfSums * sums * static_cast<int64_t>(sizeof(float)), kLeast, kMost);
}

// Returns the number of tiles of each chunk but the last, which may have fewer.
int64_t TilesOfChunk(const WinogradTiles& tiles, int64_t bytes) {
  constexpr int64_t kMultiple = 8;  // so that products have full tiles of rows
  const int64_t floats =
      WinogradMatrices::Floats(1, tiles.channels) + WinogradMatrices::Floats(1, tiles.out_channels);
  const int64_t fitting = bytes / (floats * static_cast<int64_t>(sizeof(float)));
  return std::max<int64_t>(1, fitting / kMultiple) * kMultiple;
}

// Offsets in a workspace, in bytes.
class Offsets {
 public:
  // Returns the offset of the next part.
  int64_t Add(int64_t floats) {
    const int64_t offset = Aligned(end_);
    end_ = offset + floats * static_cast<int64_t>(sizeof(float));
    return offset;
  }
  int64_t end() const { return end_; }

 private:
  int64_t end_ = 0;
};

float* FloatsAt(const KernelCall& call, int64_t offset) {
  return reinterpret_cast<float*>(static_cast<char*>(call.workspace) + offset);
}

WinogradTiles TilesOf(const ConvolutionSizes& sizes) {
  const PictureWindows& w = sizes.windows;
  return {.batch = sizes.batch,
          .height = w.height,
          .width = w.width,
          .channels = sizes.in_channels,
          .out_height = w.out_height,
          .out_width = w.out_width,
          .out_channels = sizes.out_channels,
          .top = w.vertical.padding,
          .left = w.horizontal.padding};
}

// Returns the tiles of the gradient by data, which reads dy.
WinogradTiles GradientTilesOf(const ConvolutionSizes& sizes) {
  const PictureWindows& w = sizes.windows;
  return {.batch = sizes.batch,
          .height = w.out_height,
          .width = w.out_width,
          .channels = sizes.out_channels,
          .out_height = w.height,
          .out_width = w.width,
          .out_channels = sizes.in_channels,
          .top = w.vertical.taps - 1 - w.vertical.padding,
          .left = w.horizontal.taps - 1 - w.horizontal.padding};
}

// The convolution or its gradient by data.
class BoundPass : public BoundKernel {
 public:
  BoundPass(bool is_gradient, const ConvolutionSizes& sizes, bool has_bias, bool relu, int threads)
      : out_channels_(sizes.out_channels), has_bias_(has_bias), threads_(threads) {
    pass_.is_gradient = is_gradient;
    pass_.relu = relu;
    pass_.tiles = is_gradient ? GradientTilesOf(sizes) : TilesOf(sizes);
    const WinogradTiles& tiles = pass_.tiles;
    chunk_ = std::min(tiles.count(), TilesOfChunk(tiles, kPassBytes));
    chunks_ = (tiles.count() + chunk_ - 1) / chunk_;
    scratch_floats_ = (WinogradScratch(tiles, chunk_) + 15) / 16 * 16;
    Offsets offsets;
    weight_ = offsets.Add(WinogradMatrices::Floats(tiles.channels, tiles.out_channels));
    scratch_ = offsets.Add(scratch_floats_ * threads);
    bias_ = offsets.Add(has_bias ? tiles.out_channels : 0);
    zeros_ = offsets.Add(tiles.channels);
    bytes_ = offsets.end();
  }

  int64_t workspace_bytes() const { return bytes_; }

  absl::Status Run(const KernelCall& call) override {
    const TensorView &x = call.inputs[0], &weight = call.inputs[1], &y = call.outputs[0];
    const WinogradTiles& tiles = pass_.tiles;
    WinogradPass pass = pass_;
    pass.dtype = x.dtype;
    pass.x = x.data;
    pass.weight = weight.data;
    pass.zeros = FloatsAt(call, zeros_);
    std::memset(FloatsAt(call, zeros_), 0, tiles.channels * sizeof(float));
    pass.transformed =
        WinogradMatrices(FloatsAt(call, weight_), tiles.channels, tiles.out_channels);
    pass.stored = y.dtype;
    pass.y = y.data;
    if (has_bias_) {
      ToFloats(call.inputs[2].dtype, call.inputs[2].data, tiles.out_channels,
               FloatsAt(call, bias_));
      pass.bias = FloatsAt(call, bias_);
    }
    ParallelFor(threads_, out_channels_, kWinogradBlock,
                [&](int64_t begin, int64_t end) { TransformWinogradWeight(pass, begin, end); });
    ParallelTasks(threads_, chunks_, [&](int64_t chunk, int worker) {
      const int64_t first = chunk * chunk_;
      RunWinogradTiles(pass, first, std::min(chunk_, tiles.count() - first),
                       FloatsAt(call, scratch_) + worker * scratch_floats_);
    });
    return absl::OkStatus();
  }

 private:
  WinogradPass pass_;  // without addresses
  const int64_t out_channels_;
  const bool has_bias_;
  const int threads_;
  int64_t chunk_, chunks_, scratch_floats_;
  int64_t weight_, scratch_, bias_, zeros_, bytes_;  // offsets in the workspace
};

// The gradient by weight.
class BoundGradient : public BoundKernel {
 public:
  BoundGradient(const ConvolutionSizes& sizes, int threads)
      : tiles_(TilesOf(sizes)), threads_(threads) {
    chunk_ = std::min(tiles_.count(), TilesOfChunk(tiles_, GradientChunkBytes(tiles_)));
    Offsets offsets;
    x_ = offsets.Add(WinogradMatrices::Floats(chunk_, tiles_.channels));
    dy_ = offsets.Add(WinogradMatrices::Floats(chunk_, tiles_.out_channels));
    sums_ = offsets.Add(WinogradMatrices::Floats(tiles_.out_channels, tiles_.channels));
    zeros_ = offsets.Add(PixelFloats());
    bytes_ = offsets.end();
  }

  int64_t workspace_bytes() const { return bytes_; }

  absl::Status Run(const KernelCall& call) override {
    const TensorView &dy = call.inputs[ConvolutionGradWeightInput::kDy],
                     &x = call.inputs[ConvolutionGradWeightInput::kX], &dweight = call.outputs[0];
    WinogradWeightPass pass;
    pass.tiles = tiles_;
    pass.dtype = x.dtype;
    pass.x = x.data;
    pass.dy = dy.data;
    pass.zeros = FloatsAt(call, zeros_);
    std::memset(FloatsAt(call, zeros_), 0, PixelFloats() * sizeof(float));
    pass.x_tiles = WinogradMatrices(FloatsAt(call, x_), chunk_, tiles_.channels);
    pass.dy_tiles = WinogradMatrices(FloatsAt(call, dy_), chunk_, tiles_.out_channels);
    pass.sums = WinogradMatrices(FloatsAt(call, sums_), tiles_.out_channels, tiles_.channels);
    pass.stored = dweight.dtype;
    pass.dweight = dweight.data;
    for (int64_t first = 0; first < tiles_.count(); first += chunk_) AddChunk(pass, first);
    ParallelFor(threads_, tiles_.out_channels, 1,
                [&](int64_t begin, int64_t end) { StoreWinogradGradient(pass, begin, end); });
    return absl::OkStatus();
  }

 private:
  int64_t PixelFloats() const { return std::max(tiles_.channels, tiles_.out_channels); }

  void AddChunk(const WinogradWeightPass& pass, int64_t first) const {
    constexpr int64_t kGrain = 8, kRows = 96;
    const int64_t count = std::min(chunk_, tiles_.count() - first);
    ParallelFor(threads_, count, kGrain, [&](int64_t begin, int64_t end) {
      TransformWinogradTiles(pass, first + begin, end - begin, begin);
    });
    const int64_t blocks = (tiles_.out_channels + kRows - 1) / kRows;
    ParallelTasks(threads_, kWinogradPositions * blocks, [&](int64_t task, int /*worker*/) {
      const int64_t channel = task % blocks * kRows;
      AddWinogradProducts(pass,
                          {.position = task / blocks,
                           .first_channel = channel,
                           .channels = std::min(kRows, tiles_.out_channels - channel),
                           .accumulate = first > 0},
                          count);
    });
  }

  const WinogradTiles tiles_;
  const int threads_;
  int64_t chunk_;
  int64_t x_, dy_, sums_, zeros_, bytes_;  // offsets in the workspace
};

// The epilogues of a request: a bias, a relu, and casts by which the result is stored in f32.
struct BiasAndRelu {
  bool bias = false, relu = false;

  // Returns whether there are no others.
  bool Read(const KernelRequest& request) {
    const Shape& y = request.outputs[0].shape;
    for (const Epilogue& epilogue : request.epilogues) {
      if (StoresInF32(request, epilogue)) continue;
      if (relu) return false;
      if (epilogue.op == "relu" && epilogue.extra_inputs == 0) {
        relu = true;
        continue;
      }
      const bool adds = epilogue.op == "add" && epilogue.extra_inputs == 1 && !bias &&
                        request.inputs.size() > ConvolutionInput::kCount;
      if (!adds || request.inputs[ConvolutionInput::kCount].shape != Shape{y.back()}) return false;
      bias = true;
    }
    return request.inputs.size() == ConvolutionInput::kCount + (bias ? 1 : 0);
  }
};

class WinogradKernel : public Kernel {
 public:
  WinogradKernel(absl::string_view op, ConvolutionResult result) : op_(op), result_(result) {}

  absl::string_view op() const override { return op_; }
  absl::string_view name() const override { return "highway_winograd"; }

  bool Accepts(const KernelRequest& request) const override {
    const DType dtype = request.inputs[0].dtype, stored = request.outputs[0].dtype;
    const bool floats = dtype == DType::kF32 || IsHalf(dtype);
    if (!floats || request.inputs[1].dtype != dtype) return false;
    if (stored != dtype && stored != DType::kF32) return false;
    BiasAndRelu after;
    if (!after.Read(request)) return false;
    if (result_ != ConvolutionResult::kY && (after.bias || after.relu)) return false;
    const ConvolutionSizes sizes = SizesOf(request);
    const auto fits = [](const SlidingWindow& window) {
      return window.taps == 3 && window.stride == 1 && window.dilation == 1 && window.padding <= 2;
    };
    return sizes.groups == 1 && sizes.rows() > 0 && !sizes.empty() &&
           fits(sizes.windows.vertical) && fits(sizes.windows.horizontal);
  }

  int64_t WorkspaceBytes(const KernelRequest& request,
                         const Processor& /*processor*/) const override {
    return result_ == ConvolutionResult::kDweight ? MakeGradient(request)->workspace_bytes()
                                                  : MakePass(request)->workspace_bytes();
  }

  absl::StatusOr<std::unique_ptr<BoundKernel>> Bind(const KernelRequest& request) const override {
    if (result_ == ConvolutionResult::kDweight) return MakeGradient(request);
    return MakePass(request);
  }

 private:
  ConvolutionSizes SizesOf(const KernelRequest& request) const {
    return ConvolutionSizes::Of(result_, request.inputs, request.outputs, request.attributes);
  }
  std::unique_ptr<BoundGradient> MakeGradient(const KernelRequest& request) const {
    return std::make_unique<BoundGradient>(SizesOf(request), request.threads);
  }
  std::unique_ptr<BoundPass> MakePass(const KernelRequest& request) const {
    BiasAndRelu after;
    after.Read(request);
    return std::make_unique<BoundPass>(result_ == ConvolutionResult::kDx, SizesOf(request),
                                       after.bias, after.relu, request.threads);
  }

  absl::string_view op_;
  ConvolutionResult result_;
};

}  // namespace

std::unique_ptr<const Kernel> WinogradConvolutionKernel(absl::string_view op,
                                                        ConvolutionResult result) {
  return std::make_unique<WinogradKernel>(op, result);
}

}  // namespace tessera::cpu
