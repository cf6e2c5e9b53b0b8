// Automatic differentiation as a transformation Graph -> Graph: gradient operators are appended to
// the Graph by each operator's own rule.
#ifndef TESSERA_CORE_GRAPH_AUTOGRAD_H_
#define TESSERA_CORE_GRAPH_AUTOGRAD_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"

namespace tessera {

// The arguments and results of an operator's gradient rule.
class GradientBuilder {
 public:
  GradientBuilder(Graph* graph, OpId op, std::vector<Tensor> output_gradients,
                  std::vector<bool> needed)
      : graph_(graph),
        op_(op),
        output_gradients_(std::move(output_gradients)),
        needed_(std::move(needed)),
        input_gradients_(needed_.size()) {}

  Graph& graph() { return *graph_; }
  // The reference is valid until something is recorded.
  const Attributes& attributes() const { return graph_->op(op_).attributes; }
  int num_inputs() const { return static_cast<int>(graph_->op(op_).inputs.size()); }
  Tensor input(int i) { return graph_->tensor(graph_->op(op_).inputs[i]); }
  Tensor output(int i) { return graph_->tensor(graph_->op(op_).outputs[i]); }

  // Returns an invalid handle if no gradient flows into that output; at least one is valid.
  Tensor output_gradient(int i) { return output_gradients_[i]; }
  // Returns whether the gradient of input i is needed.
  bool needed(int i) const { return needed_[i]; }
  // Sets the gradient of input i, which must have the input's shape. It may be set or left out for
  // inputs that are not needed.
  void SetInputGradient(int i, Tensor gradient) { input_gradients_[i] = gradient; }

  const std::vector<Tensor>& input_gradients() const { return input_gradients_; }

 private:
  Graph* graph_;
  OpId op_;
  std::vector<Tensor> output_gradients_;
  std::vector<bool> needed_;
  std::vector<Tensor> input_gradients_;
};

// The operators that autograd records itself; core/ops provides them, because core/graph has none.
struct AutogradOperators {
  // Adds two contributions to one gradient.
  Tensor (*add)(Tensor a, Tensor b);
  // Makes a tensor of `type` filled with `value`.
  Tensor (*fill)(Graph& graph, const TensorType& type, double value);
};

// Appends to `graph` the gradients of `loss` (a scalar) with respect to each of `targets`, starting
// from d loss = 1, and returns them in order. Their paths are "<target>.grad"; if one gradient
// serves several targets, it has the path of one of them. A target that the loss does not depend on
// gets zeros. Contributions to one value are added in the order of the reverse walk, which depends
// only on the Graph. Models call RecordGradients of core/ops/ops.h, which fills in the operators.
absl::StatusOr<std::vector<Tensor>> AppendGradients(Graph& graph, Tensor loss,
                                                    absl::Span<const Tensor> targets,
                                                    const AutogradOperators& operators);

}  // namespace tessera

#endif  // TESSERA_CORE_GRAPH_AUTOGRAD_H_
