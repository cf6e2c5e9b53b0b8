#include "core/graph/graph_proto.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/graph/attributes_proto.h"
#include "core/ids/repeated_field.h"
#include "core/status/status_macros.h"
#include "core/text/quote.h"

namespace tessera {
namespace {

// The enumerators must be in the same order as those of the message.
static_assert(static_cast<int>(Role::kInput) == GraphProto::INPUT);
static_assert(static_cast<int>(Role::kRunningStatistic) == GraphProto::RUNNING_STATISTIC);
static_assert(static_cast<int>(Phase::kUpdate) == GraphProto::UPDATE);
static_assert(static_cast<int>(Initializer::Kind::kNormal) == GraphProto::Initializer::NORMAL);

template <typename Field, typename Id>
void ReadIds(const Field& field, std::vector<Id>& ids) {
  ids.reserve(field.size());
  for (const int32_t id : field) ids.emplace_back(id);
}

GraphProto::Role ToProto(Role role) { return static_cast<GraphProto::Role>(role); }

GraphProto::Region ToProto(const Region& region) {
  GraphProto::Region message;
  AppendNumbers(region.start, message.mutable_start());
  AppendNumbers(region.global, message.mutable_global());
  return message;
}

GraphProto::Value ToProto(const Value& value) {
  GraphProto::Value message;
  message.set_path(value.path);
  *message.mutable_type() = ToProto(value.type);
  message.set_role(ToProto(value.role));
  message.set_producer(value.producer.index());
  message.set_output_index(value.output_index);
  message.set_gradient_of(value.gradient_of.index());
  message.set_complete_gradient_of(value.complete_gradient_of.index());
  if (value.region != nullptr) *message.mutable_region() = ToProto(*value.region);
  return message;
}

GraphProto::Op ToProto(const Op& op) {
  GraphProto::Op message;
  message.set_path(op.path);
  message.set_kind(op.kind->name().data(), op.kind->name().size());
  *message.mutable_attributes() = ToProto(op.attributes);
  AppendIds(op.inputs, message.mutable_inputs());
  AppendIds(op.outputs, message.mutable_outputs());
  message.set_phase(static_cast<GraphProto::Phase>(op.phase));
  AppendIds(op.after, message.mutable_after());
  message.set_origin(op.origin);
  message.set_part(op.part);
  message.set_micro_batch(op.micro_batch);
  message.set_recomputed(op.recomputed);
  message.set_gradient_of(op.gradient_of.index());
  message.set_slice_of(op.slice_of);
  message.set_slice(op.slice);
  message.set_block(op.block.index());
  return message;
}

GraphProto::Input ToProto(const GraphInput& input) {
  GraphProto::Input message;
  message.set_value(input.value.index());
  message.set_batch_dim(input.batch_dim);
  message.set_origin(input.origin);
  return message;
}

GraphProto::State ToProto(const State& state) {
  GraphProto::State message;
  message.set_path(state.path);
  *message.mutable_type() = ToProto(state.type);
  message.set_role(ToProto(state.role));
  GraphProto::Initializer& initializer = *message.mutable_initializer();
  initializer.set_kind(static_cast<GraphProto::Initializer::Kind>(state.initializer.kind));
  initializer.set_value(state.initializer.value);
  initializer.set_stddev(state.initializer.stddev);
  message.set_trainable(state.trainable);
  message.set_bias(state.bias);
  message.set_input(state.input.index());
  message.set_updated(state.updated.index());
  message.set_origin(state.origin);
  if (state.region != nullptr) *message.mutable_region() = ToProto(*state.region);
  return message;
}

// --- Reading -------------------------------------------------------------------------------------

absl::StatusOr<Role> RoleFromProto(GraphProto::Role role) {
  if (GraphProto::Role_IsValid(role)) return static_cast<Role>(role);
  return absl::InvalidArgumentError(
      absl::StrCat("role ", static_cast<int>(role), ", which this version does not know"));
}

SharedRegion FromProto(const GraphProto::Region& message) {
  if (message.start().empty() && message.global().empty()) return nullptr;
  auto region = std::make_shared<Region>();
  region->start = {message.start().begin(), message.start().end()};
  region->global = {message.global().begin(), message.global().end()};
  return region;
}

absl::StatusOr<Value> ValueFromProto(const GraphProto::Value& message) {
  Value value;
  value.path = message.path();
  ASSIGN_OR_RETURN(value.type, FromProto(message.type()));
  ASSIGN_OR_RETURN(value.role, RoleFromProto(message.role()));
  value.producer = OpId(message.producer());
  value.output_index = message.output_index();
  value.gradient_of = ValueId(message.gradient_of());
  value.complete_gradient_of = ValueId(message.complete_gradient_of());
  value.region = FromProto(message.region());
  return value;
}

absl::StatusOr<Op> OpFromProto(const GraphProto::Op& message, OperatorFinder find_operator) {
  Op op;
  op.path = message.path();
  op.kind = find_operator(message.kind());
  if (op.kind == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("operator ", Quote(message.kind()), ", which this version does not know"));
  }
  ASSIGN_OR_RETURN(op.attributes, FromProto(message.attributes()));
  ReadIds(message.inputs(), op.inputs);
  ReadIds(message.outputs(), op.outputs);
  if (!GraphProto::Phase_IsValid(message.phase())) {
    return absl::InvalidArgumentError(absl::StrCat("phase ", static_cast<int>(message.phase()),
                                                   ", which this version does not know"));
  }
  op.phase = static_cast<Phase>(message.phase());
  ReadIds(message.after(), op.after);
  op.origin = message.origin();
  op.part = message.part();
  op.micro_batch = message.micro_batch();
  op.recomputed = message.recomputed();
  op.gradient_of = OpId(message.gradient_of());
  op.slice_of = message.slice_of();
  op.slice = message.slice();
  op.block = BlockId(message.block());
  return op;
}

absl::StatusOr<State> StateFromProto(const GraphProto::State& message) {
  State state;
  state.path = message.path();
  ASSIGN_OR_RETURN(state.type, FromProto(message.type()));
  ASSIGN_OR_RETURN(state.role, RoleFromProto(message.role()));
  const GraphProto::Initializer& initializer = message.initializer();
  if (!GraphProto::Initializer::Kind_IsValid(initializer.kind())) {
    return absl::InvalidArgumentError(absl::StrCat("initializer ",
                                                   static_cast<int>(initializer.kind()),
                                                   ", which this version does not know"));
  }
  state.initializer.kind = static_cast<Initializer::Kind>(initializer.kind());
  state.initializer.value = initializer.value();
  state.initializer.stddev = initializer.stddev();
  state.trainable = message.trainable();
  state.bias = message.bias();
  state.input = ValueId(message.input());
  state.updated = ValueId(message.updated());
  state.origin = message.origin();
  state.region = FromProto(message.region());
  return state;
}

absl::Status Annotated(absl::string_view what, absl::string_view path, const absl::Status& status) {
  return absl::InvalidArgumentError(absl::StrCat(what, " ", Quote(path), ": ", status.message()));
}

absl::StatusOr<GraphParts> PartsFromProto(const GraphProto& message, OperatorFinder find_operator) {
  GraphParts parts;
  parts.name = message.name();
  for (const GraphProto::Value& value : message.values()) {
    absl::StatusOr<Value> read = ValueFromProto(value);
    if (!read.ok()) return Annotated("value", value.path(), read.status());
    parts.values.push_back(*std::move(read));
  }
  for (const GraphProto::Op& op : message.ops()) {
    absl::StatusOr<Op> read = OpFromProto(op, find_operator);
    if (!read.ok()) return Annotated("op", op.path(), read.status());
    parts.ops.push_back(*std::move(read));
  }
  for (const GraphProto::Input& input : message.inputs()) {
    parts.inputs.push_back({ValueId(input.value()), input.batch_dim(), input.origin()});
  }
  for (const GraphProto::State& state : message.states()) {
    absl::StatusOr<State> read = StateFromProto(state);
    if (!read.ok()) return Annotated("state", state.path(), read.status());
    parts.states.push_back(*std::move(read));
  }
  for (const GraphProto::Output& output : message.outputs()) {
    parts.outputs.push_back({output.name(), ValueId(output.value())});
  }
  parts.blocks.assign(message.blocks().begin(), message.blocks().end());
  return parts;
}

}  // namespace

GraphProto GraphToProto(const Graph& graph) {
  GraphProto message;
  message.set_name(graph.name());
  for (const Value& value : graph.values()) *message.add_values() = ToProto(value);
  for (const Op& op : graph.ops()) *message.add_ops() = ToProto(op);
  for (const GraphInput& input : graph.inputs()) *message.add_inputs() = ToProto(input);
  for (const State& state : graph.states()) *message.add_states() = ToProto(state);
  for (const GraphOutput& output : graph.outputs()) {
    GraphProto::Output& added = *message.add_outputs();
    added.set_name(output.name);
    added.set_value(output.value.index());
  }
  for (const std::string& block : graph.blocks()) message.add_blocks(block);
  return message;
}

absl::StatusOr<Graph> GraphFromProto(const GraphProto& message, OperatorFinder find_operator) {
  absl::StatusOr<GraphParts> parts = PartsFromProto(message, find_operator);
  absl::StatusOr<Graph> graph =
      parts.ok() ? Graph::FromParts(*std::move(parts)) : absl::StatusOr<Graph>(parts.status());
  if (graph.ok()) return graph;
  return absl::InvalidArgumentError(
      absl::StrCat("graph ", Quote(message.name()), ": ", graph.status().message()));
}

}  // namespace tessera
