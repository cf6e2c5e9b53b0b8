#include "core/graph/autograd.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/ids/table.h"

namespace tessera {
namespace {

// Returns which values depend on the targets. Only these get gradients.
Table<ValueId, bool> DependsOn(const Graph& graph, absl::Span<const Tensor> targets) {
  Table<ValueId, bool> depends(graph.values().size(), false);
  for (const Tensor& target : targets) depends[target.id()] = true;
  for (const Op& op : graph.ops()) {
    bool any = false;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      any = any || (depends[op.inputs[i]] && op.kind->Differentiable(static_cast<int>(i)));
    }
    if (!any) continue;
    for (ValueId output : op.outputs) {
      if (IsFloating(graph.value(output).type.dtype)) depends[output] = true;
    }
  }
  return depends;
}

// While a BackwardPhase exists, everything that is recorded belongs to the backward pass.
class BackwardPhase {
 public:
  explicit BackwardPhase(Graph* graph) : graph_(graph), outer_(graph->phase()) {
    graph_->set_phase(Phase::kBackward);
  }
  ~BackwardPhase() { graph_->set_phase(outer_); }
  BackwardPhase(const BackwardPhase&) = delete;
  BackwardPhase& operator=(const BackwardPhase&) = delete;

 private:
  Graph* graph_;
  Phase outer_;
};

}  // namespace

absl::StatusOr<std::vector<Tensor>> AppendGradients(Graph& graph, Tensor loss,
                                                    absl::Span<const Tensor> targets,
                                                    const AutogradOperators& operators) {
  if (!graph.status().ok()) return graph.status();
  if (!loss.valid() || !loss.shape().empty() || !IsFloating(loss.dtype())) {
    return absl::InvalidArgumentError(
        absl::StrCat("a loss is a floating scalar, not ", TypeToString(loss.type())));
  }
  const BackwardPhase phase(&graph);
  const Table<ValueId, bool> depends = DependsOn(graph, targets);
  const OpId forward_ops = graph.ops().end_id();
  Table<ValueId, Tensor> gradients(graph.values().size());

  // The sum of all contributions gets the value's path; the contributions keep the paths of their
  // operators. One gradient may serve several values (both terms of a sum): it is named after a
  // target, or else after the first of these values.
  absl::flat_hash_set<ValueId> named, named_by_target;
  const auto name_gradient = [&](ValueId value, Tensor gradient, bool is_target) {
    const std::string path = absl::StrCat(graph.value(value).path, ".grad");
    if (graph.value(gradient.id()).role != Role::kGradient || !graph.PathIsFree(path)) return;
    const bool first = named.insert(gradient.id()).second;
    if (is_target ? named_by_target.insert(gradient.id()).second : first) {
      graph.Rename(gradient.id(), path);
    }
  };

  if (depends[loss.id()]) {
    gradients[loss.id()] = operators.fill(graph, loss.type(), 1.0);
    graph.SetGradientOfValue(gradients[loss.id()].id(), loss.id());
  }
  for (OpId id = forward_ops - 1; id != kNone; --id) {
    std::vector<Tensor> output_gradients;
    bool any = false;
    for (ValueId output : graph.op(id).outputs) {
      output_gradients.push_back(gradients[output]);
      any = any || gradients[output].valid();
    }
    if (!any) continue;
    for (size_t i = 0; i < output_gradients.size(); ++i) {
      if (output_gradients[i].valid())
        name_gradient(graph.op(id).outputs[i], output_gradients[i], /*is_target=*/false);
    }
    std::vector<bool> needed;
    bool any_needed = false;
    for (size_t i = 0; i < graph.op(id).inputs.size(); ++i) {
      needed.push_back(depends[graph.op(id).inputs[i]] &&
                       graph.op(id).kind->Differentiable(static_cast<int>(i)));
      any_needed = any_needed || needed.back();
    }
    if (!any_needed) continue;

    GradientBuilder builder(&graph, id, std::move(output_gradients), needed);
    const Operator& kind = *graph.op(id).kind;
    const OpId first_gradient_op = graph.ops().end_id();
    {
      Scope scope(&graph, absl::StrCat(graph.op(id).path, ".backward"));
      absl::Status status = kind.Gradient(builder);
      if (status.ok()) status = graph.status();
      if (!status.ok()) {
        return absl::Status(status.code(), absl::StrCat("the gradient of '", graph.op(id).path,
                                                        "': ", status.message()));
      }
      const OpId end = graph.ops().end_id();
      for (OpId op = first_gradient_op; op < end; ++op) graph.SetGradientOf(op, id);
      for (size_t i = 0; i < needed.size(); ++i) {
        const Tensor contribution = builder.input_gradients()[i];
        if (!needed[i] || !contribution.valid()) continue;
        const ValueId input = graph.op(id).inputs[i];
        if (contribution.type() != graph.value(input).type) {
          return absl::InternalError(absl::StrCat("the gradient of input ", i, " of '",
                                                  graph.op(id).path, "' is ",
                                                  TypeToString(contribution.type()), ", the input ",
                                                  TypeToString(graph.value(input).type)));
        }
        graph.SetGradientOfValue(contribution.id(), input);
        Tensor& sum = gradients[input];
        sum = sum.valid() ? operators.add(sum, contribution) : contribution;
        graph.SetGradientOfValue(sum.id(), input);
      }
      // Sums of contributions also get the block.
      for (OpId op = first_gradient_op; op < graph.ops().end_id(); ++op) {
        graph.SetBlock(op, graph.op(id).block);
      }
    }
  }

  std::vector<Tensor> result;
  for (const Tensor& target : targets) {
    Tensor gradient = gradients[target.id()];
    if (!gradient.valid()) gradient = operators.fill(graph, target.type(), 0.0);
    graph.SetGradientOfValue(gradient.id(), target.id());
    graph.SetCompleteGradientOf(gradient.id(), target.id());
    name_gradient(target.id(), gradient, /*is_target=*/true);
    result.push_back(gradient);
  }
  if (!graph.status().ok()) return graph.status();
  return result;
}

}  // namespace tessera
