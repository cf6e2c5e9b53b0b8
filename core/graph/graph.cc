#include "core/graph/graph.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/status/check.h"

namespace tessera {
namespace {

// Returns the role of what an op of this phase computes, unless it is an updated state.
Role RoleOfOutputs(Phase phase) {
  return phase == Phase::kBackward ? Role::kGradient : Role::kActivation;
}

std::string ToStdString(absl::string_view text) { return std::string(text.data(), text.size()); }

}  // namespace

absl::string_view RoleName(Role role) {
  switch (role) {
    case Role::kInput:
      return "input";
    case Role::kParameter:
      return "parameter";
    case Role::kOptimizerState:
      return "optimizer";
    case Role::kCache:
      return "cache";
    case Role::kActivation:
      return "activation";
    case Role::kGradient:
      return "gradient";
    case Role::kRunningStatistic:
      return "statistic";
  }
  return "?";
}

absl::string_view PhaseName(Phase phase) {
  switch (phase) {
    case Phase::kForward:
      return "forward";
    case Phase::kBackward:
      return "backward";
    case Phase::kUpdate:
      return "update";
  }
  return "?";
}

bool InScope(absl::string_view path, absl::string_view scope) {
  return path.size() > scope.size() && absl::StartsWith(path, scope) && path[scope.size()] == '.';
}

const TensorType& Tensor::type() const {
  static const TensorType* const invalid = new TensorType();
  return valid() ? graph_->value(id_).type : *invalid;
}

int64_t Tensor::dim(int i) const {
  const Shape& sizes = shape();
  const int index = i < 0 ? i + rank() : i;
  return index >= 0 && index < rank() ? sizes[index] : 1;
}

Scope::Scope(Graph* graph, absl::string_view name, Kind kind)
    : graph_(graph), outer_size_(graph->scope_.size()), outer_block_(graph->block_) {
  absl::StrAppend(&graph->scope_, graph->scope_.empty() ? "" : ".", name);
  if (kind != kBlock) return;
  graph->block_ = graph->blocks_.push_back(graph->scope_);
}

Scope::~Scope() {
  graph_->scope_.resize(outer_size_);
  graph_->block_ = outer_block_;
}

std::string Graph::ScopedPath(absl::string_view name) const {
  return scope_.empty() ? ToStdString(name) : absl::StrCat(scope_, ".", name);
}

bool Graph::PathIsFree(absl::string_view path) const {
  return FindValue(path) == kNone && !op_paths_.contains(path);
}

std::string Graph::FreePath(std::string path) {
  if (PathIsFree(path)) return path;
  // The last suffix that was tried: with it, n uses of one name take n searches instead of n^2.
  int& suffix = next_suffix_[path];
  while (true) {
    std::string candidate = absl::StrCat(path, "_", ++suffix);
    if (PathIsFree(candidate)) return candidate;
  }
}

void Graph::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
}

ValueId Graph::AddValue(std::string path, TensorType type, Role role, OpId producer,
                        int output_index) {
  const ValueId id = values_.end_id();
  TESSERA_CHECK(value_of_path_.Insert(path, id, values_)) << "path taken: " << path;
  Value value;
  value.path = std::move(path);
  value.type = std::move(type);
  value.role = role;
  value.producer = producer;
  value.output_index = output_index;
  values_.push_back(std::move(value));
  return id;
}

Tensor Graph::Input(absl::string_view name, TensorType type, int batch_dim) {
  if (!PathIsFree(name)) {
    Fail(absl::InvalidArgumentError(absl::StrCat("input '", name, "' is declared twice")));
    return {};
  }
  const ValueId id = AddValue(ToStdString(name), std::move(type), Role::kInput, kNone, 0);
  inputs_.push_back({id, batch_dim, ToStdString(name)});
  return tensor(id);
}

Tensor Graph::DeclareState(absl::string_view name, TensorType type, Role role,
                           Initializer initializer, bool trainable) {
  const std::string path = ScopedPath(name);
  if (const State* known = FindState(path)) {
    if (known->type != type || known->role != role || known->input == kNone) {
      Fail(absl::InvalidArgumentError(absl::StrCat("state '", path, "' is declared as ",
                                                   TypeToString(known->type), " and again as ",
                                                   TypeToString(type))));
      return {};
    }
    return tensor(known->input);
  }
  if (!PathIsFree(path)) {
    Fail(absl::InvalidArgumentError(
        absl::StrCat("state '", path, "' has the path of another value")));
    return {};
  }
  if (states_.size() >= state_limit_.count && state_bytes_ + NumBytes(type) > state_limit_.bytes) {
    Fail(absl::ResourceExhaustedError(
        absl::StrCat("the state up to '", path, "' takes ", state_bytes_ + NumBytes(type),
                     " bytes, more than the limit of ", state_limit_.bytes)));
    return {};
  }
  State& state = AddState({path, type, role, initializer, trainable});
  state.input = state.updated = AddValue(path, std::move(type), role, kNone, 0);
  return tensor(state.input);
}

State& Graph::AddState(State state) {
  state_bytes_ += NumBytes(state.type);
  if (state.origin.empty()) state.origin = state.path;
  state_of_path_[state.path] = static_cast<int>(states_.size());
  states_.push_back(std::move(state));
  return states_.back();
}

Tensor Graph::Parameter(absl::string_view name, Shape shape, Initializer initializer) {
  return DeclareState(name, {DType::kF32, std::move(shape)}, Role::kParameter, initializer);
}

Tensor Graph::Bias(absl::string_view name, Shape shape) {
  const Tensor bias = Parameter(name, std::move(shape), Initializer::Constant(0));
  if (bias.valid()) states_[state_of_path_.at(ScopedPath(name))].bias = true;
  return bias;
}

Tensor Graph::RunningStatistic(absl::string_view name, Shape shape, Initializer initializer) {
  return DeclareState(name, {DType::kF32, std::move(shape)}, Role::kRunningStatistic, initializer);
}

void Graph::SetState(absl::string_view path, Tensor updated) {
  auto it = state_of_path_.find(path);
  if (it == state_of_path_.end()) {
    Fail(absl::InvalidArgumentError(absl::StrCat("no state '", path, "' to set")));
    return;
  }
  if (!updated.valid()) return;
  State& state = states_[it->second];
  if (updated.type() != state.type) {
    Fail(absl::InvalidArgumentError(absl::StrCat("state '", path, "' is ", TypeToString(state.type),
                                                 ", its updated value ",
                                                 TypeToString(updated.type()))));
    return;
  }
  if (Value& before = values_[state.updated]; before.producer != kNone) {
    before.role = RoleOfOutputs(ops_[before.producer].phase);
  }
  state.updated = updated.id();
  values_[updated.id()].role = state.role;
}

void Graph::WriteState(const State& like, Tensor updated) {
  if (!updated.valid()) return;
  TESSERA_CHECK(!state_of_path_.contains(like.path)) << like.path;
  State state = like;
  state.input = kNone;
  state.updated = updated.id();
  values_[updated.id()].role = state.role;
  AddState(std::move(state));
}

void Graph::SetOutput(absl::string_view name, Tensor value) {
  if (value.valid()) outputs_.push_back({ToStdString(name), value.id()});
}

std::vector<Tensor> Graph::Record(const Operator& kind, absl::Span<const Tensor> inputs,
                                  Attributes attributes, absl::string_view name) {
  Op op;
  op.kind = &kind;
  op.attributes = std::move(attributes);
  op.phase = phase_;
  op.block = block_;
  std::vector<TensorType> types;
  for (const Tensor& input : inputs) {
    if (!input.valid()) {
      Fail(absl::InvalidArgumentError(
          absl::StrCat("an input of '", ScopedPath(kind.name()), "' is not a tensor")));
      return {};
    }
    TESSERA_CHECK(input.graph() == this) << "a tensor of another graph";
    op.inputs.push_back(input.id());
    types.push_back(input.type());
  }
  auto outputs = kind.InferTypes(types, op.attributes);
  if (!outputs.ok()) {
    Fail(absl::Status(outputs.status().code(),
                      absl::StrCat(ScopedPath(name.empty() ? kind.name() : name), " (", kind.name(),
                                   "): ", outputs.status().message())));
    return {};
  }
  op.path = FreePath(ScopedPath(name.empty() ? kind.name() : name));
  op.origin = op.path;
  const OpId id = ops_.end_id();
  std::vector<Tensor> result;
  for (int i = 0; i < static_cast<int>(outputs->size()); ++i) {
    const absl::string_view output_name = kind.OutputName(i);
    std::string path =
        i == 0 && output_name.empty()
            ? op.path
            : FreePath(output_name.empty() ? absl::StrCat(op.path, ".", i)
                                           : absl::StrCat(op.path, ".", output_name));
    op.outputs.push_back(AddValue(std::move(path), (*outputs)[i], RoleOfOutputs(phase_), id, i));
    result.push_back(tensor(op.outputs.back()));
  }
  AddOp(std::move(op));
  return result;
}

Tensor Graph::Record1(const Operator& kind, absl::Span<const Tensor> inputs, Attributes attributes,
                      absl::string_view name) {
  const std::vector<Tensor> outputs = Record(kind, inputs, std::move(attributes), name);
  return outputs.empty() ? Tensor() : outputs[0];
}

void Graph::AddOp(Op op) {
  if (op.outputs.empty() || values_[op.outputs[0]].path != op.path) op_paths_.insert(op.path);
  ops_.push_back(std::move(op));
}

void Graph::Reserve(size_t ops, size_t values) {
  ops_.reserve(ops);
  values_.reserve(values);
}

void Graph::ForgetPaths() {
  value_of_path_ = ValuesByPath();
  absl::flat_hash_set<std::string>().swap(op_paths_);
}

OpId Graph::AppendOp(Op op, absl::Span<const Value> outputs) {
  const OpId id = ops_.end_id();
  op.outputs.clear();
  op.gradient_of = kNone;  // it would be an id of another Graph
  op.path = FreePath(std::move(op.path));
  for (int i = 0; i < static_cast<int>(outputs.size()); ++i) {
    op.outputs.push_back(AddValue(outputs[i].path, outputs[i].type, outputs[i].role, id, i));
    values_.back().region = outputs[i].region;
  }
  AddOp(std::move(op));
  return id;
}

ValueId Graph::AppendInput(const Value& value, int batch_dim, absl::string_view origin) {
  const ValueId id = AddValue(value.path, value.type, Role::kInput, kNone, 0);
  values_[id].region = value.region;
  inputs_.push_back({id, batch_dim, ToStdString(origin)});
  return id;
}

ValueId Graph::AppendState(State state) {
  state.input = state.updated = AddValue(state.path, state.type, state.role, kNone, 0);
  values_[state.input].region = state.region;
  return AddState(std::move(state)).input;
}

void Graph::ResetOrigins() {
  for (Op& op : ops_) op.origin = op.path;
}

void Graph::Rename(ValueId value, absl::string_view path) {
  std::string& old = values_[value].path;
  if (old == path) return;
  TESSERA_CHECK(PathIsFree(path)) << "path taken: " << ToStdString(path);
  value_of_path_.Erase(old, values_);
  const OpId producer = values_[value].producer;
  if (producer != kNone && ops_[producer].path == old) op_paths_.insert(old);
  value_of_path_.Insert(path, value, values_);
  old = ToStdString(path);
}

void Graph::AddOrderEdge(OpId op, OpId earlier) {
  TESSERA_CHECK(earlier < op && op < ops_.end_id())
      << ops_[op].path << " after " << ops_[earlier].path;
  ops_[op].after.push_back(earlier);
}

const State* Graph::FindState(absl::string_view path) const {
  auto it = state_of_path_.find(path);
  return it == state_of_path_.end() ? nullptr : &states_[it->second];
}

ValueId Graph::FindValue(absl::string_view path) const {
  return value_of_path_.Find(path, values_);
}

std::vector<TensorType> Graph::TypesOf(absl::Span<const ValueId> ids) const {
  std::vector<TensorType> types;
  types.reserve(ids.size());
  for (ValueId id : ids) types.push_back(values_[id].type);
  return types;
}

}  // namespace tessera
