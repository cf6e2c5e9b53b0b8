// The head of a language model with cross-entropy: logits = x w^T are made in chunks, looked at and
// dropped.
//
// A chunk is a block of rows by a block of the vocabulary, 8 MiB at most. Blocks of rows are long
// (all rows, as a rule) and the vocabulary is what is cut: so each row of w, the largest tensor by
// far, is read once, and of dw written once, where chunks of whole rows of logits would go through
// both once for every forty rows. Over chunks a row keeps its running maximum and sum.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/linear_log_sum_exp.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/logit_chunks.h"
#include "core/kernels/cpu/math-inl.h"
#include "core/kernels/cpu/onednn_product.h"
#include "core/kernels/cpu/parallel.h"
#include "core/kernels/cpu/via_f32.h"
#include "core/ops/linear_log_sum_exp.h"
#include "core/ops/table_rows.h"
#include "core/status/status_macros.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

// The sum of exp(logit - max) over a row of a chunk, where `max` is raised to the row's maximum.
double SumOfExps(const float* logits, int64_t count, float* max) {
  *max = HWY_MAX(*max, MaxOfFloats(logits, count));
  const Floats shift = SetF(*max);
  double sum[1];
  SumVectors<1>(
      count,
      [=](auto access, int64_t i, Floats* terms)
          HWY_ATTR { terms[0] = ExpOfNegative(hn::Sub(access.Load(logits + i), shift)); },
      sum);
  return sum[0];
}

// Replaces a row of logits by its gradient with respect to the log-sum-exp.
void ExpsInPlace(float lse, float factor, float* logits, int64_t count) {
  const Floats shift = SetF(lse), by = SetF(factor);
  ForEachVector(count, [=](auto access, int64_t i) HWY_ATTR {
    const Floats share = Exp(hn::Sub(access.Load(logits + i), shift));
    access.Store(hn::Mul(by, share), logits + i);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {

HWY_EXPORT(SumOfExps);
HWY_EXPORT(ExpsInPlace);

absl::StatusOr<ChunkProducts> MakeLogits(const Chunks& chunks, ProductMethod method, int threads) {
  return ChunkProducts::Make(chunks, method, threads, [&](int64_t rows, int64_t words) {
    return ProductShape{
        .rows = rows, .columns = words, .depth = chunks.columns, .transpose_b = true};
  });
}

// A part of the rows, or of the vocabulary.
struct Part {
  int64_t begin, count;
};

// The target that is a chunk's first word; `weight` is the input that has a row for each word.
int64_t FirstTarget(const KernelCall& call, int weight, Part words) {
  return TableRowsOf(call.input_regions, weight, 0).first + words.begin;
}

// --- Forward ---

class BoundForward : public BoundKernel {
 public:
  BoundForward(const Chunks& chunks, ChunkProducts logits)
      : chunks_(chunks), logits_(std::move(logits)) {}

  // Logits of a chunk, state of each row (maximum and sum), scratch of oneDNN.
  static int64_t WorkspaceBytes(const Chunks& chunks, const ChunkProducts& logits) {
    return chunks.logits_bytes() + StateBytes(chunks) + logits.scratch_bytes();
  }

  absl::Status Run(const KernelCall& call) override {
    const float *const x = call.inputs[LinearLogSumExpInput::kX].As<float>(),
                       *const w = call.inputs[LinearLogSumExpInput::kW].As<float>();
    char* const workspace = static_cast<char*>(call.workspace);
    float* const logits = reinterpret_cast<float*>(workspace);
    sums_ = reinterpret_cast<double*>(workspace + chunks_.logits_bytes());
    maxima_ = reinterpret_cast<float*>(sums_ + chunks_.block_rows);
    void* const scratch = workspace + chunks_.logits_bytes() + StateBytes(chunks_);
    for (int64_t r = 0; r < chunks_.rows; r += chunks_.block_rows) {
      const Part rows = {r, std::min(chunks_.block_rows, chunks_.rows - r)};
      std::fill_n(sums_, rows.count, 0.0);
      std::fill_n(maxima_, rows.count, -std::numeric_limits<float>::infinity());
      std::fill_n(call.outputs[LinearLogSumExpOutput::kTargetLogit].As<float>() + r, rows.count,
                  0.0f);
      for (int64_t v = 0; v < chunks_.vocabulary; v += chunks_.block_words) {
        const Part words = {v, std::min(chunks_.block_words, chunks_.vocabulary - v)};
        RETURN_IF_ERROR(
            logits_.For(rows.count, words.count)
                .Run(x + r * chunks_.columns, w + v * chunks_.columns, logits, scratch));
        AddChunk(call, rows, words, logits);
      }
      for (int64_t i = 0; i < rows.count; ++i) {
        call.outputs[LinearLogSumExpOutput::kLse].As<float>()[r + i] =
            static_cast<float>(double{maxima_[i]} + std::log(sums_[i]));
      }
    }
    return absl::OkStatus();
  }

 private:
  static int64_t StateBytes(const Chunks& chunks) {
    return Chunks::Aligned(chunks.block_rows * (sizeof(double) + sizeof(float)));
  }

  void AddChunk(const KernelCall& call, Part rows, Part words, const float* logits) {
    const int64_t first = FirstTarget(call, LinearLogSumExpInput::kW, words);
    ParallelFor(call.request.threads, rows.count, 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const float* const row = logits + i * words.count;
        float max = maxima_[i];
        const double sum = HWY_DYNAMIC_DISPATCH(SumOfExps)(row, words.count, &max);
        sums_[i] = sums_[i] * std::exp(double{maxima_[i]} - double{max}) + sum;
        maxima_[i] = max;
        const int64_t target =
            call.inputs[LinearLogSumExpInput::kTargets].As<int32_t>()[rows.begin + i] - first;
        if (target >= 0 && target < words.count) {
          call.outputs[LinearLogSumExpOutput::kTargetLogit].As<float>()[rows.begin + i] =
              row[target];
        }
      }
    });
  }

  Chunks chunks_;
  ChunkProducts logits_;
  double* sums_ = nullptr;
  float* maxima_ = nullptr;
};

// --- Gradient ---

struct GradientProducts {
  ChunkProducts logits, first_dx, more_dx, first_dw, more_dw;

  static absl::StatusOr<GradientProducts> Make(const Chunks& chunks, ProductMethod method,
                                               int threads) {
    ASSIGN_OR_RETURN(ChunkProducts logits, MakeLogits(chunks, method, threads));
    const auto dx = [&](bool accumulate) {
      return ChunkProducts::Make(chunks, method, threads, [&](int64_t rows, int64_t words) {
        return ProductShape{
            .rows = rows, .columns = chunks.columns, .depth = words, .accumulate = accumulate};
      });
    };
    const auto dw = [&](bool accumulate) {
      return ChunkProducts::Make(chunks, method, threads, [&](int64_t rows, int64_t words) {
        return ProductShape{.rows = words,
                            .columns = chunks.columns,
                            .depth = rows,
                            .transpose_a = true,
                            .accumulate = accumulate};
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
    return std::max({logits.scratch_bytes(), first_dx.scratch_bytes(), more_dx.scratch_bytes(),
                     first_dw.scratch_bytes(), more_dw.scratch_bytes()});
  }
};

class BoundGradient : public BoundKernel {
  using Input = LinearLogSumExpGradInput;

 public:
  BoundGradient(const Chunks& chunks, GradientProducts products)
      : chunks_(chunks), products_(std::move(products)) {}

  // Logits of a chunk, rows of x, scratch of oneDNN.
  static int64_t WorkspaceBytes(const Chunks& chunks, const GradientProducts& products) {
    return chunks.logits_bytes() + RowsBytes(chunks) + products.scratch_bytes();
  }

  absl::Status Run(const KernelCall& call) override {
    char* const workspace = static_cast<char*>(call.workspace);
    float* const copy = reinterpret_cast<float*>(workspace + chunks_.logits_bytes());
    void* const scratch = workspace + chunks_.logits_bytes() + RowsBytes(chunks_);
    for (int64_t r = 0; r < chunks_.rows; r += chunks_.block_rows) {
      const Part rows = {r, std::min(chunks_.block_rows, chunks_.rows - r)};
      const float* const x = LiveRows(call, rows, copy);
      for (int64_t v = 0; v < chunks_.vocabulary; v += chunks_.block_words) {
        const Part words = {v, std::min(chunks_.block_words, chunks_.vocabulary - v)};
        RETURN_IF_ERROR(
            AddChunk(call, rows, words, x, reinterpret_cast<float*>(workspace), scratch));
      }
    }
    return absl::OkStatus();
  }

 private:
  static int64_t RowsBytes(const Chunks& chunks) {
    return Chunks::Aligned(chunks.block_rows * chunks.columns * 4);
  }

  static bool IsDead(const KernelCall& call, int64_t row) {
    return call.inputs[Input::kDlse].As<float>()[row] == 0 &&
           call.inputs[Input::kDtarget].As<float>()[row] == 0;
  }

  // x, or a copy of it in which the rows that must not contribute are 0, whatever they hold.
  const float* LiveRows(const KernelCall& call, Part rows, float* copy) const {
    const int64_t columns = chunks_.columns;
    const float* const x = call.inputs[Input::kX].As<float>() + rows.begin * columns;
    bool all_live = true;
    for (int64_t i = 0; i < rows.count; ++i) all_live &= !IsDead(call, rows.begin + i);
    if (all_live) return x;
    ParallelFor(call.request.threads, rows.count, 16, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (IsDead(call, rows.begin + i)) {
          std::fill_n(copy + i * columns, columns, 0.0f);
        } else {
          std::copy_n(x + i * columns, columns, copy + i * columns);
        }
      }
    });
    return copy;
  }

  absl::Status AddChunk(const KernelCall& call, Part rows, Part words, const float* x,
                        float* logits, void* scratch) {
    const int64_t columns = chunks_.columns;
    const float* const w = call.inputs[Input::kW].As<float>() + words.begin * columns;
    float* const dx =
        call.outputs[LinearLogSumExpGradOutput::kDx].As<float>() + rows.begin * columns;
    float* const dw =
        call.outputs[LinearLogSumExpGradOutput::kDw].As<float>() + words.begin * columns;
    RETURN_IF_ERROR(products_.logits.For(rows.count, words.count).Run(x, w, logits, scratch));
    ToGradient(call, rows, words, logits);
    ChunkProducts& dx_product = words.begin == 0 ? products_.first_dx : products_.more_dx;
    RETURN_IF_ERROR(dx_product.For(rows.count, words.count).Run(logits, w, dx, scratch));
    ChunkProducts& dw_product = rows.begin == 0 ? products_.first_dw : products_.more_dw;
    return dw_product.For(rows.count, words.count).Run(logits, x, dw, scratch);
  }

  static void ToGradient(const KernelCall& call, Part rows, Part words, float* logits) {
    const int64_t first = FirstTarget(call, LinearLogSumExpGradInput::kW, words);
    ParallelFor(call.request.threads, rows.count, 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t r = rows.begin + i;
        float* const row = logits + i * words.count;
        if (IsDead(call, r)) {
          std::fill_n(row, words.count, 0.0f);
          continue;
        }
        HWY_DYNAMIC_DISPATCH(ExpsInPlace)
        (call.inputs[Input::kLse].As<float>()[r], call.inputs[Input::kDlse].As<float>()[r], row,
         words.count);
        const int64_t target = call.inputs[Input::kTargets].As<int32_t>()[r] - first;
        if (target >= 0 && target < words.count)
          row[target] += call.inputs[Input::kDtarget].As<float>()[r];
      }
    });
  }

  Chunks chunks_;
  GradientProducts products_;
};

bool AllF32(const KernelRequest& request) {
  for (const auto* types : {&request.inputs, &request.outputs}) {
    for (const TensorType& type : *types) {
      if (type.dtype != DType::kF32 && type.dtype != DType::kI32) return false;
    }
  }
  return request.epilogues.empty();
}

class ForwardKernel : public Kernel {
 public:
  ForwardKernel(absl::string_view name, ProductMethod method) : name_(name), method_(method) {}

  absl::string_view op() const override { return "linear_log_sum_exp"; }
  absl::string_view name() const override { return name_; }
  bool Accepts(const KernelRequest& request) const override { return AllF32(request); }
  bool LibraryWorkspace() const override { return true; }

  int64_t WorkspaceBytes(const KernelRequest& request,
                         const Processor& /*processor*/) const override {
    const Chunks chunks = ChunksOf(request);
    if (chunks.empty()) return 0;
    const absl::StatusOr<ChunkProducts> logits = MakeLogits(chunks, method_, request.threads);
    return logits.ok() ? BoundForward::WorkspaceBytes(chunks, *logits)
                       : 0;  // Bind returns the error.
  }
  absl::StatusOr<std::unique_ptr<BoundKernel>> Bind(const KernelRequest& request) const override {
    const Chunks chunks = ChunksOf(request);
    if (chunks.empty()) return std::make_unique<BoundEmpty>(chunks);
    ASSIGN_OR_RETURN(ChunkProducts logits, MakeLogits(chunks, method_, request.threads));
    return std::make_unique<BoundForward>(chunks, std::move(logits));
  }

 private:
  static Chunks ChunksOf(const KernelRequest& request) {
    return Chunks(request.inputs[LinearLogSumExpInput::kX].shape,
                  request.inputs[LinearLogSumExpInput::kW].shape);
  }

  absl::string_view name_;
  ProductMethod method_;
};

class GradientKernel : public Kernel {
 public:
  GradientKernel(absl::string_view name, ProductMethod method) : name_(name), method_(method) {}

  absl::string_view op() const override { return "linear_log_sum_exp_grad"; }
  absl::string_view name() const override { return name_; }
  bool Accepts(const KernelRequest& request) const override { return AllF32(request); }
  bool LibraryWorkspace() const override { return true; }

  int64_t WorkspaceBytes(const KernelRequest& request,
                         const Processor& /*processor*/) const override {
    const Chunks chunks = ChunksOf(request);
    if (chunks.empty()) return 0;
    const absl::StatusOr<GradientProducts> products =
        GradientProducts::Make(chunks, method_, request.threads);
    return products.ok() ? BoundGradient::WorkspaceBytes(chunks, *products) : 0;
  }
  absl::StatusOr<std::unique_ptr<BoundKernel>> Bind(const KernelRequest& request) const override {
    const Chunks chunks = ChunksOf(request);
    if (chunks.empty()) return std::make_unique<BoundEmpty>(chunks);
    ASSIGN_OR_RETURN(GradientProducts products,
                     GradientProducts::Make(chunks, method_, request.threads));
    return std::make_unique<BoundGradient>(chunks, std::move(products));
  }

 private:
  static Chunks ChunksOf(const KernelRequest& request) {
    return Chunks(request.inputs[LinearLogSumExpGradInput::kX].shape,
                  request.inputs[LinearLogSumExpGradInput::kW].shape);
  }

  absl::string_view name_;
  ProductMethod method_;
};

}  // namespace

void AddLinearLogSumExpKernels(KernelList& list) {
  struct Names {
    ProductMethod method;
    const char *name, *via_f32;
  };
  for (const Names& of : {Names{ProductMethod::kPrimitive, "onednn", "onednn_via_f32"},
                          Names{ProductMethod::kGemm, "onednn_gemm", "onednn_gemm_via_f32"}}) {
    list.Add(std::make_unique<ForwardKernel>(of.name, of.method));
    list.Add(std::make_unique<GradientKernel>(of.name, of.method));
    list.Add(ViaF32(of.via_f32, std::make_unique<ForwardKernel>(of.name, of.method)));
    list.Add(ViaF32(of.via_f32, std::make_unique<GradientKernel>(of.name, of.method)));
  }
}

}  // namespace tessera::cpu
#endif  // HWY_ONCE
