// Compares batch norm, recorded of several operators, with its formula in double, and its gradients
// with numeric differences of all of it, statistics included.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/kernels/reference/backend.h"
#include "core/ops/ops.h"
#include "core/tensor/random.h"
#include "gtest/gtest.h"
#include "tests/operators/backends.h"
#include "tests/operators/interpreter.h"

namespace tessera::operator_tests {
namespace {

using Elements = std::map<std::string, std::vector<double>>;

constexpr double kEps = 1e-5;

struct Batch {
  Shape x;
  int64_t groups = 1;
  bool has_valid = false;

  int64_t rows() const { return x[0]; }
  int64_t channels() const { return x.back(); }
  int64_t positions() const { return NumElements(x) / rows() / channels(); }  // of a row
  int64_t group_rows() const { return (rows() + groups - 1) / groups; }
  std::string ToString() const {
    return absl::StrCat(ShapeToString(x), " in ", groups, " groups",
                        has_valid ? ", of which some rows are valid" : "");
  }
};

const std::vector<Batch>& Batches() {
  static const auto* const batches = new std::vector<Batch>{
      {{1, 1}},
      {{6, 5}},
      {{7, 5}, 3},
      {{7, 5}, 3, true},
      {{4, 3, 2, 3}, 2},
      {{8, 2, 67}, 2, true},
      {{6, 4, 3, 5}, 3, true},
      {{5, 2, 1}, 1, true},
  };
  return *batches;
}

// Every third row is not valid, and so is all of the last group, if there are three.
bool IsValid(const Batch& batch, int64_t row) {
  if (!batch.has_valid) return true;
  return row % 3 != 1 && (batch.groups < 3 || row < 2 * batch.group_rows());
}

std::vector<double> Draw(const std::string& name, int64_t count, double mean, double stddev) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    const double value = mean + stddev * RandomNormal(MakeStream(5, name), 0, i);
    values.push_back(static_cast<float>(value));  // what every backend can represent
  }
  return values;
}

// A Graph of batch norm, and what it is given.
struct Recorded {
  Graph graph{"batch_norm"};
  Tensor x, weight, bias, loss;
  NormalizedBatch result;
  Elements given;

  explicit Recorded(const Batch& batch, DType dtype = DType::kF32, double mean = 0.5,
                    double stddev = 2) {
    x = graph.Input("x", {dtype, batch.x});
    weight = graph.Input("weight", {dtype, {batch.channels()}});
    bias = graph.Input("bias", {dtype, {batch.channels()}});
    given["x"] = Draw("x", NumElements(batch.x), mean, stddev);
    given["weight"] = Draw("weight", batch.channels(), 1, 0.5);
    given["bias"] = Draw("bias", batch.channels(), 0, 1);
    Tensor valid;
    if (batch.has_valid) {
      valid = graph.Input("valid", {DType::kF32, {batch.rows()}});
      for (int64_t row = 0; row < batch.rows(); ++row) {
        given["valid"].push_back(IsValid(batch, row) ? 1 : 0);
      }
    }
    result = BatchNorm(x, weight, bias, valid, {kEps, batch.groups});
    EXPECT_TRUE(graph.status().ok()) << graph.status();
  }

  // Records the sum of all rows of y, valid or not, with different weights.
  void AddLoss() {
    const Tensor weights = graph.Input("weights", result.y.type());
    given["weights"] = Draw("weights", NumElements(result.y.shape()), 0, 1);
    std::vector<int64_t> axes;
    for (int d = 0; d < result.y.rank(); ++d) axes.push_back(d);
    loss = ReduceSum(Multiply(result.y, weights), axes);
  }
};

// The results by the formula.
struct Expected {
  std::vector<double> y, mean, variance;
};

Expected ByFormula(const Batch& batch, const Elements& given) {
  const std::vector<double>&x = given.at("x"), &weight = given.at("weight"),
        &bias = given.at("bias");
  const int64_t row_elements = batch.positions() * batch.channels();
  Expected expected = {std::vector<double>(x.size()), std::vector<double>(batch.channels(), 0),
                       std::vector<double>(batch.channels(), 0)};
  for (int64_t c = 0; c < batch.channels(); ++c) {
    double counted_groups = 0;
    for (int64_t group = 0; group < batch.groups; ++group) {
      const int64_t begin = group * batch.group_rows();
      const int64_t end = std::min(batch.rows(), begin + batch.group_rows());
      const auto sum_over_valid = [&](auto term) {
        double sum = 0;
        for (int64_t row = begin; row < end; ++row) {
          for (int64_t p = 0; p < batch.positions() && IsValid(batch, row); ++p) {
            sum += term(x[row * row_elements + p * batch.channels() + c]);
          }
        }
        return sum;
      };
      const double count = sum_over_valid([](double) { return 1.0; });
      const double divisor = std::max(count, 1.0);
      const double mean = sum_over_valid([](double v) { return v; }) / divisor;
      const double squares = sum_over_valid([&](double v) { return (v - mean) * (v - mean); });
      for (int64_t row = begin; row < end; ++row) {
        for (int64_t p = 0; p < batch.positions(); ++p) {
          const int64_t i = row * row_elements + p * batch.channels() + c;
          expected.y[i] = (x[i] - mean) / std::sqrt(squares / divisor + kEps) * weight[c] + bias[c];
        }
      }
      expected.mean[c] += mean;
      expected.variance[c] += squares / std::max(count - 1, 1.0);
      counted_groups += count > 0 ? 1 : 0;
    }
    expected.mean[c] /= std::max(counted_groups, 1.0);
    expected.variance[c] /= std::max(counted_groups, 1.0);
  }
  return expected;
}

void ExpectNear(const std::vector<double>& actual, const std::vector<double>& expected,
                double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i])))
        << "element " << i;
  }
}

void ExpectFormula(const Batch& batch, const Recorded& recorded, Backend& backend, double of_y,
                   double of_statistics) {
  SCOPED_TRACE(absl::StrCat(batch.ToString(), " on ", std::string(backend.name())));
  const auto values = Interpret(recorded.graph, backend, recorded.given);
  ASSERT_TRUE(values.ok()) << values.status();
  const Expected expected = ByFormula(batch, recorded.given);
  ExpectNear(Values((*values)[recorded.result.y.id()]), expected.y, of_y);
  ExpectNear(Values((*values)[recorded.result.mean.id()]), expected.mean, of_statistics);
  ExpectNear(Values((*values)[recorded.result.variance.id()]), expected.variance, of_statistics);
}

TEST(BatchNorm, IsItsFormula) {
  const auto reference = MakeReferenceBackend();
  for (const Batch& batch : Batches()) {
    const Recorded recorded(batch);
    ExpectFormula(batch, recorded, *reference, 1e-12, 1e-12);
    for (const auto& backend : BackendsUnderTest()) {
      ExpectFormula(batch, recorded, *backend, 1e-5, 1e-5);
    }
  }
}

// In f32 the difference of two sums of squares near 1e8 would have no digit of a variance of 1e-4.
// The mean itself is rounded to a 20th of the deviation.
TEST(BatchNorm, ASmallVarianceBesideALargeMeanIsKept) {
  const Batch batch = {{40, 6, 5}, 2};
  const Recorded recorded(batch, DType::kF32, 1e4, 1e-2);
  const Expected expected = ByFormula(batch, recorded.given);
  for (const auto& backend : BackendsUnderTest()) {
    const auto values = Interpret(recorded.graph, *backend, recorded.given);
    ASSERT_TRUE(values.ok()) << values.status();
    const std::vector<double> variance = Values((*values)[recorded.result.variance.id()]);
    for (size_t c = 0; c < variance.size(); ++c) {
      EXPECT_NEAR(variance[c] / expected.variance[c], 1, 0.01) << "channel " << c;
    }
    ExpectNear(Values((*values)[recorded.result.y.id()]), expected.y, 0.15);
  }
}

TEST(BatchNorm, GradientsAgreeWithNumericDifferences) {
  const auto reference = MakeReferenceBackend();
  for (const Batch& batch : Batches()) {
    SCOPED_TRACE(batch.ToString());
    Recorded recorded(batch, DType::kF64);
    recorded.AddLoss();
    const Tensor loss = recorded.loss;
    const auto loss_of = [&](const Elements& given) {
      const auto values = Interpret(recorded.graph, *reference, given);
      EXPECT_TRUE(values.ok()) << values.status();
      return values.ok() ? Values((*values)[loss.id()])[0] : 0;
    };
    const auto gradients =
        RecordGradients(recorded.graph, loss, {recorded.x, recorded.weight, recorded.bias});
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    const auto values = Interpret(recorded.graph, *reference, recorded.given);
    ASSERT_TRUE(values.ok()) << values.status();
    const std::vector<std::string> names = {"x", "weight", "bias"};
    for (size_t t = 0; t < names.size(); ++t) {
      const std::vector<double> gradient = Values((*values)[(*gradients)[t].id()]);
      ASSERT_EQ(gradient.size(), recorded.given[names[t]].size());
      const size_t step = std::max<size_t>(1, gradient.size() / 12);
      for (size_t i = 0; i < gradient.size(); i += step) {
        constexpr double kStep = 1e-4;
        const auto loss_at = [&](double distance) {
          Elements given = recorded.given;
          given[names[t]][i] += distance;
          return loss_of(given);
        };
        const double slope =
            (8 * (loss_at(kStep) - loss_at(-kStep)) - (loss_at(2 * kStep) - loss_at(-2 * kStep))) /
            (12 * kStep);
        ASSERT_NEAR(gradient[i], slope, 1e-6 * std::max(1.0, std::abs(slope)))
            << names[t] << ", element " << i;
      }
    }
  }
}

// The last rows of a short batch may hold anything.
TEST(BatchNorm, RowsThatAreNotValidCountForNothing) {
  const Batch batch = {{7, 3, 5}, 2, true};
  Recorded recorded(batch);
  const Expected expected = ByFormula(batch, recorded.given);
  for (size_t i = 0; i < recorded.given["x"].size(); ++i) {
    if (IsValid(batch, static_cast<int64_t>(i) / 15)) continue;
    recorded.given["x"][i] = std::numeric_limits<double>::quiet_NaN();
  }
  std::vector<std::unique_ptr<Backend>> backends = BackendsUnderTest();
  backends.push_back(MakeReferenceBackend());
  for (const auto& backend : backends) {
    const auto values = Interpret(recorded.graph, *backend, recorded.given);
    ASSERT_TRUE(values.ok()) << values.status();
    ExpectNear(Values((*values)[recorded.result.mean.id()]), expected.mean, 1e-5);
    ExpectNear(Values((*values)[recorded.result.variance.id()]), expected.variance, 1e-5);
    const std::vector<double> y = Values((*values)[recorded.result.y.id()]);
    for (size_t i = 0; i < y.size(); ++i) {
      if (IsValid(batch, static_cast<int64_t>(i) / 15)) {
        ASSERT_NEAR(y[i], expected.y[i], 1e-5 * std::max(1.0, std::abs(y[i])));
      }
    }
  }
}

TEST(BatchNorm, EvaluationTakesTheMeanAndVarianceThatItIsGiven) {
  Graph graph("evaluation");
  const TensorType channels = {DType::kF32, {2}};
  const Tensor x = graph.Input("x", {DType::kF32, {3, 2}});
  const Tensor y = BatchNormWith(x, graph.Input("weight", channels), graph.Input("bias", channels),
                                 graph.Input("mean", channels), graph.Input("variance", channels),
                                 /*eps=*/0.25);
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  const Elements given = {{"x", {1, 2, 3, 4, 5, 6}},
                          {"weight", {2, 3}},
                          {"bias", {10, 20}},
                          {"mean", {1, 4}},
                          {"variance", {0.75, 3.75}}};
  const auto reference = MakeReferenceBackend();
  const auto values = Interpret(graph, *reference, given);
  ASSERT_TRUE(values.ok()) << values.status();
  ExpectNear(Values((*values)[y.id()]), {10, 17, 14, 20, 18, 23}, 1e-12);
}

TEST(BatchNorm, NoGroupIsWithoutRows) {
  for (const auto& [groups, message] : std::vector<std::pair<int64_t, std::string>>{
           {4, "batch_norm: attribute groups=4 must be 3, as 9 rows are groups of 3"},
           {0, "batch_norm: attribute groups=0 must be 1 or more"}}) {
    Graph graph("groups");
    const Tensor x = graph.Input("x", {DType::kF32, {9, 2}});
    const Tensor weight = graph.Input("weight", {DType::kF32, {2}});
    EXPECT_FALSE(BatchNorm(x, weight, weight, {}, {kEps, groups}).y.valid());
    EXPECT_EQ(std::string(graph.status().message()), message);
  }
}

}  // namespace
}  // namespace tessera::operator_tests
