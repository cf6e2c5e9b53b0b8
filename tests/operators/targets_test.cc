// Checks every elementwise kernel of the cpu backend with every instruction set of this processor:
// special values against the reference, and equal bits at every position of an element.
#include "core/kernels/cpu/testing/targets.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/kernels/cpu/backend.h"
#include "core/kernels/reference/backend.h"
#include "core/ops/operator_list.h"
#include "core/tensor/random.h"
#include "gtest/gtest.h"
#include "tests/operators/cases.h"
#include "tests/operators/run_kernel.h"

namespace tessera::operator_tests {
namespace {

constexpr double kRoundings = 48;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

constexpr double kSpecialValues[] = {
    0.0,   -0.0,    1.0,     -1.0,     kInfinity, -kInfinity, kNaN,  1e-45, -1e-45,
    1e-40, FLT_MIN, FLT_MAX, -FLT_MAX, 1e20,      -1e20,      0.5,   -3.0,  20.0,
    -20.0, 88.5,    -88.5,   -104.5,   1e-20,     -1e-20,     -0.75, 14.5,  -14.5,
};

// One use of an elementwise kernel: dtypes and attributes, for any number of elements.
struct Form {
  const Operator* op;
  Attributes attributes;
  std::vector<DType> inputs;
};

// Returns the forms in which the cases use `op` with floats (and u8 conditions).
std::vector<Form> FormsOf(const Operator& op) {
  std::vector<Form> forms;
  std::set<std::string> keys;
  for (const Case& use : CasesOf(op.name())) {
    Form form{&op, use.attributes, {}};
    std::string key = use.attributes.ToString();
    bool fits = true;
    for (const CaseInput& input : use.inputs) {
      const DType dtype = input.type.dtype;
      fits = fits && (dtype == DType::kF32 || dtype == DType::kU8);
      form.inputs.push_back(dtype);
      absl::StrAppend(&key, " ", DTypeName(dtype));
    }
    // At least one float: other dtypes only select among floats.
    fits = fits && absl::c_linear_search(form.inputs, DType::kF32);
    if (fits && keys.insert(key).second) forms.push_back(std::move(form));
  }
  return forms;
}

class TargetsTest : public cpu::TargetTest {
 protected:
  // Calls body(form, elementwise kernel, request) for every elementwise kernel, with `count`
  // elements in every operand.
  template <typename Body>
  void ForEachKernel(int64_t count, const Body& body) {
    int kernels = 0;
    for (const Operator* op : AllOperators()) {
      for (const Form& form : FormsOf(*op)) {
        std::vector<TensorType> inputs;
        for (DType dtype : form.inputs) inputs.push_back({dtype, {count}});
        const auto outputs = op->InferTypes(inputs, form.attributes);
        if (!outputs.ok()) continue;
        const KernelRequest request = RequestFor(*cpu_, *op, form.attributes, inputs, *outputs);
        for (const Kernel* kernel : CandidateKernels(*cpu_, request)) {
          if (!kernel->Elementwise()) continue;
          SCOPED_TRACE(request.Key());
          body(form, *kernel, request);
          ++kernels;
        }
      }
    }
    EXPECT_GT(kernels, 20);
  }

  Array Run(const Kernel& kernel, const KernelRequest& request, const std::vector<Array>& inputs) {
    std::vector<Array> outputs = {MakeArray(request.outputs[0])};
    const absl::Status status =
        RunKernel(*cpu_, kernel, request, inputs, absl::MakeSpan(outputs), {}, Guard::kNone);
    EXPECT_TRUE(status.ok()) << status;
    return outputs[0];
  }

  std::vector<double> Expected(const Form& form, const KernelRequest& request,
                               const std::vector<Array>& inputs) {
    std::vector<Array> given;
    for (const Array& input : inputs) {
      given.push_back(
          MakeArray({reference_->Realize(input.type.dtype), input.type.shape}, Values(input)));
    }
    const auto outputs =
        RunOperator(*reference_, *form.op, form.attributes, given, request.outputs);
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    return Values((*outputs)[0]);
  }

  std::unique_ptr<Backend> cpu_ = MakeCpuBackend(1);
  std::unique_ptr<Backend> reference_ = MakeReferenceBackend();
};

INSTANTIATE_TEST_SUITE_P(Targets, TargetsTest, ::testing::ValuesIn(cpu::RunnableTargets()),
                         cpu::NameOfTarget);

// Element i of the inputs: every combination of special values.
std::vector<double> Combination(const Form& form, int64_t i) {
  std::vector<double> values;
  for (DType dtype : form.inputs) {
    const auto kinds = dtype == DType::kU8 ? int64_t{2} : int64_t{std::size(kSpecialValues)};
    values.push_back(dtype == DType::kU8 ? static_cast<double>(i % kinds)
                                         : Rounded(kSpecialValues[i % kinds], dtype));
    i /= kinds;
  }
  return values;
}

// Returns "" if `actual` is correct for these operands. With a NaN operand it must equal the
// reference's result. With infinities it may also be NaN, or a limit if the reference has NaN,
// since one factor may become 0 while another becomes infinite. A number may differ by roundings
// relative to the largest finite operand, so that it may exceed the largest float or fall below the
// smallest normal one.
std::string Misfit(double actual, double wanted, DType dtype, const std::vector<double>& operands) {
  bool has_nan = false, has_infinity = false;
  double magnitude = std::isfinite(wanted) ? std::abs(wanted) : 0;
  for (double x : operands) {
    has_nan = has_nan || std::isnan(x);
    has_infinity = has_infinity || std::isinf(x);
    magnitude += std::isfinite(x) ? std::abs(x) : 0;
  }
  const double allowed = kRoundings * UnitRoundoff(dtype) * magnitude + FLT_MIN;
  const bool either_nan = std::isnan(actual) || std::isnan(wanted);
  if (actual == wanted || (std::isnan(actual) && std::isnan(wanted))) return "";
  if (either_nan && has_infinity && !has_nan) return "";
  const auto bounded = [](double x) { return std::clamp(x, -double{FLT_MAX}, double{FLT_MAX}); };
  if (!either_nan && std::abs(bounded(actual) - bounded(wanted)) <= allowed) return "";
  return absl::StrCat(actual, " instead of ", wanted);
}

TEST_P(TargetsTest, SpecialValuesAreThoseOfTheReference) {
  const auto count =
      static_cast<int64_t>(std::size(kSpecialValues) * std::size(kSpecialValues) * 2);
  ForEachKernel(count, [&](const Form& form, const Kernel& kernel, const KernelRequest& request) {
    std::vector<std::vector<double>> values(form.inputs.size());
    for (int64_t i = 0; i < count; ++i) {
      const std::vector<double> combination = Combination(form, i);
      for (size_t k = 0; k < values.size(); ++k) values[k].push_back(combination[k]);
    }
    std::vector<Array> inputs;
    for (size_t k = 0; k < values.size(); ++k) {
      inputs.push_back(MakeArray(request.inputs[k], values[k]));
    }
    const std::vector<double> expected = Expected(form, request, inputs);
    const Array output = Run(kernel, request, inputs);
    const std::vector<double> actual = Values(output);
    for (int64_t i = 0; i < count; ++i) {
      const DType dtype = request.outputs[0].dtype;
      const std::vector<double> operands = Combination(form, i);
      EXPECT_EQ(Misfit(actual[i], Rounded(expected[i], dtype), dtype, operands), "")
          << "for " << absl::StrJoin(operands, ", ");
    }
  });
}

// The last elements of an array are computed with shorter vectors.
TEST_P(TargetsTest, AnElementHasTheSameBitsWhereverItLies) {
  constexpr int64_t kCount = 67;
  ForEachKernel(kCount, [&](const Form& form, const Kernel& kernel, const KernelRequest& request) {
    std::vector<std::vector<double>> values(form.inputs.size());
    for (size_t k = 0; k < values.size(); ++k) {
      const RandomStream stream = MakeStream(k + 1, request.op);
      for (int64_t i = 0; i < kCount; ++i) {
        const double uniform = RandomUniform(stream, 0, i);
        values[k].push_back(form.inputs[k] == DType::kU8 ? std::floor(2 * uniform)
                                                         : 12 * uniform - 6);
      }
    }
    std::vector<Array> inputs;
    for (size_t k = 0; k < values.size(); ++k) {
      inputs.push_back(MakeArray(request.inputs[k], values[k]));
    }
    const std::vector<char> all = Bits(Run(kernel, request, inputs));
    KernelRequest one = request;
    for (TensorType& type : one.inputs) type.shape = {1};
    one.outputs[0].shape = {1};
    const auto size = static_cast<size_t>(SizeOf(one.outputs[0].dtype));
    for (int64_t i = 0; i < kCount; ++i) {
      std::vector<Array> elements;
      for (size_t k = 0; k < values.size(); ++k) {
        const std::vector<double> element = {values[k][i]};
        elements.push_back(MakeArray(one.inputs[k], element));
      }
      const std::vector<char> alone = Bits(Run(kernel, one, elements));
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), all.begin() + i * size))
          << "element " << i;
    }
  });
}

}  // namespace
}  // namespace tessera::operator_tests
