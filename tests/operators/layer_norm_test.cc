// Compares layer norm on parts of rows, whose sums are added up, with layer_norm and
// layer_norm_grad on complete rows.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/kernels/reference/backend.h"
#include "core/ops/operator_list.h"
#include "core/ops/ops.h"
#include "core/tensor/random.h"
#include "gtest/gtest.h"
#include "tests/operators/backends.h"
#include "tests/operators/interpreter.h"

namespace tessera::operator_tests {
namespace {

using Elements = std::map<std::string, std::vector<double>>;

constexpr double kEps = 1e-5;

// Rows and the columns of each part.
struct Parts {
  Shape rows;
  std::vector<int64_t> columns;

  int64_t all_columns() const {
    int64_t sum = 0;
    for (const int64_t part : columns) sum += part;
    return sum;
  }
  Shape x() const {
    Shape shape = rows;
    shape.push_back(all_columns());
    return shape;
  }
  std::string ToString() const {
    return absl::StrCat(ShapeToString(rows), " rows of ", ShapeToString(columns));
  }
};

const std::vector<Parts>& AllParts() {
  static const auto* const parts = new std::vector<Parts>{
      {{4}, {5, 0, 8}},      {{2, 3}, {1, 2, 0}}, {{}, {3, 0, 4}}, {{70}, {0, 33, 67}},
      {{3}, {400, 0, 1000}}, {{0}, {2, 0, 3}},    {{5}, {1}},
  };
  return *parts;
}

std::vector<double> Draw(const std::string& name, const Shape& shape, double mean, double stddev) {
  std::vector<double> values;
  for (int64_t i = 0; i < NumElements(shape); ++i) {
    const double value = mean + stddev * RandomNormal(MakeStream(5, name), 0, i);
    values.push_back(static_cast<float>(value));  // what every backend can represent
  }
  return values;
}

// The results of one way to compute a layer norm and its gradient.
struct Results {
  Tensor y, mean, rstd, dx, dweight, dbias;

  std::map<std::string, Tensor> ByName() const {
    return {{"y", y},   {"mean", mean},       {"rstd", rstd},
            {"dx", dx}, {"dweight", dweight}, {"dbias", dbias}};
  }
};

// A Graph that computes the same on complete rows and on parts of them.
class BothWays {
 public:
  BothWays(const Parts& parts, double mean, double stddev)
      : parts_(parts), last_(static_cast<int>(parts.rows.size())) {
    const Shape shape = parts.x(), columns = {parts.all_columns()};
    x_ = Input("x", shape, mean, stddev);
    dy_ = Input("dy", shape, 0, 1);
    weight_ = Input("weight", columns, 1, 0.5);
    bias_ = Input("bias", columns, 0, 1);
    OnRows();
    OnParts();
    EXPECT_TRUE(graph.status().ok()) << graph.status();
  }

  Graph graph{"layer_norm"};
  Elements given;
  Results on_rows, on_parts;

 private:
  using Tensors = std::vector<Tensor>;

  Tensor Input(const std::string& name, const Shape& shape, double mean, double stddev) {
    given[name] = Draw(name, shape, mean, stddev);
    return graph.Input(name, {DType::kF32, shape});
  }

  Tensors Record(const std::string& op, const Tensors& inputs, const Attributes& attributes = {}) {
    return graph.Record(*FindOperator(op), inputs, attributes);
  }

  void OnRows() {
    const Tensors norm = Record("layer_norm", {x_, weight_, bias_}, {{"eps", kEps}});
    const Tensors gradient = Record("layer_norm_grad", {dy_, x_, weight_, norm[1], norm[2]});
    on_rows = {norm[0], norm[1], norm[2], gradient[0], gradient[1], gradient[2]};
  }

  // Returns the mean over the columns of which `sums` are those of the parts.
  Tensor MeanOf(const Tensors& sums) const {
    Tensor sum = sums[0];
    for (size_t i = 1; i < sums.size(); ++i) sum = Add(sum, sums[i]);
    return Scale(sum, 1.0 / static_cast<double>(parts_.all_columns()));
  }

  // Records an operator on each part, and returns the outputs in the order of the parts.
  template <typename InputsOf>
  std::vector<Tensors> OnEach(const std::string& op, const InputsOf& inputs_of) {
    const size_t outputs = op == "layer_norm_grad_apply" ? 3 : op == "layer_norm_grad_sums" ? 2 : 1;
    std::vector<Tensors> results(outputs);
    for (size_t i = 0; i < parts_.columns.size(); ++i) {
      const Tensors of_part = Record(op, inputs_of(i));
      for (size_t k = 0; k < outputs; ++k) results[k].push_back(of_part[k]);
    }
    return results;
  }

  void OnParts() {
    const Tensors x = Split(x_, last_, parts_.columns), dy = Split(dy_, last_, parts_.columns);
    const Tensors weight = Split(weight_, 0, parts_.columns);
    const Tensors bias = Split(bias_, 0, parts_.columns);
    const Tensor mean =
        MeanOf(OnEach("layer_norm_sum", [&](size_t i) { return Tensors{x[i]}; })[0]);
    const Tensor variance = MeanOf(OnEach("layer_norm_squares", [&](size_t i) {
      return Tensors{x[i], mean};
    })[0]);
    const Tensor rstd = Rsqrt(AddConstant(variance, kEps));
    const Tensors y = OnEach("layer_norm_apply", [&](size_t i) {
      return Tensors{x[i], mean, rstd, weight[i], bias[i]};
    })[0];
    const std::vector<Tensors> sums = OnEach("layer_norm_grad_sums", [&](size_t i) {
      return Tensors{dy[i], x[i], weight[i], mean, rstd};
    });
    const Tensor change = MeanOf(sums[0]);
    const Tensor normal_change = MeanOf(sums[1]);
    const std::vector<Tensors> gradient = OnEach("layer_norm_grad_apply", [&](size_t i) {
      return Tensors{dy[i], x[i], weight[i], mean, rstd, change, normal_change};
    });
    on_parts.y = Concat(y, last_);
    on_parts.mean = mean;
    on_parts.rstd = rstd;
    on_parts.dx = Concat(gradient[0], last_);
    on_parts.dweight = Concat(gradient[1], 0);
    on_parts.dbias = Concat(gradient[2], 0);
  }

  const Parts& parts_;
  int last_;  // dimension of x
  Tensor x_, dy_, weight_, bias_;
};

void ExpectNear(const std::vector<double>& actual, const std::vector<double>& expected,
                double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i])))
        << "element " << i;
  }
}

void ExpectEqualResults(const Parts& parts, Backend& backend, double tolerance) {
  SCOPED_TRACE(absl::StrCat(parts.ToString(), " on ", std::string(backend.name())));
  const BothWays both(parts, /*mean=*/0.5, /*stddev=*/2);
  const auto values = Interpret(both.graph, backend, both.given);
  ASSERT_TRUE(values.ok()) << values.status();
  const std::map<std::string, Tensor> expected = both.on_rows.ByName();
  for (const auto& [name, actual] : both.on_parts.ByName()) {
    SCOPED_TRACE(name);
    ExpectNear(Values((*values)[actual.id()]), Values((*values)[expected.at(name).id()]),
               tolerance);
  }
}

TEST(LayerNormParts, MakeTheLayerNormOfTheRows) {
  const auto reference = MakeReferenceBackend();
  for (const Parts& parts : AllParts()) {
    ExpectEqualResults(parts, *reference, 1e-12);
    for (const auto& backend : BackendsUnderTest()) ExpectEqualResults(parts, *backend, 1e-5);
  }
}

// In f32 the difference of two means near 1e8 would have no digit of a variance of 1e-4. The mean
// itself is rounded to a 20th of the deviation.
TEST(LayerNormParts, ASmallVarianceBesideALargeMeanIsKept) {
  const Parts parts = {{40}, {300, 0, 217}};
  const BothWays both(parts, /*mean=*/1e4, /*stddev=*/1e-2);
  const auto reference = MakeReferenceBackend();
  const auto exact = Interpret(both.graph, *reference, both.given);
  ASSERT_TRUE(exact.ok()) << exact.status();
  const std::vector<double> expected = Values((*exact)[both.on_rows.rstd.id()]);
  for (const auto& backend : BackendsUnderTest()) {
    const auto values = Interpret(both.graph, *backend, both.given);
    ASSERT_TRUE(values.ok()) << values.status();
    const std::vector<double> rstd = Values((*values)[both.on_parts.rstd.id()]);
    ASSERT_EQ(rstd.size(), 40u);
    for (size_t row = 0; row < rstd.size(); ++row) {
      EXPECT_NEAR(rstd[row] / expected[row], 1, 0.01) << "row " << row;
    }
  }
}

}  // namespace
}  // namespace tessera::operator_tests
