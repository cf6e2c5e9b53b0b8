#include "models/layers/dense_layers.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/ops/ops.h"

namespace tessera {
namespace {

Tensor Activate(Tensor x, const std::string& activation) {
  if (activation == "gelu_tanh") return Gelu(x, GeluKind::kTanh);
  if (activation == "gelu_erf") return Gelu(x, GeluKind::kErf);
  return Relu(x);
}

}  // namespace

Tensor DenseLayers(Graph& graph, Tensor x, absl::Span<const int64_t> units,
                   const DenseLayersOptions& options) {
  for (size_t i = 0; i < units.size(); ++i) {
    Scope block(&graph, absl::StrCat("layers.", i), Scope::kBlock);
    const int64_t inputs = x.dim(-1);
    // Keeps the variance through a ReLU (He et al. 2015).
    const double stddev = std::sqrt(2.0 / static_cast<double>(inputs));
    const Tensor weight =
        graph.Parameter("weight", {units[i], inputs}, Initializer::Normal(0, stddev));
    const Tensor bias = graph.Bias("bias", {units[i]});
    x = Activate(Linear(x, weight, bias), options.activation);
    if (options.dropout > 0) x = Dropout(x, options.dropout);
  }
  return x;
}

absl::Status CheckActivation(const std::string& activation) {
  if (activation.empty() || activation == "relu" || activation == "gelu_tanh" ||
      activation == "gelu_erf") {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("model.activation: \"", activation,
                   "\" is none of \"relu\", \"gelu_tanh\" and \"gelu_erf\""));
}

}  // namespace tessera
