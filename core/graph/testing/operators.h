// A few operators for the tests of this folder, which may not use core/ops.
#ifndef TESSERA_CORE_GRAPH_TESTING_OPERATORS_H_
#define TESSERA_CORE_GRAPH_TESTING_OPERATORS_H_

#include "core/graph/autograd.h"
#include "core/graph/graph.h"

namespace tessera::testing_operators {

// a, b of one type -> y
Tensor Plus(Tensor a, Tensor b);
Tensor Times(Tensor a, Tensor b);
// x [n] -> [n / 2], [n / 2]. The outputs are called "low" and "high"; n must be even.
std::vector<Tensor> Halve(Tensor x);
// x, labels i32 of x's shape -> a scalar; no gradient flows to the labels.
Tensor Score(Tensor x, Tensor labels);
// x -> y, without a gradient.
Tensor Round(Tensor x);
// -> y of `type`. The attributes are the value, and the dtype and shape of `type`.
Tensor Constant(Graph& graph, const TensorType& type, double value);

inline constexpr AutogradOperators kAutogradOperators = {Plus, Constant};

}  // namespace tessera::testing_operators

#endif  // TESSERA_CORE_GRAPH_TESTING_OPERATORS_H_
