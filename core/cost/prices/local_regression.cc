#include "core/cost/prices/local_regression.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "core/status/check.h"

namespace tessera {
namespace {

// Errors in steps of drawn models, of which some were measured, depend little on these two.
constexpr double kPenalty = 0.1;        // of the square of a slope
constexpr double kLeastDistance = 0.1;  // a nearer point weighs no more

constexpr double kBeyond = 0.3;  // how far a result may be beyond the known values

// The normal equations of a linear function f(x) = a + b (x - position): a symmetric, positive
// definite matrix, of which the lower triangle is set, and the right-hand side.
struct NormalEquations {
  std::vector<std::vector<double>> matrix;
  std::vector<double> right;

  explicit NormalEquations(size_t unknowns)
      : matrix(unknowns, std::vector<double>(unknowns, 0)), right(unknowns, 0) {}

  // `row` has 1 and the coordinates of a known value relative to the position.
  void Add(const std::vector<double>& row, double value, double weight) {
    for (size_t i = 0; i < row.size(); ++i) {
      for (size_t j = 0; j <= i; ++j) matrix[i][j] += weight * row[i] * row[j];
      right[i] += weight * row[i] * value;
    }
  }

  // Returns the solution's first component, by Cholesky's decomposition in place.
  double SolveForFirst() && {
    const size_t n = right.size();
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j <= i; ++j) {
        double sum = matrix[i][j];
        for (size_t k = 0; k < j; ++k) sum -= matrix[i][k] * matrix[j][k];
        matrix[i][j] = i == j ? std::sqrt(sum) : sum / matrix[j][j];
      }
      for (size_t k = 0; k < i; ++k) right[i] -= matrix[i][k] * right[k];
      right[i] /= matrix[i][i];
    }
    for (size_t i = n; i-- > 0;) {
      for (size_t k = i + 1; k < n; ++k) right[i] -= matrix[k][i] * right[k];
      right[i] /= matrix[i][i];
    }
    return right[0];
  }
};

}  // namespace

std::optional<double> InterpolateLocally(absl::Span<const KnownValue> known,
                                         absl::Span<const double> position) {
  if (known.empty()) return std::nullopt;
  NormalEquations equations(1 + position.size());
  double weights = 0, lowest = 0, highest = 0;
  for (const KnownValue& each : known) {
    TESSERA_CHECK(each.position.size() == position.size());
    std::vector<double> row = {1};
    double square = 0;
    for (size_t i = 0; i < position.size(); ++i) {
      row.push_back(each.position[i] - position[i]);
      square += row.back() * row.back();
    }
    const double weight = 1 / std::max(square, kLeastDistance * kLeastDistance);
    equations.Add(row, each.value, weight);
    lowest = weights == 0 ? each.value : std::min(lowest, each.value);
    highest = weights == 0 ? each.value : std::max(highest, each.value);
    weights += weight;
  }
  for (size_t i = 1; i < equations.right.size(); ++i) equations.matrix[i][i] += kPenalty * weights;
  return std::clamp(std::move(equations).SolveForFirst(), lowest - kBeyond, highest + kBeyond);
}

}  // namespace tessera
