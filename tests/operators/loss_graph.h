// A Graph around one use of an operator: inputs, the operator, and a loss that weighs its outputs.
#ifndef TESSERA_TESTS_OPERATORS_LOSS_GRAPH_H_
#define TESSERA_TESTS_OPERATORS_LOSS_GRAPH_H_

#include <map>
#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "tests/operators/cases.h"

namespace tessera::operator_tests {

// The elements of values, by path.
using Elements = std::map<std::string, std::vector<double>>;

// How the operator gets its inputs: directly, or as views of larger tensors.
enum class Front { kNone, kViews };

struct LossGraph {
  Graph graph{"case"};
  std::vector<Tensor> declared;  // the Graph's inputs, before any views
  std::vector<Tensor> outputs;   // of the operator
  // The sum over the differentiable outputs of sum(output * weights); invalid if there is none.
  Tensor loss;
  Elements given;

  // Returns the declared inputs by which the operator can be differentiated.
  std::vector<Tensor> Targets(const PreparedCase& prepared) const;
};

// Records the Graph in `loss`, which must be new. A Graph must not be moved once it is recorded.
void RecordLoss(const Case& use, const PreparedCase& prepared, Front front, LossGraph& loss);

}  // namespace tessera::operator_tests

#endif  // TESSERA_TESTS_OPERATORS_LOSS_GRAPH_H_
