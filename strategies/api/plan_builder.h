// Builds Plans of one stage.
#ifndef TESSERA_STRATEGIES_API_PLAN_BUILDER_H_
#define TESSERA_STRATEGIES_API_PLAN_BUILDER_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "strategies/api/messages/plan.pb.h"
#include "strategies/api/model_info.h"

namespace tessera::strategy {

// A Plan of one stage that is being built. A call adds what most Plans have; everything else is set
// in the stage itself.
//
//   PlanBuilder plan;
//   plan.Axis("data");
//   plan.SplitBatch(model);
//   plan.Group({"blocks.0", "blocks.1"}, {"data"}).set_gather(GroupChoice::ONCE);
//   plan.stage().add_pass()->mutable_prefetch_gathers();
//   return plan.Build();
class PlanBuilder {
 public:
  PlanBuilder() { plan_.add_stages(); }

  Stage& stage() { return *plan_.mutable_stages(0); }
  const Plan& Build() const { return plan_; }

  // Adds an axis of the mesh behind those that exist. Size 0: all ranks that the other axes leave.
  void Axis(absl::string_view name, int64_t size = 0);
  // Splits the inputs that have rows of the batch over all axes that exist, the first of which is
  // the outermost.
  void SplitBatch(const ModelInfo& model);
  // Sets the stored layout of a parameter or an input: "data: S(0)".
  void Store(absl::string_view path, absl::string_view layout);
  // Sets the signature of an operator: "data: S(0), B -> S(0)".
  void Compute(absl::string_view path, absl::string_view signature);
  // Adds a group: the parameters at these paths, or in these scopes, are one array, which is split
  // over the axes. The first axis is the outermost.
  GroupChoice& Group(absl::Span<const std::string> paths, absl::Span<const std::string> axes);
  // Stores and uses a parameter in so many slices along a dimension (SliceChoice).
  void Slice(absl::string_view path, int dimension, int64_t count);
  // Sets the dtypes in which parameters are used, and their gradients reduced. F32 is the default.
  void Precision(TypeProto::DType parameters, TypeProto::DType reduction);
  // Makes the Plan one for a batch of so many rows; a request must leave the batch open
  // (Request::MayDecide). Host::OpenContext returns a context in which such a Plan can be completed
  // and lowered.
  void Batch(int64_t rows) { plan_.set_batch(rows); }
  // Divides the batch of the Graphs that have one into so many micro-batches; a request must leave
  // them open (Request::MayDecide).
  void MicroBatches(const ModelInfo& model, int64_t count);
  // Recomputes the activations of blocks, other scopes and operators of a Graph ("train").
  void Recompute(absl::string_view graph, absl::Span<const std::string> paths);
  // Sets whether a Graph ("train") keeps the logits of its loss for the backward pass. By default
  // the host decides.
  void Logits(absl::string_view graph, PlanPart::Logits logits);

 private:
  // Returns the part for a Graph; adds one if there is none.
  PlanPart& Part(absl::string_view graph);

  Plan plan_;
};

}  // namespace tessera::strategy

#endif  // TESSERA_STRATEGIES_API_PLAN_BUILDER_H_
