#include "core/graph/autograd.h"

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/ids/table.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// Returns, by value, whether it depends on the targets through differentiable inputs. Only such
// values get gradients.
Table<ValueId, bool> DependOn(const Graph& graph, absl::Span<const Tensor> targets) {
  Table<ValueId, bool> depends(graph.values().size(), false);
  for (const Tensor& target : targets) depends[target.id()] = true;
  for (const Op& op : graph.ops()) {
    bool depends_on_target = false;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      depends_on_target = depends_on_target ||
                          (depends[op.inputs[i]] && op.kind->Differentiable(static_cast<int>(i)));
    }
    if (!depends_on_target) continue;
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

// The gradients of a Graph's values, as the reverse walk records them.
class GradientRecorder {
 public:
  // `graph` and `operators` must outlive the object.
  GradientRecorder(Graph* graph, absl::Span<const Tensor> targets,
                   const AutogradOperators& operators)
      : graph_(*graph),
        operators_(operators),
        depends_(DependOn(*graph, targets)),
        gradients_(graph->values().size()) {}

  // Records the gradient of the loss with respect to itself, if it depends on a target.
  void RecordLoss(Tensor loss) {
    if (!depends_[loss.id()]) return;
    gradients_[loss.id()] = operators_.fill(graph_, loss.type(), 1.0);
    graph_.SetGradientOfValue(gradients_[loss.id()].id(), loss.id());
  }

  // Records the gradient operators of one operator, if it lies between a target and the loss.
  absl::Status RecordOp(OpId id) {
    std::vector<Tensor> output_gradients = OutputGradients(id);
    if (absl::c_none_of(output_gradients,
                        [](const Tensor& gradient) { return gradient.valid(); })) {
      return absl::OkStatus();
    }
    for (size_t i = 0; i < output_gradients.size(); ++i) {
      if (output_gradients[i].valid()) {
        RenameGradient(graph_.op(id).outputs[i], output_gradients[i], /*is_target=*/false);
      }
    }
    const std::vector<bool> needed = NeededInputs(id);
    if (!absl::c_linear_search(needed, true)) return absl::OkStatus();

    GradientBuilder builder(&graph_, id, std::move(output_gradients), needed);
    const Operator& kind = *graph_.op(id).kind;
    const OpId first = graph_.ops().end_id();
    const Scope scope(&graph_, absl::StrCat(graph_.op(id).path, ".backward"));
    absl::Status status = kind.Gradient(builder);
    if (status.ok()) status = graph_.status();
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrCat("the gradient of '", graph_.op(id).path,
                                                      "': ", status.message()));
    }
    const OpId end = graph_.ops().end_id();
    for (OpId op = first; op < end; ++op) graph_.SetGradientOf(op, id);
    for (size_t i = 0; i < needed.size(); ++i) {
      const Tensor contribution = builder.input_gradients()[i];
      if (needed[i] && contribution.valid()) RETURN_IF_ERROR(AddContribution(id, i, contribution));
    }
    // Sums of contributions also get the block.
    for (OpId op = first; op < graph_.ops().end_id(); ++op) {
      graph_.SetBlock(op, graph_.op(id).block);
    }
    return absl::OkStatus();
  }

  // Returns the gradient of a target, and marks it as complete: zeros if the loss does not depend
  // on it. Must be called after the walk.
  Tensor FinishTarget(Tensor target) {
    Tensor gradient = gradients_[target.id()];
    if (!gradient.valid()) gradient = operators_.fill(graph_, target.type(), 0.0);
    graph_.SetGradientOfValue(gradient.id(), target.id());
    graph_.SetCompleteGradientOf(gradient.id(), target.id());
    RenameGradient(target.id(), gradient, /*is_target=*/true);
    return gradient;
  }

 private:
  // Returns invalid handles for outputs without a gradient.
  std::vector<Tensor> OutputGradients(OpId id) const {
    std::vector<Tensor> gradients;
    for (const ValueId output : graph_.op(id).outputs) gradients.push_back(gradients_[output]);
    return gradients;
  }

  // Returns for each input whether its gradient is needed.
  std::vector<bool> NeededInputs(OpId id) const {
    const Op& op = graph_.op(id);
    std::vector<bool> needed;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      needed.push_back(depends_[op.inputs[i]] && op.kind->Differentiable(static_cast<int>(i)));
    }
    return needed;
  }

  // Adds a contribution of operator `id` to the gradient of its input i.
  absl::Status AddContribution(OpId id, size_t i, Tensor contribution) {
    const ValueId input = graph_.op(id).inputs[i];
    if (contribution.type() != graph_.value(input).type) {
      return absl::InternalError(absl::StrCat("the gradient of input ", i, " of '",
                                              graph_.op(id).path, "' is ",
                                              TypeToString(contribution.type()), ", the input ",
                                              TypeToString(graph_.value(input).type)));
    }
    graph_.SetGradientOfValue(contribution.id(), input);
    Tensor& sum = gradients_[input];
    sum = sum.valid() ? operators_.add(sum, contribution) : contribution;
    graph_.SetGradientOfValue(sum.id(), input);
    return absl::OkStatus();
  }

  // Renames the gradient of a value. The sum of all contributions gets the value's path; the
  // contributions keep the paths of their
  // operators. One gradient may serve several values (both terms of a sum): it is named after a
  // target, or else after the first of these values.
  void RenameGradient(ValueId value, Tensor gradient, bool is_target) {
    const std::string path = absl::StrCat(graph_.value(value).path, ".grad");
    if (graph_.value(gradient.id()).role != Role::kGradient || !graph_.PathIsFree(path)) return;
    const bool first = named_.insert(gradient.id()).second;
    if (is_target ? named_by_target_.insert(gradient.id()).second : first) {
      graph_.Rename(gradient.id(), path);
    }
  }

  Graph& graph_;
  const AutogradOperators& operators_;
  const Table<ValueId, bool> depends_;  // on a target
  Table<ValueId, Tensor> gradients_;    // the sum of contributions so far, or an invalid handle
  absl::flat_hash_set<ValueId> named_, named_by_target_;
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
  const OpId forward_end = graph.ops().end_id();
  GradientRecorder recorder(&graph, targets, operators);
  recorder.RecordLoss(loss);
  for (OpId id = forward_end - 1; id != kNone; --id) RETURN_IF_ERROR(recorder.RecordOp(id));
  std::vector<Tensor> gradients;
  for (const Tensor& target : targets) gradients.push_back(recorder.FinishTarget(target));
  if (!graph.status().ok()) return graph.status();
  return gradients;
}

}  // namespace tessera
