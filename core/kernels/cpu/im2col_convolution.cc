// The matrix of all windows would be as large as the pictures times the elements of a window, so it
// is unfolded, and multiplied, a few megabytes at a time. Windows of one pixel that are side by
// side, and windows of a whole picture, need no matrix: the pictures are it.
#include "core/kernels/cpu/im2col_convolution.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/kernels/cpu/aligned.h"
#include "core/kernels/cpu/im2col.h"
#include "core/kernels/cpu/onednn_product.h"
#include "core/kernels/cpu/padded_rows.h"
#include "core/kernels/cpu/zero_output.h"
#include "core/status/status_macros.h"

namespace tessera::cpu {
namespace {

// The most bytes of the matrix, unless one strip has more.
constexpr int64_t kChunkBytes = int64_t{4} << 20;

// How a convolution is divided into products.
struct Chunks {
  ConvolutionSizes sizes;
  bool unfolds;      // whether there is a matrix
  int64_t pitch;     // elements from one of its rows to the next
  int64_t strips;    // of the batch (im2col.h)
  int64_t of_chunk;  // strips of each chunk but the last, which may have fewer
  int64_t matrix_bytes;

  // The result dx is made of rows without padding, because they are the result of a product.
  Chunks(ConvolutionResult result, const ConvolutionSizes& sizes) : sizes(sizes) {
    const PictureWindows& windows = sizes.windows;
    const auto is_pixel = [](const SlidingWindow& w) {
      return w.taps == 1 && w.stride == 1 && w.padding == 0;
    };
    const auto is_whole = [](const SlidingWindow& w, int64_t extent) {
      return w.taps == extent && w.dilation == 1 && w.padding == 0;
    };
    unfolds = (!is_pixel(windows.vertical) || !is_pixel(windows.horizontal)) &&
              (!is_whole(windows.vertical, windows.height) ||
               !is_whole(windows.horizontal, windows.width));
    constexpr int64_t kFloat = sizeof(float);
    pitch = sizes.depth();
    strips = sizes.batch * windows.out_height;
    of_chunk = strips;
    matrix_bytes = 0;
    if (!unfolds) return;
    int64_t end = 0;
    const PaddedRows padded = PaddedRows::Place(2, pitch * kFloat, &end);
    if (padded.is_copied() && result != ConvolutionResult::kDx) pitch = padded.pitch_bytes / kFloat;
    const int64_t strip_bytes = std::max<int64_t>(1, windows.out_width * pitch * kFloat);
    of_chunk = std::min(strips, std::max<int64_t>(1, kChunkBytes / strip_bytes));
    matrix_bytes = Aligned(of_chunk * strip_bytes);
  }

  // Returns the strips of the last chunk, if they are fewer; otherwise 0.
  int64_t remainder() const { return strips % of_chunk; }
};

// Returns the product of f32 for a chunk of `strips`.
ProductShape ProductOf(ConvolutionResult result, const Chunks& chunks, int64_t strips) {
  const int64_t windows = strips * chunks.sizes.windows.out_width;
  const int64_t out = chunks.sizes.out_channels, depth = chunks.sizes.depth();
  const int64_t pitch = chunks.pitch == depth ? 0 : chunks.pitch;
  switch (result) {
    case ConvolutionResult::kY:
      break;
    case ConvolutionResult::kDx:  // matrix = dy weight
      return {.rows = windows, .columns = depth, .depth = out};
    case ConvolutionResult::kDweight:  // dweight += dy^T matrix
      return {.rows = out,
              .columns = depth,
              .depth = windows,
              .transpose_a = true,
              .b_pitch = pitch,
              .accumulate = chunks.unfolds};
  }
  // y = matrix weight^T
  return {.rows = windows, .columns = out, .depth = depth, .transpose_b = true, .a_pitch = pitch};
}

class BoundIm2col : public BoundKernel {
 public:
  // Chunks that are unfolded have f32 operands and results.
  static absl::StatusOr<std::unique_ptr<BoundIm2col>> Make(ConvolutionResult result,
                                                           const Chunks& chunks, DType operands,
                                                           DType stored, int threads) {
    const auto make = [&](int64_t strips) {
      ProductShape shape = ProductOf(result, chunks, strips);
      shape.operands = operands;
      shape.result = stored;
      return OnednnProduct::Make(ProductMethod::kPrimitive, shape, {}, threads);
    };
    ASSIGN_OR_RETURN(OnednnProduct product, make(chunks.of_chunk));
    auto bound = std::make_unique<BoundIm2col>(result, chunks, std::move(product));
    if (chunks.remainder() > 0) {
      ASSIGN_OR_RETURN(OnednnProduct last, make(chunks.remainder()));
      bound->last_.emplace(std::move(last));
    }
    return bound;
  }
  BoundIm2col(ConvolutionResult result, const Chunks& chunks, OnednnProduct product)
      : result_(result), chunks_(chunks), product_(std::move(product)) {}

  int64_t workspace_bytes() const {
    const int64_t scratch = product_.scratch_bytes();
    return chunks_.matrix_bytes +
           (last_.has_value() ? std::max(scratch, last_->scratch_bytes()) : scratch);
  }

  absl::Status Run(const KernelCall& call) override {
    if (!chunks_.unfolds) {
      return product_.Run(call.inputs[0].data, call.inputs[1].data, call.outputs[0].data,
                          call.workspace);
    }
    // Chunks are added to these.
    if (result_ != ConvolutionResult::kY) SetToZero(call.outputs[0]);
    for (int64_t first = 0; first < chunks_.strips; first += chunks_.of_chunk) {
      const int64_t count = std::min(chunks_.of_chunk, chunks_.strips - first);
      RETURN_IF_ERROR(RunChunk(call, first, count));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status RunChunk(const KernelCall& call, int64_t first, int64_t count) {
    OnednnProduct& product = count == chunks_.of_chunk ? product_ : *last_;
    const ConvolutionSizes& sizes = chunks_.sizes;
    const int threads = call.request.threads;
    float* const output = call.outputs[0].As<float>();
    void* const scratch = static_cast<char*>(call.workspace) + chunks_.matrix_bytes;
    // The chunk's rows of y, or of its gradient.
    const int64_t y_offset = first * sizes.windows.out_width * sizes.out_channels;
    const UnfoldedStrips matrix = {static_cast<float*>(call.workspace), chunks_.pitch, first,
                                   count};
    const auto unfolded = [&](const float* x) {
      Unfold(threads, sizes, x, matrix);
      return matrix.data;
    };
    switch (result_) {
      case ConvolutionResult::kY:
        return product.Run(unfolded(call.inputs[ConvolutionInput::kX].As<float>()),
                           call.inputs[ConvolutionInput::kWeight].data, output + y_offset, scratch);
      case ConvolutionResult::kDx: {
        const float* const dy = call.inputs[ConvolutionGradDataInput::kDy].As<float>() + y_offset;
        RETURN_IF_ERROR(product.Run(dy, call.inputs[ConvolutionGradDataInput::kWeight].data,
                                    matrix.data, scratch));
        AddFolded(threads, sizes, matrix, output);
        return absl::OkStatus();
      }
      case ConvolutionResult::kDweight: {
        const float* const dy = call.inputs[ConvolutionGradWeightInput::kDy].As<float>() + y_offset;
        return product.Run(dy, unfolded(call.inputs[ConvolutionGradWeightInput::kX].As<float>()),
                           output, scratch);
      }
    }
    return absl::OkStatus();
  }

  const ConvolutionResult result_;
  const Chunks chunks_;
  OnednnProduct product_;
  std::optional<OnednnProduct> last_;
};

class Im2colKernel : public Kernel {
 public:
  Im2colKernel(absl::string_view op, ConvolutionResult result, DType dtype)
      : op_(op), result_(result), dtype_(dtype) {}

  absl::string_view op() const override { return op_; }
  absl::string_view name() const override {
    return dtype_ == DType::kF32 ? "onednn_im2col" : "onednn_product_bf16";
  }

  bool Accepts(const KernelRequest& request) const override {
    const ConvolutionSizes sizes = SizesOf(request);
    if (sizes.groups != 1) return false;
    if (dtype_ != DType::kF32 && !sizes.empty() && Chunks(result_, sizes).unfolds) return false;
    for (const TensorType& type : request.inputs) {
      if (type.dtype != dtype_) return false;
    }
    if (request.epilogues.empty()) return request.outputs[0].dtype == dtype_;
    return dtype_ != DType::kF32 && request.epilogues.size() == 1 &&
           StoresInF32(request, request.epilogues[0]);
  }

  bool LibraryWorkspace() const override { return true; }
  int64_t WorkspaceBytes(const KernelRequest& request,
                         const Processor& /*processor*/) const override {
    if (SizesOf(request).empty()) return 0;
    const auto bound = MakeBound(request);
    return bound.ok() ? (*bound)->workspace_bytes() : 0;  // Bind returns the error.
  }

  absl::StatusOr<std::unique_ptr<BoundKernel>> Bind(const KernelRequest& request) const override {
    if (SizesOf(request).empty()) return std::make_unique<BoundZero>();
    return MakeBound(request);
  }

 private:
  ConvolutionSizes SizesOf(const KernelRequest& request) const {
    return ConvolutionSizes::Of(result_, request.inputs, request.outputs, request.attributes);
  }
  absl::StatusOr<std::unique_ptr<BoundIm2col>> MakeBound(const KernelRequest& request) const {
    return BoundIm2col::Make(result_, Chunks(result_, SizesOf(request)), dtype_,
                             request.outputs[0].dtype, request.threads);
  }

  absl::string_view op_;
  ConvolutionResult result_;
  DType dtype_;
};

}  // namespace

std::unique_ptr<const Kernel> Im2colConvolutionKernel(absl::string_view op,
                                                      ConvolutionResult result, DType dtype) {
  return std::make_unique<Im2colKernel>(op, result, dtype);
}

}  // namespace tessera::cpu
