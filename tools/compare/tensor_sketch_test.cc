#include "tools/compare/tensor_sketch.h"

#include <cmath>
#include <vector>

#include "core/tensor/random.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

std::vector<double> Random(const char* name, size_t size) {
  std::vector<double> values(size);
  const RandomStream stream = MakeStream(5, name);
  for (size_t i = 0; i < size; ++i) values[i] = RandomUniform(stream, 0, i) - 0.5;
  return values;
}

TensorSketch Sketch(const std::vector<double>& values) {
  TensorSketch sketch;
  sketch.Add(0, values);
  return sketch;
}

double NormOf(const std::vector<double>& values) { return Sketch(values).norm(); }

TEST(TensorSketchTest, PartsAddUp) {
  const std::vector<double> values = Random("x", 1000);
  const absl::Span<const double> all = values;
  TensorSketch head, tail;
  tail.Add(300, all.subspan(300));
  head.Add(0, all.subspan(0, 300));
  head += tail;
  EXPECT_NEAR(head.squares, Sketch(values).squares, 1e-9);
  EXPECT_LT(Distance(head, Sketch(values)), 1e-9);
}

TEST(TensorSketchTest, DistancesAreEstimated) {
  for (const size_t size : {1, 2, 7, 64, 5000}) {
    const std::vector<double> x = Random("x", size);
    std::vector<double> y = Random("y", size), difference(size);
    for (size_t i = 0; i < size; ++i) difference[i] = y[i] - x[i];
    const double distance = Distance(Sketch(x), Sketch(y));
    EXPECT_GT(distance, NormOf(difference) / 3) << size;
    EXPECT_LT(distance, NormOf(difference) * 3) << size;
    EXPECT_EQ(Distance(Sketch(x), Sketch(x)), 0);
  }
}

// The norms of the two are equal.
TEST(TensorSketchTest, AnotherOrderOfElementsIsAnotherTensor) {
  const std::vector<double> x = Random("x", 64);
  std::vector<double> y(x.rbegin(), x.rend());
  EXPECT_GT(Distance(Sketch(x), Sketch(y)), 0.3 * NormOf(x));
}

TEST(TensorSketchTest, OneElementOfManyIsSeen) {
  const std::vector<double> x = Random("x", 100000);
  std::vector<double> y = x;
  y[777] += 1e-3;
  EXPECT_NEAR(Distance(Sketch(x), Sketch(y)), 1e-3, 1e-9);
}

TEST(TensorSketchTest, MultiplesAreFound) {
  const std::vector<double> x = Random("x", 50), y = Random("y", 50);
  std::vector<double> half = x;
  for (double& each : half) each *= -0.5;
  EXPECT_NEAR(FactorOf(Sketch(x), Sketch(half)), -0.5, 1e-12);
  EXPECT_EQ(FactorOf(Sketch(x), Sketch(y)), 0);
  EXPECT_EQ(FactorOf(Sketch(std::vector<double>(50)), Sketch(x)), 0);
}

TEST(TensorSketchTest, ANanIsSeen) {
  std::vector<double> x = Random("x", 50);
  const TensorSketch before = Sketch(x);
  x[3] = std::nan("");
  EXPECT_TRUE(std::isnan(Distance(before, Sketch(x))));
  EXPECT_EQ(Distance(Sketch(x), Sketch(x)), 0);
}

}  // namespace
}  // namespace tessera
