// The gradient of the head of a language model with cross-entropy, in the chunks of
// linear_log_sum_exp.cc: logits are computed again, or read if they were kept, and their gradients
// are computed from them.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/kernels/cpu/aligned.h"
#include "core/kernels/cpu/logit_chunks.h"
#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/linear_log_sum_exp_grad.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/convert_floats.h"
#include "core/kernels/cpu/linear_log_sum_exp_grad.h"
#include "core/kernels/cpu/math-inl.h"
#include "core/kernels/cpu/parallel.h"
#include "core/ops/linear_log_sum_exp.h"
#include "core/status/status_macros.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

// Computes `factor` times the gradient of a row's log-sum-exp. It may replace the logits.
void LogitsToGradients(float lse, float factor, const float* logits, float* gradients,
                       int64_t count) {
  const Floats shift = SetF(lse), by = SetF(factor);
  ForEachVector(count, [=](auto access, int64_t i) HWY_ATTR {
    const Floats share = Exp(hn::Sub(access.Load(logits + i), shift));
    access.Store(hn::Mul(by, share), gradients + i);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {

HWY_EXPORT(LogitsToGradients);

// The dtypes in which the gradients are stored: that of x, or f32 (StoresInF32).
struct StoredAs {
  DType dx, dw;

  explicit StoredAs(const KernelRequest& request)
      : dx(request.outputs[LinearLogSumExpGradOutput::kDx].dtype),
        dw(request.outputs[LinearLogSumExpGradOutput::kDw].dtype) {}
};

// The products of a chunk. Those of the first chunk set a gradient, those of the others add to it.
struct GradientProducts {
  std::optional<ChunkProducts> logits;  // if they were not kept
  ChunkProducts first_dx, more_dx, first_dw, more_dw;

  // The gradients of logits are multiplied in the dtype of x. dx is f32; dw is f32 if there are
  // several blocks of rows, which add to it.
  static absl::StatusOr<GradientProducts> Make(const Chunks& chunks, Multiplier by,
                                               const KernelRequest& request) {
    const int threads = request.threads;
    const DType dw_dtype = chunks.one_block() ? StoredAs(request).dw : DType::kF32;
    std::optional<ChunkProducts> logits;
    if (!KeepsLogits(request.attributes)) {
      ASSIGN_OR_RETURN(logits, MakeLogits(chunks, by, threads));
    }
    const auto dx = [&](bool accumulate) {
      return ChunkProducts::Make(chunks, by.method, threads, [&](int64_t rows, int64_t words) {
        return ProductShape{.rows = rows,
                            .columns = chunks.columns,
                            .depth = words,
                            .accumulate = accumulate,
                            .operands = by.dtype};
      });
    };
    const auto dw = [&](bool accumulate) {
      return ChunkProducts::Make(chunks, by.method, threads, [&](int64_t rows, int64_t words) {
        return ProductShape{.rows = words,
                            .columns = chunks.columns,
                            .depth = rows,
                            .transpose_a = true,
                            .accumulate = accumulate,
                            .operands = by.dtype,
                            .result = dw_dtype};
      });
    };
    ASSIGN_OR_RETURN(ChunkProducts first_dx, dx(false));
    ASSIGN_OR_RETURN(ChunkProducts more_dx, dx(true));
    ASSIGN_OR_RETURN(ChunkProducts first_dw, dw(false));
    ASSIGN_OR_RETURN(ChunkProducts more_dw, dw(true));
    return GradientProducts{std::move(logits), std::move(first_dx), std::move(more_dx),
                            std::move(first_dw), std::move(more_dw)};
  }
  int64_t scratch_bytes() const {
    return std::max({logits.has_value() ? logits->scratch_bytes() : 0, first_dx.scratch_bytes(),
                     more_dx.scratch_bytes(), first_dw.scratch_bytes(), more_dw.scratch_bytes()});
  }
};

class BoundGradient : public BoundKernel {
  using Input = LinearLogSumExpGradInput;

 public:
  BoundGradient(const Chunks& chunks, DType dtype, StoredAs stored, GradientProducts products)
      : chunks_(chunks), place_(chunks, dtype, stored), products_(std::move(products)) {}

  static int64_t WorkspaceBytes(const Chunks& chunks, DType dtype, StoredAs stored,
                                const GradientProducts& products) {
    return Placement(chunks, dtype, stored).scratch + products.scratch_bytes();
  }

  absl::Status Run(const KernelCall& call) override {
    const TensorView &dx = call.outputs[LinearLogSumExpGradOutput::kDx],
                     &dw = call.outputs[LinearLogSumExpGradOutput::kDw];
    char* const workspace = static_cast<char*>(call.workspace);
    void* const dw_sum = place_.dw < 0 ? dw.data : workspace + place_.dw;
    for (int64_t r = 0; r < chunks_.rows; r += chunks_.block_rows) {
      const IndexRange rows = {r, std::min(chunks_.block_rows, chunks_.rows - r)};
      const void* const x = ZeroDeadRows(call, rows, workspace + place_.x);
      void* const dx_sum = place_.dx < 0 ? RowAt(dx, r) : workspace + place_.dx;
      for (int64_t v = 0; v < chunks_.vocabulary; v += chunks_.block_words) {
        const IndexRange words = {v, std::min(chunks_.block_words, chunks_.vocabulary - v)};
        RETURN_IF_ERROR(AddChunk(call, rows, words, x, dx_sum, dw_sum));
      }
      if (place_.dx >= 0) WriteRounded(call.request.threads, dx_sum, rows, dx);
    }
    if (place_.dw >= 0) WriteRounded(call.request.threads, dw_sum, {0, chunks_.vocabulary}, dw);
    return absl::OkStatus();
  }

 private:
  // Offsets in the workspace. An offset of -1 means that the gradient is summed up in the output
  // itself.
  struct Placement {
    int64_t logits = 0, halves = 0, x = 0, dx = -1, dw = -1, scratch = 0;

    Placement(const Chunks& chunks, DType dtype, StoredAs stored) {
      const bool f32 = dtype == DType::kF32;
      const int64_t block = chunks.block_rows * chunks.columns;
      halves = chunks.logits_bytes();
      x = halves + (f32 ? 0 : Aligned(chunks.block_rows * chunks.block_words * 2));
      scratch = x + Aligned(block * SizeOf(dtype));
      if (stored.dx != DType::kF32) {
        dx = scratch;
        scratch += Aligned(block * 4);
      }
      if (chunks.one_block() || stored.dw == DType::kF32) return;
      dw = scratch;
      scratch += Aligned(chunks.vocabulary * chunks.columns * 4);
    }
  };

  // Returns whether a row contributes nothing, because both of its output gradients are 0.
  static bool IsDead(const KernelCall& call, int64_t row) {
    return call.inputs[Input::kDlse].As<float>()[row] == 0 &&
           call.inputs[Input::kDtarget].As<float>()[row] == 0;
  }

  // Returns the rows of x, or a copy of them in which the rows that do not contribute are 0,
  // because such a row may hold NaN.
  const void* ZeroDeadRows(const KernelCall& call, IndexRange rows, char* copy) const {
    const TensorView& x = call.inputs[Input::kX];
    bool all_live = true;
    for (int64_t i = 0; i < rows.count; ++i) all_live &= !IsDead(call, rows.begin + i);
    if (all_live) return RowAt(x, rows.begin);
    const int64_t bytes = chunks_.columns * SizeOf(x.dtype);
    ParallelFor(call.request.threads, rows.count, 16, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (IsDead(call, rows.begin + i)) {
          std::memset(copy + i * bytes, 0, static_cast<size_t>(bytes));
        } else {
          std::memcpy(copy + i * bytes, RowAt(x, rows.begin + i), static_cast<size_t>(bytes));
        }
      }
    });
    return copy;
  }

  // Adds a chunk's products to the gradients. `dx` has the rows of the block, `dw` the full
  // vocabulary; each is f32 or the output itself.
  absl::Status AddChunk(const KernelCall& call, IndexRange rows, IndexRange words, const void* x,
                        void* dx, void* dw) {
    char* const workspace = static_cast<char*>(call.workspace);
    auto* const logits = reinterpret_cast<float*>(workspace + place_.logits);
    void* const scratch = workspace + place_.scratch;
    const void* const w = RowAt(call.inputs[Input::kW], words.begin);
    if (products_.logits.has_value()) {
      RETURN_IF_ERROR(products_.logits->For(rows.count, words.count).Run(x, w, logits, scratch));
    }
    const void* const dlogits = ToGradient(call, rows, words, logits);
    ChunkProducts& dx_product = words.begin == 0 ? products_.first_dx : products_.more_dx;
    RETURN_IF_ERROR(dx_product.For(rows.count, words.count).Run(dlogits, w, dx, scratch));
    ChunkProducts& dw_product = rows.begin == 0 ? products_.first_dw : products_.more_dw;
    const DType dw_dtype =
        place_.dw < 0 ? call.outputs[LinearLogSumExpGradOutput::kDw].dtype : DType::kF32;
    return dw_product.For(rows.count, words.count)
        .Run(dlogits, x, ElementAt(dw_dtype, dw, words.begin * chunks_.columns), scratch);
  }

  // Replaces the chunk's logits by their gradients, which are computed from the kept logits if
  // there are any. Returns the gradients in the dtype of x: in place, or as a copy.
  const void* ToGradient(const KernelCall& call, IndexRange rows, IndexRange words,
                         float* logits) const {
    const bool kept = KeepsLogits(call.request.attributes);
    const int64_t first = FirstTarget(call, LinearLogSumExpGradInput::kW, words);
    const DType dtype = call.inputs[Input::kX].dtype;
    char* const halves = static_cast<char*>(call.workspace) + place_.halves;
    ParallelFor(call.request.threads, rows.count, 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        float* const row = logits + i * words.count;
        const float* const from =
            kept ? KeptRow(call.inputs[Input::kLogits], rows.begin + i, words) : row;
        RowToGradient(call, rows.begin + i, first, words.count, from, row);
        if (dtype != DType::kF32) {
          FromFloats(dtype, row, words.count, ElementAt(dtype, halves, i * words.count));
        }
      }
    });
    return dtype == DType::kF32 ? static_cast<const void*>(logits) : halves;
  }

  // Computes the gradients of the logits of row r; they may replace the logits. `first` is the
  // target id of the first of `count`.
  static void RowToGradient(const KernelCall& call, int64_t r, int64_t first, int64_t count,
                            const float* logits, float* gradients) {
    if (IsDead(call, r)) {
      std::fill_n(gradients, count, 0.0f);
      return;
    }
    HWY_DYNAMIC_DISPATCH(LogitsToGradients)
    (call.inputs[Input::kLse].As<float>()[r], call.inputs[Input::kDlse].As<float>()[r], logits,
     gradients, count);
    const int64_t target = call.inputs[Input::kTargets].As<int32_t>()[r] - first;
    if (target >= 0 && target < count) {
      gradients[target] += call.inputs[Input::kDtarget].As<float>()[r];
    }
  }

  // Writes sums in f32 to rows of `to`, rounded to its dtype.
  void WriteRounded(int threads, const void* sums, IndexRange rows, const TensorView& to) const {
    constexpr int64_t kGrain = 16384;
    const auto* const from = static_cast<const float*>(sums);
    ParallelFor(threads, rows.count * chunks_.columns, kGrain, [&](int64_t begin, int64_t end) {
      FromFloats(to.dtype, from + begin, end - begin,
                 ElementAt(to.dtype, RowAt(to, rows.begin), begin));
    });
  }

  Chunks chunks_;
  Placement place_;
  GradientProducts products_;
};

class GradientKernel : public Kernel {
 public:
  GradientKernel(absl::string_view name, Multiplier by) : name_(name), by_(by) {}

  absl::string_view op() const override { return "linear_log_sum_exp_grad"; }
  absl::string_view name() const override { return name_; }
  bool Accepts(const KernelRequest& request) const override {
    using Input = LinearLogSumExpGradInput;
    const std::vector<TensorType>& inputs = request.inputs;
    std::vector<TensorType> computed = request.outputs;
    for (const Epilogue& epilogue : request.epilogues) {
      if (!StoresInF32(request, epilogue)) return false;
      computed[epilogue.output].dtype = by_.dtype;
    }
    return AllAre(by_.dtype, computed) &&
           AllAre(by_.dtype, {inputs[Input::kX], inputs[Input::kW]}) &&
           AllAre(DType::kF32,
                  {inputs[Input::kDlse], inputs[Input::kDtarget], inputs[Input::kLse]}) &&
           (!KeepsLogits(request.attributes) || inputs[Input::kLogits].dtype == DType::kF32);
  }
  bool LibraryWorkspace() const override { return true; }

  int64_t WorkspaceBytes(const KernelRequest& request,
                         const Processor& /*processor*/) const override {
    const Chunks chunks = ChunksOf(request);
    if (chunks.empty()) return 0;
    const absl::StatusOr<GradientProducts> products = GradientProducts::Make(chunks, by_, request);
    return products.ok()
               ? BoundGradient::WorkspaceBytes(chunks, by_.dtype, StoredAs(request), *products)
               : 0;
  }
  absl::StatusOr<std::unique_ptr<BoundKernel>> Bind(const KernelRequest& request) const override {
    const Chunks chunks = ChunksOf(request);
    if (chunks.empty()) return std::make_unique<BoundEmpty>(chunks);
    ASSIGN_OR_RETURN(GradientProducts products, GradientProducts::Make(chunks, by_, request));
    return std::make_unique<BoundGradient>(chunks, by_.dtype, StoredAs(request),
                                           std::move(products));
  }

 private:
  static Chunks ChunksOf(const KernelRequest& request) {
    return Chunks(request.inputs[LinearLogSumExpGradInput::kX].shape,
                  request.inputs[LinearLogSumExpGradInput::kW].shape);
  }

  absl::string_view name_;
  Multiplier by_;
};

}  // namespace

std::unique_ptr<Kernel> LinearLogSumExpGradKernel(absl::string_view name, Multiplier by) {
  return std::make_unique<GradientKernel>(name, by);
}

}  // namespace tessera::cpu
#endif  // HWY_ONCE
