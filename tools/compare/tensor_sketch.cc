#include "tools/compare/tensor_sketch.h"

#include <cmath>
#include <cstdint>

namespace tessera {
namespace {

static_assert(TensorSketch::kProjections == 8, "a sign for each bit of a byte");

// The relative error of a multiple.
constexpr double kRounding = 1e-3;

// Returns random signs of 8 elements, a byte for each: the finalizer of SplitMix64.
uint64_t SignsOf(int64_t eight) {
  uint64_t x = static_cast<uint64_t>(eight) + 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// For each byte, its bits as signs.
struct SignTable {
  double signs[256][TensorSketch::kProjections] = {};

  constexpr SignTable() {
    for (int byte = 0; byte < 256; ++byte) {
      for (int k = 0; k < TensorSketch::kProjections; ++k) signs[byte][k] = byte >> k & 1 ? -1 : 1;
    }
  }
};
constexpr SignTable kTable;

}  // namespace

void TensorSketch::Add(int64_t first, absl::Span<const double> elements) {
  double sum = squares;
  std::array<double, kProjections> sums = projections;
  uint64_t signs_of_eight = 0;
  for (size_t i = 0; i < elements.size(); ++i) {
    const int64_t element = first + static_cast<int64_t>(i);
    if (i == 0 || element % 8 == 0) signs_of_eight = SignsOf(element / 8);
    const double* const signs = kTable.signs[signs_of_eight >> (8 * (element % 8)) & 255];
    const double x = elements[i];
    sum += x * x;
    for (int k = 0; k < kProjections; ++k) sums[k] += x * signs[k];
  }
  squares = sum;
  projections = sums;
}

TensorSketch& TensorSketch::operator+=(const TensorSketch& other) {
  squares += other.squares;
  for (int k = 0; k < kProjections; ++k) projections[k] += other.projections[k];
  return *this;
}

double TensorSketch::norm() const { return std::sqrt(squares); }

TensorSketch Difference(const TensorSketch& a, const TensorSketch& b) {
  TensorSketch difference;
  for (int k = 0; k < TensorSketch::kProjections; ++k) {
    const double product = a.projections[k] - b.projections[k];
    difference.projections[k] = product;
    difference.squares += product * product / TensorSketch::kProjections;
  }
  return difference;
}

double Distance(const TensorSketch& a, const TensorSketch& b) {
  if (!std::isfinite(a.squares) && !std::isfinite(b.squares)) return 0;
  const double estimate = Difference(a, b).norm(), least = std::abs(a.norm() - b.norm());
  return least > estimate ? least : estimate;
}

double FactorOf(const TensorSketch& a, const TensorSketch& b) {
  double aa = 0, ab = 0, bb = 0;
  for (int k = 0; k < TensorSketch::kProjections; ++k) {
    aa += a.projections[k] * a.projections[k];
    ab += a.projections[k] * b.projections[k];
    bb += b.projections[k] * b.projections[k];
  }
  const bool is_multiple = aa > 0 && bb - ab * ab / aa <= kRounding * kRounding * bb;
  return is_multiple ? ab / aa : 0;
}

}  // namespace tessera
