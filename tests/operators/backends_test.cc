// Compares every kernel of every backend with the reference: on poisoned memory, in place, at
// strides, and with any number of threads.
#include "tests/operators/backends.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/kernels/reference/backend.h"
#include "core/ops/operator_list.h"
#include "gtest/gtest.h"
#include "tests/operators/cases.h"
#include "tests/operators/run_kernel.h"

namespace tessera::operator_tests {
namespace {

// The tolerance of a result in units of rounding, relative to itself and to the mean of all; a case
// may allow more.
constexpr double kRoundings = 48;

// The same for kernels that round intermediate results to bf16 before they multiply them: gradients
// of logits, and the weights of attention, whose errors grow like those of the scores.
constexpr double kOperandRoundings = 2;

double OperandRoundings(const Kernel& kernel, double condition) {
  if (kernel.name() == "highway_bf16") return kOperandRoundings * condition;
  const bool of_logits = kernel.op() == "linear_log_sum_exp_grad" && kernel.name() == "onednn_bf16";
  return of_logits ? kOperandRoundings : 0;
}

// Each stride pattern costs a run of the reference: beyond this many elements one pattern is tried.
constexpr int64_t kManyElements = 20000;

using Pairs = std::vector<std::pair<int, int>>;

// One case on one backend, with its request and inputs there.
struct Question {
  const Case& use;
  const PreparedCase& prepared;
  Backend& backend;
  KernelRequest request;
  std::vector<Array> inputs;  // as the backend keeps them, row-major

  std::vector<Array> PoisonedOutputs() const {
    std::vector<Array> outputs;
    for (const TensorType& type : request.outputs) outputs.push_back(MakeArray(type));
    return outputs;
  }
};

class BackendsTest : public ::testing::TestWithParam<const Operator*> {
 protected:
  // Returns the reference's outputs for the elements of `inputs`.
  std::vector<std::vector<double>> Expected(const PreparedCase& prepared,
                                            const std::vector<Array>& inputs) {
    std::vector<Array> given;
    for (const Array& input : inputs) {
      given.push_back(
          MakeArray({reference_->Realize(input.type.dtype), input.type.shape}, Values(input)));
    }
    const auto outputs = RunOperator(*reference_, *prepared.op, prepared.attributes, given,
                                     prepared.outputs, prepared.regions);
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    std::vector<std::vector<double>> expected;
    if (!outputs.ok()) return expected;
    for (const Array& output : *outputs) expected.push_back(Values(output));
    return expected;
  }

  void ExpectNear(const Question& question, const Kernel& kernel, const std::vector<Array>& outputs,
                  const std::vector<std::vector<double>>& expected) {
    ASSERT_EQ(outputs.size(), expected.size());
    // A result of 16 bits is computed in f32 and then rounded once, perhaps to the number beside
    // the nearest one.
    for (size_t i = 0; i < outputs.size(); ++i) {
      const DType dtype = question.prepared.outputs[i].dtype;
      const DType computed = IsHalf(dtype) ? DType::kF32 : dtype;
      const double condition = question.use.condition;
      const double tolerance = kRoundings * condition * UnitRoundoff(computed) +
                               OperandRoundings(kernel, condition) * UnitRoundoff(DType::kBF16);
      EXPECT_EQ(Difference(outputs[i], expected[i], tolerance), "") << "output " << i;
    }
  }

  void RunAndCompare(const Question& question, const Kernel& kernel,
                     const std::vector<Array>& inputs, std::vector<Array> outputs,
                     const std::vector<std::vector<double>>& expected) {
    const absl::Status status =
        RunKernel(question.backend, kernel, question.request, inputs, absl::MakeSpan(outputs), {},
                  Guard::kEach, question.use.regions);
    ASSERT_TRUE(status.ok()) << status;
    ExpectNear(question, kernel, outputs, expected);
  }

  // Checks that outputs have the same bits if they share memory with inputs.
  void CheckInPlace(const Question& question, const Kernel& kernel,
                    const std::vector<Array>& wanted) {
    const Pairs pairs = question.prepared.op->InPlace(question.prepared.types());
    std::vector<Pairs> variants;
    Pairs together;  // as many as there can be at once
    for (const auto& pair : pairs) {
      variants.push_back({pair});
      const bool taken = std::any_of(together.begin(), together.end(), [&](const auto& other) {
        return other.first == pair.first || other.second == pair.second;
      });
      if (!taken) together.push_back(pair);
    }
    if (together.size() > 1) variants.push_back(together);
    for (const Pairs& variant : variants) {
      SCOPED_TRACE(absl::StrCat("in place ", variant[0].first, " -> ", variant[0].second,
                                variant.size() > 1 ? ", ..." : ""));
      std::vector<Array> outputs = question.PoisonedOutputs();
      const absl::Status status =
          RunKernel(question.backend, kernel, question.request, question.inputs,
                    absl::MakeSpan(outputs), variant, Guard::kEach, question.use.regions);
      ASSERT_TRUE(status.ok()) << status;
      for (size_t i = 0; i < outputs.size(); ++i) {
        EXPECT_TRUE(Bits(outputs[i]) == Bits(wanted[i])) << "output " << i << " has other bits";
      }
    }
  }

  void CheckStridedInputs(const Question& question, const Kernel& kernel,
                          const std::vector<std::vector<double>>& expected) {
    for (size_t i = 0; i < question.inputs.size(); ++i) {
      if (!kernel.StridedInput(static_cast<int>(i))) continue;
      for (const StridePattern& pattern : StridePatterns(question.inputs[i].type.shape)) {
        if (TooMany(question, pattern)) continue;
        // Repeated elements change the values that other inputs were derived from.
        if (pattern.repeats && !question.use.derived.empty()) continue;
        SCOPED_TRACE(absl::StrCat("input ", i, " with ", pattern.name));
        std::vector<Array> inputs = question.inputs;
        inputs[i] = WithStrides(inputs[i], pattern.strides);
        RunAndCompare(question, kernel, inputs, question.PoisonedOutputs(),
                      pattern.repeats ? Expected(question.prepared, inputs) : expected);
        if (HasFatalFailure()) return;
      }
    }
  }

  void CheckStridedOutputs(const Question& question, const Kernel& kernel,
                           const std::vector<std::vector<double>>& expected) {
    for (size_t i = 0; i < question.request.outputs.size(); ++i) {
      if (!kernel.StridedOutput(static_cast<int>(i))) continue;
      for (const StridePattern& pattern : StridePatterns(question.request.outputs[i].shape)) {
        if (TooMany(question, pattern) || pattern.repeats) continue;
        SCOPED_TRACE(absl::StrCat("output ", i, " with ", pattern.name));
        std::vector<Array> outputs = question.PoisonedOutputs();
        outputs[i] = MakeArray(outputs[i].type, pattern.strides);
        RunAndCompare(question, kernel, question.inputs, outputs, expected);
        if (HasFatalFailure()) return;
      }
    }
  }

  static bool TooMany(const Question& question, const StridePattern& pattern) {
    return question.prepared.elements() > kManyElements && pattern.name != "reversed dimensions";
  }

  // Our own kernels split work by index, never by the number of threads.
  void CheckThreads(Question question, const Kernel& kernel) {
    std::vector<std::vector<char>> wanted;
    for (int threads = 1; threads <= kMostThreads; ++threads) {
      SCOPED_TRACE(absl::StrCat(threads, " threads"));
      question.request.threads = threads;
      if (!kernel.Accepts(question.request)) continue;
      const absl::Status workspace = CheckWorkspaceIsWritten(
          question.backend, kernel, question.request, question.inputs, question.use.regions);
      EXPECT_TRUE(workspace.ok()) << workspace;
      std::vector<Array> outputs = question.PoisonedOutputs();
      const absl::Status status =
          RunKernel(question.backend, kernel, question.request, question.inputs,
                    absl::MakeSpan(outputs), {}, Guard::kEach, question.use.regions);
      ASSERT_TRUE(status.ok()) << status;
      std::vector<std::vector<char>> bits;
      for (const Array& output : outputs) bits.push_back(Bits(output));
      if (wanted.empty()) wanted = bits;
      EXPECT_TRUE(bits == wanted) << "other bits than with 1 thread";
    }
  }

  void CheckKernel(const Question& question, const Kernel& kernel) {
    SCOPED_TRACE(absl::StrCat("kernel ", std::string(kernel.name())));
    const auto expected = Expected(question.prepared, question.inputs);
    std::vector<Array> outputs = question.PoisonedOutputs();
    const absl::Status status =
        RunKernel(question.backend, kernel, question.request, question.inputs,
                  absl::MakeSpan(outputs), {}, Guard::kEach, question.use.regions);
    ASSERT_TRUE(status.ok()) << status;
    ExpectNear(question, kernel, outputs, expected);
    CheckInPlace(question, kernel, outputs);
    CheckStridedInputs(question, kernel, expected);
    CheckStridedOutputs(question, kernel, expected);
    if (kernel.name().substr(0, 6) != "onednn") CheckThreads(question, kernel);
  }

  void CheckCase(Backend& backend, const Case& use, DType floats) {
    SCOPED_TRACE(absl::StrCat(use.name, " with ", std::string(DTypeName(floats)), " on ",
                              std::string(backend.name())));
    const auto prepared = Prepare(use, *reference_, floats);
    ASSERT_TRUE(prepared.ok()) << prepared.status();
    const Question question{use, *prepared, backend,
                            RequestFor(backend, *prepared->op, prepared->attributes,
                                       prepared->inputs, prepared->outputs),
                            InputArrays(*prepared, backend)};
    const std::vector<const Kernel*> kernels = CandidateKernels(backend, question.request);
    // Only the reference must support f64; another backend may.
    if (floats != DType::kF64) {
      EXPECT_FALSE(kernels.empty()) << "no kernel for " << question.request.Key();
    }
    for (const Kernel* kernel : kernels) {
      CheckKernel(question, *kernel);
      if (HasFatalFailure()) return;
    }
  }

  std::unique_ptr<Backend> reference_ = MakeReferenceBackend();
};

bool HasF32(const Case& use) {
  if (use.attributes.Has("dtype") && use.attributes.GetDType("dtype") == DType::kF32) return true;
  const auto is_f32 = [](const CaseInput& input) { return input.type.dtype == DType::kF32; };
  return std::any_of(use.inputs.begin(), use.inputs.end(), is_f32);
}

TEST_P(BackendsTest, AgreeWithTheReference) {
  for (const std::unique_ptr<Backend>& backend : BackendsUnderTest()) {
    for (const Case& use : CasesOf(GetParam()->name())) {
      CheckCase(*backend, use, DType::kF32);
      if (HasFatalFailure()) return;
      if (!HasF32(use) || use.op == "cast") continue;
      for (DType floats : {DType::kBF16, DType::kF16, DType::kF64}) {
        CheckCase(*backend, use, floats);
        if (HasFatalFailure()) return;
      }
    }
  }
}

std::vector<const Operator*> OperatorsWithKernels() {
  std::vector<const Operator*> operators;
  for (const Operator* op : AllOperators()) {
    if (!op->is_view() && !op->is_assembly()) operators.push_back(op);
  }
  return operators;
}

INSTANTIATE_TEST_SUITE_P(Operators, BackendsTest, ::testing::ValuesIn(OperatorsWithKernels()),
                         [](const auto& info) { return std::string(info.param->name()); });

// If the predicate is 0, outputs equal inputs bit for bit.
TEST(Backends, AnUpdateThatIsNotTakenLeavesTheState) {
  const auto reference = MakeReferenceBackend();
  int checked = 0;
  for (const std::unique_ptr<Backend>& backend : BackendsUnderTest()) {
    for (const Case& use : AllCases()) {
      if (use.op != "sgd_update" && use.op != "adamw_update") continue;
      if (use.name.find("no update") == std::string::npos) continue;
      SCOPED_TRACE(use.name);
      const auto prepared = Prepare(use, *reference);
      ASSERT_TRUE(prepared.ok()) << prepared.status();
      const std::vector<Array> inputs = InputArrays(*prepared, *backend);
      const auto outputs =
          RunOperator(*backend, *prepared->op, prepared->attributes, inputs, prepared->outputs);
      ASSERT_TRUE(outputs.ok()) << outputs.status();
      for (const auto& [input, output] : prepared->op->InPlace(prepared->types())) {
        EXPECT_TRUE(Bits((*outputs)[output]) == Bits(inputs[input])) << "output " << output;
      }
      ++checked;
    }
  }
  EXPECT_GT(checked, 0);
}

// A backend has no kernel of an operator that does not exist, and none of a view.
TEST(Backends, KernelsAreOfOperatorsThatNeedOne) {
  std::vector<std::unique_ptr<Backend>> backends = BackendsUnderTest();
  backends.push_back(MakeReferenceBackend());
  for (const std::unique_ptr<Backend>& backend : backends) {
    std::set<std::pair<std::string, std::string>> names;
    for (const Kernel* kernel : backend->kernels()) {
      const Operator* op = FindOperator(kernel->op());
      ASSERT_NE(op, nullptr) << kernel->op();
      EXPECT_FALSE(op->is_view() || op->is_assembly()) << kernel->op();
      EXPECT_TRUE(names.insert({std::string(kernel->op()), std::string(kernel->name())}).second)
          << "two kernels '" << kernel->name() << "' of '" << kernel->op() << "'";
    }
  }
}

}  // namespace
}  // namespace tessera::operator_tests
