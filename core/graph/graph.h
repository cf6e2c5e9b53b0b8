// A Graph: what is computed, as operators on global tensors, as if on one device.
//
// Static single assignment: every value has one producer, and operators stand in an order in which
// each comes after the producers of its inputs. Every operator and value has a unique path made of
// the builder's scopes ("blocks.3.attn.qkv"); everything saved refers to paths, never to numbers.
//
// Models record a Graph through functions on Tensor handles (core/ops/ops.h). A recording function
// whose arguments do not fit notes the first such error in the Graph and returns an invalid handle,
// which later functions pass on; the caller checks status() once at the end.
//
// Thread safety: const methods may run concurrently; recording needs one thread.
#ifndef TESSERA_CORE_GRAPH_GRAPH_H_
#define TESSERA_CORE_GRAPH_GRAPH_H_

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/graph/attributes.h"
#include "core/graph/operator.h"
#include "core/layout/layout.h"
#include "core/tensor/shape.h"

namespace tessera {

using ValueId = int32_t;
using OpId = int32_t;
inline constexpr int32_t kNone = -1;

enum class Role : uint8_t {
  kInput,           // set before each step: a batch, a learning rate, a seed
  kParameter,       // state: trained, or frozen
  kOptimizerState,  // state: moments, step count
  kCache,           // kept from one step of a Program to the next, never saved
  kActivation,
  kGradient,
};
absl::string_view RoleName(Role role);  // "input", "parameter", "optimizer", "cache", ...

enum class Phase : uint8_t { kForward, kBackward, kUpdate };
absl::string_view PhaseName(Phase phase);

// How the first value of a state is made.
struct Initializer {
  enum class Kind : uint8_t { kConstant, kNormal };
  Kind kind = Kind::kConstant;
  double value = 0;  // the constant, or the mean
  double stddev = 0;

  static Initializer Constant(double value) { return {Kind::kConstant, value, 0}; }
  static Initializer Normal(double mean, double stddev) { return {Kind::kNormal, mean, stddev}; }
};

struct Value {
  std::string path;
  TensorType type;
  Role role = Role::kActivation;
  OpId producer = kNone;  // kNone: an input, or the input value of a state
  int output_index = 0;   // of the producer
  // The value that this is the gradient of, or a contribution to it. One gradient may serve several
  // values; then it is the first of them. kNone: not a gradient, or that of a value that a
  // rewriting has split into several.
  ValueId gradient_of = kNone;
  // The target of AppendGradients (a parameter, in a training step) that this is the gradient of,
  // with all contributions; in a rewritten Graph also a micro-batch's share of it, or the sum of
  // such shares.
  ValueId complete_gradient_of = kNone;
  // In a rewritten Graph, the elements of the recorded value that this is. Empty: all of them.
  Region region = {};
};

struct Op {
  std::string path;
  const Operator* kind = nullptr;
  Attributes attributes;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  Phase phase = Phase::kForward;
  std::vector<OpId> after;  // must run later than these, though it reads nothing of theirs
  // The path of the op that this one repeats, in the Graph before recomputation and micro-batches
  // (the recorded one, or its slices): its own path in that Graph. Empty: they have added this op.
  std::string origin;
  // The path of the recorded op of which this one computes a slice, and the number of the slice.
  // Empty: it computes all of an op, or slicing has added it.
  std::string slice_of;
  int32_t slice = kNone;
  int32_t micro_batch = kNone;  // of the step's, the one that it computes; kNone: the full batch
  bool recomputed = false;      // repeats another op to save memory
  int32_t block = kNone;        // in Graph::blocks(): the block that it, or its forward op, lies in
  // The forward op whose gradient rule recorded this one. kNone: none, or a rewriting has split it
  // into several, and this one into none.
  OpId gradient_of = kNone;
};

// An input of the step.
struct GraphInput {
  ValueId value = kNone;
  int batch_dim = kNone;  // the dimension that counts the batch's rows; kNone: the same for all
  // The path of the recorded Graph's input that this is, or (Value::region) a micro-batch's part
  // of.
  std::string origin;
};

// A state tensor is both an input and an output of the step, under one path.
struct State {
  std::string path;
  TensorType type;
  Role role = Role::kParameter;
  Initializer initializer;
  bool trainable = true;    // of a parameter
  bool bias = false;        // of a parameter: it is added to a result, not multiplied by anything
  ValueId input = kNone;    // kNone: the Graph does not read it (initialisation)
  ValueId updated = kNone;  // equal to `input` if the Graph does not change it
  // The path of the recorded state that this is, or (`region`) a slice of.
  std::string origin = {};
  // The elements of the recorded state that this is. Empty: all of them.
  Region region = {};
};

struct GraphOutput {
  std::string name;
  ValueId value = kNone;
};

// All of a Graph; the fields are explained at Graph's methods of the same names.
struct GraphParts {
  std::string name;
  std::vector<Value> values;
  std::vector<Op> ops;
  std::vector<GraphInput> inputs;
  std::vector<State> states;
  std::vector<GraphOutput> outputs;
  std::vector<std::string> blocks;
};

class Graph;

// A value of a Graph under construction. Cheap to copy; valid as long as the Graph lives and does
// not move.
class Tensor {
 public:
  Tensor() = default;
  Tensor(Graph* graph, ValueId id) : graph_(graph), id_(id) {}

  bool valid() const { return graph_ != nullptr && id_ != kNone; }
  Graph* graph() const { return graph_; }
  ValueId id() const { return id_; }
  // f32[] if the handle is invalid. The reference is valid until something is recorded.
  const TensorType& type() const;
  const Shape& shape() const { return type().shape; }
  DType dtype() const { return type().dtype; }
  int rank() const { return static_cast<int>(shape().size()); }
  // A negative `i` counts from the last dimension. Returns 1 if there is no such dimension.
  int64_t dim(int i) const;

 private:
  Graph* graph_ = nullptr;
  ValueId id_ = kNone;
};

// More than `count` states that together take more than `bytes`.
struct StateLimit {
  size_t count = 0;
  int64_t bytes = std::numeric_limits<int64_t>::max();
};

class Graph {
 public:
  explicit Graph(std::string name) : name_(std::move(name)) {}
  Graph(Graph&&) = default;
  Graph& operator=(Graph&&) = default;
  Graph(const Graph&) = default;
  Graph& operator=(const Graph&) = default;

  // Makes a Graph of parts from outside. InvalidArgument, in one line, names the first that is
  // wrong: a path that is taken, an id that does not exist, an op before the producers of what it
  // reads, an op whose inputs, attributes and outputs do not fit its shape rule.
  static absl::StatusOr<Graph> FromParts(GraphParts parts);

  // --- Recording -------------------------------------------------------------------------------

  // Declares an input of the step; `name` is its full path.
  Tensor Input(absl::string_view name, TensorType type, int batch_dim = kNone);

  // Declares a state below the current scope and returns its input value. Declaring a path twice
  // returns the same value again if the type is the same (a tied weight), else it is an error.
  Tensor DeclareState(absl::string_view name, TensorType type, Role role, Initializer initializer,
                      bool trainable = true);
  // A trainable parameter of dtype f32.
  Tensor Parameter(absl::string_view name, Shape shape, Initializer initializer);
  // The same for a bias, which is 0 at first.
  Tensor Bias(absl::string_view name, Shape shape);
  // Sets the updated value of the state `path`.
  void SetState(absl::string_view path, Tensor updated);
  // Declares a state that the Graph writes and never reads.
  void WriteState(const State& like, Tensor updated);

  // Makes it a ResourceExhausted error to exceed the limit, so that a model of very many layers
  // that cannot fit is refused before the rest of it is recorded.
  void LimitState(const StateLimit& limit) { state_limit_ = limit; }

  void SetOutput(absl::string_view name, Tensor value);

  // Records one use of an operator below the current scope and returns its outputs, or nothing if
  // an input is invalid or does not fit. `name` defaults to the operator's; a path that is taken
  // gets "_1", "_2", ... The main output has the op's path, others "path.<output name>".
  std::vector<Tensor> Record(const Operator& kind, absl::Span<const Tensor> inputs,
                             Attributes attributes = {}, absl::string_view name = "");
  // The same for an operator of one output; returns an invalid handle if it does not fit.
  Tensor Record1(const Operator& kind, absl::Span<const Tensor> inputs, Attributes attributes = {},
                 absl::string_view name = "");

  // Notes an error; the first one stays.
  void Fail(absl::Status status);
  const absl::Status& status() const { return status_; }

  void set_phase(Phase phase) { phase_ = phase; }
  Phase phase() const { return phase_; }

  // Makes every op its own origin: layouts are said of the ops of this Graph.
  void ResetOrigins();
  // Gives a value another path, which must be free. Its op keeps its own.
  void Rename(ValueId value, absl::string_view path);
  // `op` must run after `earlier`.
  void AddOrderEdge(OpId op, OpId earlier);
  // `op` was recorded by the gradient rule of `forward`.
  void SetGradientOf(OpId op, OpId forward) { ops_[op].gradient_of = forward; }
  void SetBlock(OpId op, int32_t block) { ops_[op].block = block; }
  // `gradient` is that of `value`, unless it is known as another one's.
  void SetGradientOfValue(ValueId gradient, ValueId value) {
    ValueId& of = values_[gradient].gradient_of;
    if (of == kNone) of = value;
  }
  // `gradient` is the complete one of `target`, unless it is known as another one's.
  void SetCompleteGradientOf(ValueId gradient, ValueId target) {
    ValueId& of = values_[gradient].complete_gradient_of;
    if (of == kNone) of = target;
  }
  void SetAttribute(OpId op, absl::string_view name, AttributeValue value) {
    ops_[op].attributes.Set(name, std::move(value));
  }
  // Appends a use of an operator with these outputs, without applying the shape rule: for
  // rewritings of a Graph that is known to be right. Paths of outputs must be free; an op's path
  // that is taken gets a suffix. What the op and the outputs are gradients of is left out: it is
  // said by the ids of another Graph.
  OpId AppendOp(Op op, absl::Span<const Value> outputs);
  // Append a copy of another Graph's input (`value`, of the recorded input `origin`) or state, for
  // a rewriting.
  ValueId AppendInput(const Value& value, int batch_dim, absl::string_view origin);
  ValueId AppendState(State state);

  // --- Reading ---------------------------------------------------------------------------------

  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  const std::vector<Value>& values() const { return values_; }
  const std::vector<Op>& ops() const { return ops_; }
  const std::vector<GraphInput>& inputs() const { return inputs_; }
  const std::vector<State>& states() const { return states_; }
  const std::vector<GraphOutput>& outputs() const { return outputs_; }
  // Paths of the scopes that were marked as blocks, in order.
  const std::vector<std::string>& blocks() const { return blocks_; }

  const Value& value(ValueId id) const { return values_[id]; }
  const Op& op(OpId id) const { return ops_[id]; }
  Tensor tensor(ValueId id) { return Tensor(this, id); }
  // nullptr if there is none of that path.
  const State* FindState(absl::string_view path) const;
  ValueId FindValue(absl::string_view path) const;  // kNone if there is none
  // Whether neither a value nor an op has this path.
  bool PathIsFree(absl::string_view path) const;

  std::vector<TensorType> TypesOf(absl::Span<const ValueId> ids) const;

  // One line for each input, state, operator, updated state and output; see docs/architecture.md.
  std::string ToString() const;
  // 32 hexadecimal digits of XXH3-128 over the text form without its first line: equal for equal
  // Graphs on every machine.
  std::string Fingerprint() const;
  // The fingerprint of the operators within the scope `block`, with names relative to it: equal for
  // blocks that differ by their index only.
  std::string BlockFingerprint(absl::string_view block) const;

 private:
  friend class Scope;

  std::string ScopedPath(absl::string_view name) const;
  std::string FreePath(std::string path);
  void AddOp(Op op);
  State& AddState(State state);
  ValueId AddValue(std::string path, TensorType type, Role role, OpId producer, int output_index);
  std::string OpToString(const Op& op) const;

  std::string name_;
  std::vector<Value> values_;
  std::vector<Op> ops_;
  std::vector<GraphInput> inputs_;
  std::vector<State> states_;
  std::vector<GraphOutput> outputs_;
  std::vector<std::string> blocks_;
  absl::flat_hash_map<std::string, ValueId> value_of_path_;
  absl::flat_hash_set<std::string> op_paths_;  // of ops that share theirs with no value
  absl::flat_hash_map<std::string, int> state_of_path_;
  absl::flat_hash_map<std::string, int> next_suffix_;
  std::string scope_;
  int32_t block_ = kNone;  // in blocks_: the one that is being recorded
  Phase phase_ = Phase::kForward;
  absl::Status status_;
  int64_t state_bytes_ = 0;
  StateLimit state_limit_;
};

// While a Scope exists, what is recorded gets paths below `name`. A block is a scope that a
// strategy may treat as one unit (recompute, gather); blocks do not nest.
class Scope {
 public:
  enum Kind { kPlain, kBlock };
  Scope(Graph* graph, absl::string_view name, Kind kind = kPlain);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Graph* graph_;
  size_t outer_size_;
  int32_t outer_block_;
};

// True if `path` lies in the scope `scope` ("blocks.1" holds "blocks.1.ln1", not "blocks.10").
bool InScope(absl::string_view path, absl::string_view scope);

}  // namespace tessera

#endif  // TESSERA_CORE_GRAPH_GRAPH_H_
