// The log-sum-exp of each row of logits, the logit of its target, and their gradient. A row is one
// array.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/log_sum_exp.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/convert_floats.h"
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/math-inl.h"
#include "core/kernels/cpu/parallel.h"
#include "core/ops/log_sum_exp.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

// The parts of a target's probability: that of the target itself, and that of every class.
struct Shares {
  double target, each;

  Shares(double smoothing, int64_t classes)
      : target(1 - smoothing), each(smoothing > 0 ? smoothing / static_cast<double>(classes) : 0) {}
};

// Returns the log-sum-exp of `count` logits, and adds their sum times `factor`, unless that is 0,
// to `sum`.
template <typename T>
double LogSumExpOfRow(const T* logits, int64_t count, double factor, double* sum) {
  const float max = MaxOfElements(logits, count);
  // Without a finite logit the sum is 0: -infinity - -infinity is no number.
  const Floats shift = SetF(max == -std::numeric_limits<float>::infinity() ? 0.0F : max);
  double sums[2];
  SumVectors<2>(
      count,
      [=](auto access, int64_t i, Floats* terms) HWY_ATTR {
        terms[1] = access.Load(logits + i);
        terms[0] = ExpOfNegative(hn::Sub(terms[1], shift));
      },
      sums);
  if (factor != 0) *sum += factor * sums[1];
  return double{max} + std::log(sums[0]);
}

// Sets gradients[i] to dlse * exp(logits[i] - lse) + addend. It may replace the logits.
template <typename T>
void GradientOfRow(const T* logits, float lse, float dlse, float addend, T* gradients,
                   int64_t count) {
  const Floats shift = SetF(lse), by = SetF(dlse), plus = SetF(addend);
  ForEachVector(count, [=](auto access, int64_t i) HWY_ATTR {
    const Floats share = Exp(hn::Sub(access.Load(logits + i), shift));
    access.Store(hn::Add(hn::Mul(by, share), plus), gradients + i);
  });
}

// Computes rows [begin, end).
void LogSumExpRows(const KernelCall& call, int64_t begin, int64_t end) {
  const TensorView& logits = call.inputs[LogSumExpInput::kLogits];
  const int32_t* const targets = call.inputs[LogSumExpInput::kTargets].As<int32_t>();
  const int64_t columns = logits.shape.back();
  const LocalClasses classes = ClassesOf(call.input_regions, LogSumExpInput::kLogits, columns);
  const Shares shares(call.request.attributes.GetDouble("label_smoothing"), classes.global);
  WithFloatType(logits.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t r = begin; r < end; ++r) {
      const T* const row = logits.As<T>() + r * columns;
      const int64_t target = targets[r] - classes.first;
      double target_logit = 0;
      if (target >= 0 && target < columns) {
        target_logit = shares.target * double{static_cast<float>(row[target])};
      }
      const double lse = LogSumExpOfRow(row, columns, shares.each, &target_logit);
      call.outputs[LogSumExpOutput::kLse].As<float>()[r] = static_cast<float>(lse);
      call.outputs[LogSumExpOutput::kTargetLogit].As<float>()[r] = static_cast<float>(target_logit);
    }
  });
}

// Computes rows [begin, end) of the gradient.
void LogSumExpGradRows(const KernelCall& call, int64_t begin, int64_t end) {
  using Input = LogSumExpGradInput;
  const TensorView &logits = call.inputs[Input::kLogits], &dlogits = call.outputs[0];
  const int32_t* const targets = call.inputs[Input::kTargets].As<int32_t>();
  const int64_t columns = logits.shape.back();
  const LocalClasses classes = ClassesOf(call.input_regions, Input::kLogits, columns);
  const Shares shares(call.request.attributes.GetDouble("label_smoothing"), classes.global);
  WithFloatType(logits.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t r = begin; r < end; ++r) {
      const T* const row = logits.As<T>() + r * columns;
      T* const gradients = dlogits.As<T>() + r * columns;
      const float dlse = call.inputs[Input::kDlse].As<float>()[r],
                  dtarget = call.inputs[Input::kDtarget].As<float>()[r],
                  lse = call.inputs[Input::kLse].As<float>()[r];
      if (dlse == 0 && dtarget == 0) {  // whatever the row holds
        std::fill_n(gradients, columns, T());
        continue;
      }
      const auto addend = static_cast<float>(dtarget * shares.each);
      const int64_t target = targets[r] - classes.first;
      const bool is_here = target >= 0 && target < columns;
      // Computed from the logit, which the gradient may replace, so that it is rounded once.
      T of_target = T();
      if (is_here) {
        GradientOfRow(row + target, lse, dlse, addend + static_cast<float>(dtarget * shares.target),
                      &of_target, 1);
      }
      GradientOfRow(row, lse, dlse, addend, gradients, columns);
      if (is_here) gradients[target] = of_target;
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

HWY_EXPORT(LogSumExpRows);
HWY_EXPORT(LogSumExpGradRows);

// Returns how many rows of logits a thread takes at a time: fewer do not pay for the hand-over.
int64_t Grain(const TensorView& logits) {
  return std::max<int64_t>(1, 8192 / std::max<int64_t>(1, logits.shape.back()));
}

absl::Status LogSumExp(const KernelCall& call) {
  ParallelFor(call.request.threads, call.inputs[LogSumExpInput::kTargets].elements(),
              Grain(call.inputs[LogSumExpInput::kLogits]), [&](int64_t begin, int64_t end) {
                HWY_DYNAMIC_DISPATCH(LogSumExpRows)(call, begin, end);
              });
  return absl::OkStatus();
}

absl::Status LogSumExpGrad(const KernelCall& call) {
  ParallelFor(call.request.threads, call.inputs[LogSumExpGradInput::kTargets].elements(),
              Grain(call.inputs[LogSumExpGradInput::kLogits]), [&](int64_t begin, int64_t end) {
                HWY_DYNAMIC_DISPATCH(LogSumExpGradRows)(call, begin, end);
              });
  return absl::OkStatus();
}

}  // namespace

void AddLogSumExpKernels(KernelList& list) {
  list.Add("log_sum_exp", "highway", LogSumExp, kRowMajor);
  list.Add("log_sum_exp_grad", "highway", LogSumExpGrad, kRowMajor);
}

}  // namespace tessera::cpu
#endif  // HWY_ONCE
