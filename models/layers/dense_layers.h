// Dense layers: products with a weight, each followed by an activation.
#ifndef TESSERA_MODELS_LAYERS_DENSE_LAYERS_H_
#define TESSERA_MODELS_LAYERS_DENSE_LAYERS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"

namespace tessera {

struct DenseLayersOptions {
  std::string activation = "";  // "relu" (""), "gelu_tanh" or "gelu_erf"
  double dropout = 0;           // of the outputs of each layer; 0: none
};

// Records activation(x weight^T + bias) for each number of units: x [batch, inputs] -> [batch, last
// of units]. Each layer is a block "layers.{i}" with the parameters weight [units, inputs] and bias
// [units]. CheckActivation accepts the activation.
Tensor DenseLayers(Graph& graph, Tensor x, absl::Span<const int64_t> units,
                   const DenseLayersOptions& options);

// Returns InvalidArgument for a value of a configuration's field "activation" that is none.
absl::Status CheckActivation(const std::string& activation);

}  // namespace tessera

#endif  // TESSERA_MODELS_LAYERS_DENSE_LAYERS_H_
