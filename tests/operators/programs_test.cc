// Compares every operator and its gradient, run through lowering, passes, the memory plan and the
// engine, with the interpreter, which uses none of them.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/kernels/reference/backend.h"
#include "core/ops/operator_list.h"
#include "core/ops/ops.h"
#include "core/runtime/run_graph.h"
#include "gtest/gtest.h"
#include "tests/operators/backends.h"
#include "tests/operators/cases.h"
#include "tests/operators/interpreter.h"
#include "tests/operators/loss_graph.h"

namespace tessera::operator_tests {
namespace {

constexpr int64_t kMostElements = 1200;
// The tolerance of a gradient after several operators, in roundings of f32. backends_test checks
// single kernels with a much smaller tolerance.
constexpr double kRoundings = 400;

class ProgramsTest : public ::testing::TestWithParam<const Operator*> {
 protected:
  // Makes every output of the operator, the loss and every gradient outputs of the Graph.
  void Record(const Case& use, const PreparedCase& prepared, Front front, LossGraph& loss) {
    RecordLoss(use, prepared, front, loss);
    for (size_t i = 0; i < loss.outputs.size(); ++i) {
      loss.graph.SetOutput(absl::StrCat("output", i), loss.outputs[i]);
    }
    const std::vector<Tensor> targets = loss.Targets(prepared);
    if (targets.empty()) return;
    LossGraph copy = loss;
    std::vector<Tensor> copied;
    for (const Tensor& target : targets) copied.push_back(copy.graph.tensor(target.id()));
    const bool differentiable =
        RecordGradients(copy.graph, copy.graph.tensor(loss.loss.id()), copied).ok();
    if (!differentiable) return;
    const auto gradients = RecordGradients(loss.graph, loss.loss, targets);
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    for (size_t i = 0; i < gradients->size(); ++i) {
      loss.graph.SetOutput(absl::StrCat("gradient", i), (*gradients)[i]);
    }
  }

  void CheckCase(Backend& backend, const Case& use, const PreparedCase& prepared, Front front) {
    SCOPED_TRACE(absl::StrCat(std::string(backend.name()),
                              front == Front::kViews ? ", inputs are views" : ""));
    LossGraph loss;
    Record(use, prepared, front, loss);
    const auto wanted = Interpret(loss.graph, *reference_, loss.given);
    ASSERT_TRUE(wanted.ok()) << wanted.status();
    std::map<std::string, HostTensor> given;
    for (const GraphInput& input : loss.graph.inputs()) {
      const Value& value = loss.graph.value(input.value);
      given[value.path] = {value.type.shape, loss.given[value.path]};
    }
    const auto results = RunGraph(loss.graph, backend, given);
    ASSERT_TRUE(results.ok()) << results.status();

    // A gradient is rounded to the dtypes that it flows through.
    double roundoff = UnitRoundoff(DType::kF32);
    for (const TensorType& type : prepared.outputs) {
      roundoff = std::max(roundoff, UnitRoundoff(type.dtype));
    }
    for (const GraphOutput& output : loss.graph.outputs()) {
      SCOPED_TRACE(output.name);
      const auto it = results->find(output.name);
      ASSERT_NE(it, results->end());
      const DType dtype = loss.graph.value(output.value).type.dtype;
      const Array actual = MakeArray({backend.Realize(dtype), it->second.shape}, it->second.values);
      // The same kernels give the same bits.
      const double tolerance =
          backend.name() == "reference" ? 0 : kRoundings * use.condition * roundoff;
      EXPECT_EQ(Difference(actual, Values((*wanted)[output.value]), tolerance, /*magnitude=*/1),
                "");
    }
  }

  std::unique_ptr<Backend> reference_ = MakeReferenceBackend();
};

// Returns whether the case computes in f32. Other backends than the reference support other
// floating dtypes only for moving values.
bool AllInF32(const PreparedCase& prepared) {
  return std::none_of(prepared.inputs.begin(), prepared.inputs.end(), [](const TensorType& type) {
    return IsFloating(type.dtype) && type.dtype != DType::kF32;
  });
}

TEST_P(ProgramsTest, AgreeWithTheInterpreter) {
  std::vector<std::unique_ptr<Backend>> backends = BackendsUnderTest();
  backends.push_back(MakeReferenceBackend());
  for (const Case& use : CasesOf(GetParam()->name())) {
    SCOPED_TRACE(use.name);
    const auto prepared = Prepare(use, *reference_);
    ASSERT_TRUE(prepared.ok()) << prepared.status();
    if (!use.finite || !use.regions.empty() || prepared->elements() > kMostElements) continue;
    for (const std::unique_ptr<Backend>& backend : backends) {
      if (backend->name() != "reference" && !AllInF32(*prepared)) continue;
      for (Front front : {Front::kNone, Front::kViews}) {
        CheckCase(*backend, use, *prepared, front);
        if (HasFatalFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, ProgramsTest,
                         ::testing::ValuesIn(AllOperators().begin(), AllOperators().end()),
                         [](const auto& info) { return std::string(info.param->name()); });

}  // namespace
}  // namespace tessera::operator_tests
