// The head of a language model with cross-entropy: logits = x w^T are computed in chunks, used and
// discarded, or copied to the tensor that keeps them.
//
// A chunk is a block of rows by a block of the vocabulary, 8 MiB at most. Blocks of rows are long
// (usually all rows), and the vocabulary is split. So each block of rows reads w, by far the
// largest tensor, once and writes dw once. Chunks of complete rows of logits would read and write
// them once for every forty rows. Each row has a running maximum and sum over its chunks.
//
// A product writes to its chunk even if logits are kept, because oneDNN may choose another
// algorithm for rows at a distance. So kept logits have the bits of those that the backward pass
// would compute again.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "core/kernels/cpu/aligned.h"
#include "core/kernels/cpu/logit_chunks.h"
#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/linear_log_sum_exp.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/linear_log_sum_exp_grad.h"
#include "core/kernels/cpu/math-inl.h"
#include "core/kernels/cpu/parallel.h"
#include "core/kernels/cpu/via_f32.h"
#include "core/ops/linear_log_sum_exp.h"
#include "core/status/status_macros.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

// Raises `max` to the maximum of a row of a chunk, and returns the row's sum of
// exp(logit - ShiftOf(max)).
double SumOfExps(const float* logits, int64_t count, float* max) {
  *max = HWY_MAX(*max, MaxOfFloats(logits, count));
  const Floats shift = SetF(ShiftOf(*max));
  double sum[1];
  SumVectors<1>(
      count,
      [=](auto access, int64_t i, Floats* terms)
          HWY_ATTR { terms[0] = ExpOfNegative(hn::Sub(access.Load(logits + i), shift)); },
      sum);
  return sum[0];
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {

HWY_EXPORT(SumOfExps);

// The forward pass. It keeps each row's running maximum and sum in the workspace of the call.
class BoundForward : public BoundKernel {
 public:
  BoundForward(const Chunks& chunks, ChunkProducts logits)
      : chunks_(chunks), logits_(std::move(logits)) {}

  // The workspace holds the logits of a chunk, the maximum and sum of each row, and oneDNN's
  // scratch.
  static int64_t WorkspaceBytes(const Chunks& chunks, const ChunkProducts& logits) {
    return chunks.logits_bytes() + StateBytes(chunks) + logits.scratch_bytes();
  }

  absl::Status Run(const KernelCall& call) override {
    const TensorView &x = call.inputs[LinearLogSumExpInput::kX],
                     &w = call.inputs[LinearLogSumExpInput::kW];
    char* const workspace = static_cast<char*>(call.workspace);
    float* const logits = reinterpret_cast<float*>(workspace);
    sums_ = reinterpret_cast<double*>(workspace + chunks_.logits_bytes());
    maxima_ = reinterpret_cast<float*>(sums_ + chunks_.block_rows);
    void* const scratch = workspace + chunks_.logits_bytes() + StateBytes(chunks_);
    for (int64_t r = 0; r < chunks_.rows; r += chunks_.block_rows) {
      const IndexRange rows = {r, std::min(chunks_.block_rows, chunks_.rows - r)};
      std::fill_n(sums_, rows.count, 0.0);
      std::fill_n(maxima_, rows.count, -std::numeric_limits<float>::infinity());
      std::fill_n(call.outputs[LinearLogSumExpOutput::kTargetLogit].As<float>() + r, rows.count,
                  0.0f);
      for (int64_t v = 0; v < chunks_.vocabulary; v += chunks_.block_words) {
        const IndexRange words = {v, std::min(chunks_.block_words, chunks_.vocabulary - v)};
        RETURN_IF_ERROR(
            logits_.For(rows.count, words.count).Run(RowAt(x, r), RowAt(w, v), logits, scratch));
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
    return Aligned(chunks.block_rows * (sizeof(double) + sizeof(float)));
  }

  // Adds a chunk's logits to the running maxima and sums of its rows, and stores the logits of
  // targets that are in it, and those that are kept.
  void AddChunk(const KernelCall& call, IndexRange rows, IndexRange words, const float* logits) {
    const bool keeps_logits = KeepsLogits(call.request.attributes);
    const int64_t first = FirstTarget(call, LinearLogSumExpInput::kW, words);
    ParallelFor(call.request.threads, rows.count, 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const float* const row = logits + i * words.count;
        float max = maxima_[i];
        const double sum = HWY_DYNAMIC_DISPATCH(SumOfExps)(row, words.count, &max);
        sums_[i] = sums_[i] * std::exp(double{maxima_[i]} - double{ShiftOf(max)}) + sum;
        maxima_[i] = max;
        if (keeps_logits) {
          const TensorView& kept = call.outputs[LinearLogSumExpOutput::kLogits];
          std::copy_n(row, words.count, KeptRow(kept, rows.begin + i, words));
        }
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

class ForwardKernel : public Kernel {
 public:
  ForwardKernel(absl::string_view name, Multiplier by) : name_(name), by_(by) {}

  absl::string_view op() const override { return "linear_log_sum_exp"; }
  absl::string_view name() const override { return name_; }
  bool Accepts(const KernelRequest& request) const override {
    using Input = LinearLogSumExpInput;
    return request.epilogues.empty() && AllAre(DType::kF32, request.outputs) &&
           AllAre(by_.dtype, {request.inputs[Input::kX], request.inputs[Input::kW]});
  }
  bool LibraryWorkspace() const override { return true; }

  int64_t WorkspaceBytes(const KernelRequest& request,
                         const Processor& /*processor*/) const override {
    const Chunks chunks = ChunksOf(request);
    if (chunks.empty()) return 0;
    const absl::StatusOr<ChunkProducts> logits = MakeLogits(chunks, by_, request.threads);
    return logits.ok() ? BoundForward::WorkspaceBytes(chunks, *logits)
                       : 0;  // Bind returns the error.
  }
  absl::StatusOr<std::unique_ptr<BoundKernel>> Bind(const KernelRequest& request) const override {
    const Chunks chunks = ChunksOf(request);
    if (chunks.empty()) return std::make_unique<BoundEmpty>(chunks);
    ASSIGN_OR_RETURN(ChunkProducts logits, MakeLogits(chunks, by_, request.threads));
    return std::make_unique<BoundForward>(chunks, std::move(logits));
  }

 private:
  static Chunks ChunksOf(const KernelRequest& request) {
    return Chunks(request.inputs[LinearLogSumExpInput::kX].shape,
                  request.inputs[LinearLogSumExpInput::kW].shape);
  }

  absl::string_view name_;
  Multiplier by_;
};

}  // namespace

void AddLinearLogSumExpKernels(KernelList& list) {
  if (MultipliesBFloat16()) {
    const Multiplier bf16 = {ProductMethod::kPrimitive, DType::kBF16};
    list.Add(std::make_unique<ForwardKernel>("onednn_bf16", bf16));
    list.Add(LinearLogSumExpGradKernel("onednn_bf16", bf16));
  }
  struct Names {
    ProductMethod method;
    const char *name, *via_f32;
  };
  for (const Names& names : {Names{ProductMethod::kPrimitive, "onednn", "onednn_via_f32"},
                             Names{ProductMethod::kGemm, "onednn_gemm", "onednn_gemm_via_f32"}}) {
    const Multiplier f32 = {names.method, DType::kF32};
    list.Add(std::make_unique<ForwardKernel>(names.name, f32));
    list.Add(LinearLogSumExpGradKernel(names.name, f32));
    list.Add(ViaF32(names.via_f32, std::make_unique<ForwardKernel>(names.name, f32)));
    list.Add(ViaF32(names.via_f32, LinearLogSumExpGradKernel(names.name, f32)));
  }
}

}  // namespace tessera::cpu
#endif  // HWY_ONCE
