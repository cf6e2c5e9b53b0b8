// Compares the cross-entropy of given logits, and its gradient, with their formula in double.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
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

struct Batch {
  Shape rows;
  int64_t classes = 2;
  double smoothing = 0;
  double mean = 0, spread = 1;  // of the logits
  bool all_ignored = false;

  std::string ToString() const {
    return absl::StrCat(ShapeToString(rows), " rows of ", classes, " classes, smoothing ",
                        smoothing, ", logits of ", mean, " +- ", spread);
  }
};

const std::vector<Batch>& Batches() {
  static const auto* const batches = new std::vector<Batch>{
      {{1}, 2},
      {{7}, 5},
      {{7}, 5, 0.1},
      {{3, 4}, 10, 0.25},
      {{40}, 1000, 0.1},
      // Exponentials of such logits overflow.
      {{9}, 12, 0, 0, 200},
      {{9}, 12, 0.1, 1000, 10},
      {{5}, 4, 0.1, 0, 1, /*all_ignored=*/true},
  };
  return *batches;
}

// A Graph of the loss and its gradient, and what it is given. Every third target is ignored.
struct Recorded {
  Graph graph{"cross_entropy"};
  MeanLoss loss;
  Tensor gradient;
  std::vector<int64_t> targets;
  std::map<std::string, std::vector<double>> given;

  explicit Recorded(const Batch& batch, DType dtype = DType::kF32) {
    Shape shape = batch.rows;
    shape.push_back(batch.classes);
    const Tensor logits = graph.Input("logits", {dtype, shape});
    const Tensor labels = graph.Input("labels", {DType::kI32, batch.rows});
    loss = CrossEntropy(logits, labels, {batch.smoothing});
    const auto gradients = RecordGradients(graph, loss.mean, {logits});
    EXPECT_TRUE(gradients.ok()) << gradients.status();
    gradient = (*gradients)[0];
    for (int64_t i = 0; i < NumElements(shape); ++i) {
      const double value = batch.mean + batch.spread * RandomNormal(MakeStream(5, "logits"), 0, i);
      given["logits"].push_back(Rounded(value, dtype));
    }
    for (int64_t row = 0; row < NumElements(batch.rows); ++row) {
      const bool ignored = batch.all_ignored || row % 3 == 1;
      targets.push_back(ignored ? kIgnoreIndex : row * 7 % batch.classes);
    }
    given["labels"].assign(targets.begin(), targets.end());
  }
};

// The mean loss and its gradient by the formula: a row's loss is the sum over classes of
// -log p(class), weighted by the smoothed probability of the class.
struct Expected {
  double mean = 0;
  std::vector<double> gradient;
};

Expected ByFormula(const Batch& batch, const Recorded& recorded) {
  const std::vector<double>& logits = recorded.given.at("logits");
  Expected expected;
  expected.gradient.assign(logits.size(), 0);
  const auto counted =
      static_cast<double>(std::count_if(recorded.targets.begin(), recorded.targets.end(),
                                        [](int64_t target) { return target != kIgnoreIndex; }));
  for (size_t row = 0; row < recorded.targets.size(); ++row) {
    if (recorded.targets[row] == kIgnoreIndex) continue;
    const double* const x = logits.data() + row * batch.classes;
    const double max = *std::max_element(x, x + batch.classes);
    double sum = 0;
    for (int64_t v = 0; v < batch.classes; ++v) sum += std::exp(x[v] - max);
    for (int64_t v = 0; v < batch.classes; ++v) {
      const double log_p = x[v] - max - std::log(sum);
      const double weight = (v == recorded.targets[row] ? 1 - batch.smoothing : 0) +
                            batch.smoothing / static_cast<double>(batch.classes);
      expected.mean -= weight * log_p / counted;
      expected.gradient[row * batch.classes + v] = (std::exp(log_p) - weight) / counted;
    }
  }
  return expected;
}

void ExpectFormula(const Batch& batch, const Recorded& recorded, Backend& backend, double of_mean,
                   double of_gradient) {
  SCOPED_TRACE(absl::StrCat(batch.ToString(), " on ", std::string(backend.name())));
  const auto values = Interpret(recorded.graph, backend, recorded.given);
  ASSERT_TRUE(values.ok()) << values.status();
  const Expected expected = ByFormula(batch, recorded);
  const double mean = Values((*values)[recorded.loss.mean.id()])[0];
  EXPECT_NEAR(mean, expected.mean, of_mean * std::max(1.0, expected.mean));
  const std::vector<double> gradient = Values((*values)[recorded.gradient.id()]);
  ASSERT_EQ(gradient.size(), expected.gradient.size());
  for (size_t i = 0; i < gradient.size(); ++i) {
    ASSERT_NEAR(gradient[i], expected.gradient[i], of_gradient) << "element " << i;
    if (recorded.targets[i / batch.classes] == kIgnoreIndex) {
      ASSERT_EQ(gradient[i], 0) << "element " << i << ", of a row that is ignored";
    }
  }
  const std::vector<double> valid = Values((*values)[recorded.loss.valid.id()]);
  for (size_t row = 0; row < valid.size(); ++row) {
    EXPECT_EQ(valid[row], recorded.targets[row] == kIgnoreIndex ? 0 : 1);
  }
}

TEST(CrossEntropy, IsItsFormula) {
  const auto reference = MakeReferenceBackend();
  for (const Batch& batch : Batches()) {
    const Recorded recorded(batch);
    ExpectFormula(batch, recorded, *reference, 1e-12, 1e-12);
    // The log-sum-exp is rounded to f32, and with it the exponents of the gradient.
    const double rounding = 1e-6 + 1e-7 * std::max(batch.mean, batch.spread);
    for (const auto& backend : BackendsUnderTest()) {
      ExpectFormula(batch, recorded, *backend, rounding, rounding);
    }
  }
}

// The loss of logits of 16 bits is f32; the gradient is rounded once.
TEST(CrossEntropy, OfLogitsOf16Bits) {
  for (const auto& backend : BackendsUnderTest()) {
    if (backend->name() != "cpu") continue;
    for (const Batch& batch : Batches()) {
      const Recorded recorded(batch, DType::kBF16);
      EXPECT_EQ(recorded.loss.mean.dtype(), DType::kF32);
      EXPECT_EQ(recorded.gradient.dtype(), DType::kBF16);
      const double rounding = 1e-6 + 1e-7 * std::max(batch.mean, batch.spread);
      ExpectFormula(batch, recorded, *backend, rounding, 0x1p-8);
    }
  }
}

}  // namespace
}  // namespace tessera::operator_tests
