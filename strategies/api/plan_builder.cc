#include "strategies/api/plan_builder.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tessera::strategy {

void PlanBuilder::Axis(absl::string_view name, int64_t size) {
  MeshAxis& axis = *stage().add_mesh();
  axis.set_name(std::string(name));
  axis.set_size(size);
}

void PlanBuilder::SplitBatch(const ModelInfo& model) {
  for (const InputInfo& input : model.inputs) {
    if (input.batch_dim < 0) continue;
    const auto split = [&](std::string* out, const MeshAxis& axis) {
      absl::StrAppend(out, axis.name(), ": S(", input.batch_dim, ")");
    };
    Store(input.path, absl::StrJoin(stage().mesh(), ", ", split));
  }
}

void PlanBuilder::Store(absl::string_view path, absl::string_view layout) {
  StoreChoice& store = *stage().add_store();
  store.set_path(std::string(path));
  store.set_layout(std::string(layout));
}

void PlanBuilder::Compute(absl::string_view path, absl::string_view signature) {
  ComputeChoice& compute = *stage().add_compute();
  compute.set_path(std::string(path));
  compute.set_signature(std::string(signature));
}

GroupChoice& PlanBuilder::Group(absl::Span<const std::string> paths,
                                absl::Span<const std::string> axes) {
  GroupChoice& group = *stage().add_group();
  group.set_path(absl::StrJoin(paths, "|"));
  for (const std::string& axis : axes) group.add_over(axis);
  return group;
}

void PlanBuilder::Slice(absl::string_view path, int dimension, int64_t count) {
  SliceChoice& slices = *stage().add_slice();
  slices.set_path(std::string(path.data(), path.size()));
  slices.set_dimension(dimension);
  slices.set_count(count);
}

void PlanBuilder::Precision(TypeProto::DType parameters, TypeProto::DType reduction) {
  if (parameters != TypeProto::F32) stage().mutable_precision()->set_parameters(parameters);
  if (reduction != TypeProto::F32) stage().mutable_precision()->set_reduction(reduction);
}

PlanPart& PlanBuilder::Part(absl::string_view graph) {
  for (PlanPart& part : *stage().mutable_parts()) {
    if (part.graph() == graph) return part;
  }
  PlanPart& part = *stage().add_parts();
  part.set_graph(std::string(graph));
  return part;
}

void PlanBuilder::MicroBatches(const ModelInfo& model, int64_t count) {
  for (const std::string& graph : model.batch_graphs) Part(graph).set_micro_batches(count);
}

void PlanBuilder::Recompute(absl::string_view graph, absl::Span<const std::string> paths) {
  for (const std::string& path : paths) Part(graph).add_recompute(path);
}

void PlanBuilder::Logits(absl::string_view graph, PlanPart::Logits logits) {
  Part(graph).set_logits(logits);
}

}  // namespace tessera::strategy
