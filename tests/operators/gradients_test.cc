// Compares every operator's gradient with numeric differences, in double on the reference backend.
#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/graph/graph.h"
#include "core/kernels/reference/backend.h"
#include "core/ops/operator_list.h"
#include "core/ops/ops.h"
#include "core/tensor/random.h"
#include "gtest/gtest.h"
#include "tests/operators/cases.h"
#include "tests/operators/interpreter.h"
#include "tests/operators/loss_graph.h"

namespace tessera::operator_tests {
namespace {

// Returns the gradient operator of `name`, if it has one. It is named for its operator
// (OperatorList.AGradientOperatorIsNamedForItsOperator) and tested as its gradient.
const Operator* GradientOperatorOf(const std::string& name) { return FindOperator(name + "_grad"); }

bool IsGradientOperator(const std::string& name) {
  return name.size() > 5 && name.substr(name.size() - 5) == "_grad";
}

// Operators through which no gradient flows. Every other operator must have a gradient rule.
const std::set<std::string>& NotDifferentiable() {
  static const auto* const set = new std::set<std::string>{
      "attention_decode",  // only in generation
      "row_mask",          // only in generation
      "valid_mask",        // of integers
      "random_crop_flip",  // of integers
      "top_k_correct",     // counts
      "top_k",             // positions
      "zero_elsewhere",    // only in Programs
      // The gradient of layer_norm is layer_norm_grad, which these compute on parts of rows
      // (layer_norm_test).
      "layer_norm_sum",
      "layer_norm_squares",
      "layer_norm_apply",
      "layer_norm_grad_sums",
      "layer_norm_grad_apply",
      // The gradient that flows through statistics is part of batch_norm's gradient
      // (batch_norm_test).
      "batch_norm_sum",
      "batch_norm_squares",
      "batch_norm_grad_sums",
      "all_finite",
      "fill",
      "random_normal",
      "sgd_update",
      "adamw_update",
  };
  return *set;
}

constexpr int64_t kMostElements = 1200;  // Cases larger than this are for speed and threads.
constexpr int kMostPerturbed = 8;        // elements of one input, one at a time
constexpr double kStep = 1e-3;
constexpr double kTolerance = 1e-7;

class GradientsTest : public ::testing::TestWithParam<const Operator*> {
 protected:
  // Returns the loss of the forward part alone.
  double Loss(const LossGraph& forward, const Elements& given) {
    const auto values = Interpret(forward.graph, *reference_, given);
    EXPECT_TRUE(values.ok()) << values.status();
    return values.ok() ? Values((*values)[forward.loss.id()])[0] : 0;
  }

  // Returns the slope of the loss along `direction`, by a difference of fourth order.
  double NumericSlope(const LossGraph& forward, const std::string& input,
                      const std::vector<double>& direction) {
    Elements given = forward.given;
    const auto loss_at = [&](double distance) {
      for (size_t i = 0; i < direction.size(); ++i) {
        given[input][i] = forward.given.at(input)[i] + distance * direction[i];
      }
      return Loss(forward, given);
    };
    return (8 * (loss_at(kStep) - loss_at(-kStep)) - (loss_at(2 * kStep) - loss_at(-2 * kStep))) /
           (12 * kStep);
  }

  // Checks some elements one at a time, and all together along a random direction.
  void CheckGradient(const LossGraph& forward, const std::string& input,
                     const std::vector<double>& gradient) {
    double scale = 1e-3;  // Elements are compared with the largest.
    for (double value : gradient) scale = std::max(scale, std::abs(value));
    std::vector<double> direction(gradient.size(), 0);
    const size_t step = std::max<size_t>(1, gradient.size() / kMostPerturbed);
    for (size_t i = 0; i < gradient.size(); i += step) {
      direction[i] = 1;
      ASSERT_NEAR(gradient[i], NumericSlope(forward, input, direction), kTolerance * scale)
          << "element " << i;
      direction[i] = 0;
    }
    if (step == 1) return;
    double length = 0, slope = 0;
    for (size_t i = 0; i < gradient.size(); ++i) {
      direction[i] = RandomNormal(MakeStream(3, input), 0, i);
      length += direction[i] * direction[i];
    }
    for (size_t i = 0; i < gradient.size(); ++i) {
      direction[i] /= std::sqrt(length);
      slope += gradient[i] * direction[i];
    }
    ASSERT_NEAR(slope, NumericSlope(forward, input, direction), kTolerance * scale)
        << "all elements";
  }

  void CheckCase(const Case& use, const PreparedCase& prepared, Front front) {
    LossGraph forward;
    RecordLoss(use, prepared, front, forward);
    LossGraph complete;
    RecordLoss(use, prepared, front, complete);
    const std::vector<Tensor> targets = complete.Targets(prepared);
    ASSERT_FALSE(targets.empty());
    const auto gradients = RecordGradients(complete.graph, complete.loss, targets);
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    for (const Op& op : complete.graph.ops()) recorded_.insert(std::string(op.kind->name()));
    const auto values = Interpret(complete.graph, *reference_, complete.given);
    ASSERT_TRUE(values.ok()) << values.status();

    for (size_t t = 0; t < targets.size(); ++t) {
      const std::string& path = complete.graph.value(targets[t].id()).path;
      SCOPED_TRACE(path);
      const Array& gradient = (*values)[(*gradients)[t].id()];
      ASSERT_EQ(gradient.type.shape, targets[t].shape());
      CheckGradient(forward, path, Values(gradient));
      if (HasFatalFailure()) return;
    }
  }

  std::unique_ptr<Backend> reference_ = MakeReferenceBackend();
  std::set<std::string> recorded_;  // every operator of every graph
};

TEST_P(GradientsTest, AgreesWithNumericDifferences) {
  const std::string name(GetParam()->name());
  int checked = 0;
  for (const Case& use : CasesOf(name)) {
    SCOPED_TRACE(use.name);
    if (!use.smooth || !use.regions.empty()) continue;
    const auto prepared = Prepare(use, *reference_, DType::kF64);
    ASSERT_TRUE(prepared.ok()) << prepared.status();
    if (prepared->elements() > kMostElements || !IsFloating(prepared->outputs[0].dtype)) continue;
    for (Front front : {Front::kNone, Front::kViews}) {
      CheckCase(use, *prepared, front);
      if (HasFatalFailure()) return;
    }
    ++checked;
  }
  EXPECT_GE(checked, 3) << "too few cases of '" << name << "' are smooth and small";
  if (GradientOperatorOf(name) != nullptr) {
    EXPECT_EQ(recorded_.count(name + "_grad"), 1u)
        << "the gradient of '" << name << "' does not use '" << name << "_grad'";
  }
}

std::vector<const Operator*> DifferentiableOperators() {
  std::vector<const Operator*> operators;
  for (const Operator* op : AllOperators()) {
    const std::string name(op->name());
    if (!IsGradientOperator(name) && NotDifferentiable().count(name) == 0) {
      operators.push_back(op);
    }
  }
  return operators;
}

INSTANTIATE_TEST_SUITE_P(Operators, GradientsTest, ::testing::ValuesIn(DifferentiableOperators()),
                         [](const auto& info) { return std::string(info.param->name()); });

// Checks that operators without a tested gradient have no gradient rule.
TEST(Gradients, WhatIsLeftOutHasNoRule) {
  const auto reference = MakeReferenceBackend();
  for (const Operator* op : AllOperators()) {
    const std::string name(op->name());
    if (NotDifferentiable().count(name) == 0 && !IsGradientOperator(name)) continue;
    for (const Case& use : CasesOf(name)) {
      const auto prepared = Prepare(use, *reference, DType::kF64);
      ASSERT_TRUE(prepared.ok()) << prepared.status();
      LossGraph loss;
      RecordLoss(use, *prepared, Front::kNone, loss);
      const std::vector<Tensor> targets = loss.Targets(*prepared);
      if (targets.empty()) break;
      EXPECT_EQ(RecordGradients(loss.graph, loss.loss, targets).status().code(),
                absl::StatusCode::kUnimplemented)
          << "'" << name << "' has a gradient: test it against numeric differences";
      break;  // The rule is the operator's, not the case's.
    }
  }
}

}  // namespace
}  // namespace tessera::operator_tests
