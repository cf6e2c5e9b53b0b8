// A Graph: what is computed, as operators on global tensors, as if on one device.
//
// Static single assignment: every value has one producer, and each operator comes after the
// producers of its inputs. Every operator and value has a unique path made of the builder's scopes
// ("blocks.3.attn.qkv"). Saved data refers to paths, never to numbers.
//
// Models record a Graph through functions on Tensor handles (core/ops/ops.h). If the arguments of a
// recording function do not fit, the Graph keeps the first such error, and the function returns an
// invalid handle, which later functions pass on. The caller checks status() once at the end.
//
// Thread safety: const methods may run concurrently; recording needs one thread.
#ifndef TESSERA_CORE_GRAPH_GRAPH_H_
#define TESSERA_CORE_GRAPH_GRAPH_H_

#include <cstdint>
#include <limits>
#include <memory>
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
#include "core/graph/shared_string.h"
#include "core/graph/values_by_path.h"
#include "core/ids/id.h"
#include "core/ids/table.h"
#include "core/layout/layout.h"
#include "core/tensor/shape.h"

namespace tessera {

// The ids of what a Graph has: positions in its tables. That of a value is in values_by_path.h.
using OpId = Id<struct Op>;
using BlockId = Id<struct GraphBlock>;  // a path in Graph::blocks()

enum class Role : uint8_t {
  kInput,           // set before each step: a batch, a learning rate, a seed
  kParameter,       // state: trained, or frozen
  kOptimizerState,  // state: moments, step count
  kCache,           // kept from one step of a Program to the next, never saved
  kActivation,
  kGradient,
  kRunningStatistic,  // state: an average of activations over steps; evaluation reads it
};
absl::string_view RoleName(Role role);  // "input", "parameter", "optimizer", "cache", ...

enum class Phase : uint8_t { kForward, kBackward, kUpdate };
absl::string_view PhaseName(Phase phase);

// The initial value of a state.
struct Initializer {
  enum class Kind : uint8_t { kConstant, kNormal };
  Kind kind = Kind::kConstant;
  double value = 0;  // the constant, or the mean
  double stddev = 0;

  static Initializer Constant(double value) { return {Kind::kConstant, value, 0}; }
  static Initializer Normal(double mean, double stddev) { return {Kind::kNormal, mean, stddev}; }
};

// The elements of a recorded tensor that a value or a state is; null: all of them. Values share it,
// because a Graph in many micro-batches has hundreds of thousands.
using SharedRegion = std::shared_ptr<const Region>;

struct Value {
  std::string path;
  TensorType type;
  Role role = Role::kActivation;
  OpId producer;         // kNone: an input, or the input value of a state
  int output_index = 0;  // of the producer
  // The value that this is the gradient of, or contributes to the gradient of. If one gradient
  // serves several values, this is the first of them. kNone: not a gradient, or a rewriting has
  // split that value into several.
  ValueId gradient_of;
  // The target of AppendGradients (in a training step, a parameter) that this is the complete
  // gradient of, with all contributions. In a rewritten Graph it may also be the contribution of a
  // micro-batch, or a sum of such contributions.
  ValueId complete_gradient_of;
  SharedRegion region;  // in a rewritten Graph
};

struct Op {
  std::string path;
  const Operator* kind = nullptr;
  Attributes attributes;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  Phase phase = Phase::kForward;
  std::vector<OpId> after;  // ops that must run before it, though it does not read their outputs
  // The path of the op that this one repeats, in the Graph before recomputation and micro-batches
  // (with slices, if there are any). Empty: recomputation or micro-batches have added this op.
  SharedString origin;
  // The path of the recorded op that this op computes a slice of. Empty: it computes all of an op,
  // or slicing has added it. `slice` is the number of the slice.
  SharedString slice_of;
  int32_t slice = kNone;
  // The number of the part, where `origin` is computed in parts (Operator::RecordInParts); else
  // kNone.
  int32_t part = kNone;
  int32_t micro_batch = kNone;  // the micro-batch that it computes; kNone: the full batch
  bool recomputed = false;      // repeats another op to save memory
  BlockId block;                // of this op, or of its forward op
  // The forward op whose gradient rule recorded this op. kNone: there is none, or a rewriting has
  // split the forward op into several but not this op.
  OpId gradient_of;
};

// An input of the step.
struct GraphInput {
  ValueId value;
  int batch_dim = kNone;  // the dimension of the batch's rows; kNone: the same for all rows
  // The path of the recorded Graph's input that this input is, or a micro-batch's part of (see
  // Value::region).
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
  SharedRegion region = {};
};

struct GraphOutput {
  std::string name;
  ValueId value;
};

// The contents of a Graph. The fields are explained at the methods of Graph with the same names.
struct GraphParts {
  std::string name;
  Table<ValueId, Value> values;
  Table<OpId, Op> ops;
  std::vector<GraphInput> inputs;
  std::vector<State> states;
  std::vector<GraphOutput> outputs;
  Table<BlockId, std::string> blocks;
};

class Graph;

// A handle of a value of a Graph that is being recorded. Cheap to copy; valid as long as the Graph
// exists and is not moved.
class Tensor {
 public:
  Tensor() = default;
  Tensor(Graph* graph, ValueId id) : graph_(graph), id_(id) {}

  bool valid() const { return graph_ != nullptr && id_ != kNone; }
  Graph* graph() const { return graph_; }
  ValueId id() const { return id_; }
  // Returns f32[] if the handle is invalid. The reference is valid until the next operator is
  // recorded.
  const TensorType& type() const;
  const Shape& shape() const { return type().shape; }
  DType dtype() const { return type().dtype; }
  int rank() const { return static_cast<int>(shape().size()); }
  // A negative `i` counts from the last dimension. Returns 1 if there is no such dimension.
  int64_t dim(int i) const;

 private:
  Graph* graph_ = nullptr;
  ValueId id_;
};

// A limit that is exceeded if a Graph has more than `count` states that together take more than
// `bytes`.
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

  // Makes a Graph from parts that need not be trusted. InvalidArgument, in one line, names the
  // first fault: a path that is used twice, an id that does not exist, an op before the producers
  // of its inputs, or an op whose inputs, attributes and outputs do not fit its shape rule.
  static absl::StatusOr<Graph> FromParts(GraphParts parts);

  // --- Recording -------------------------------------------------------------------------------

  // Declares an input of the step; `name` is its full path.
  Tensor Input(absl::string_view name, TensorType type, int batch_dim = kNone);

  // Declares a state in the current scope and returns its input value. If the path is declared
  // already with the same type and role (a tied weight), returns the same value again; with another
  // type or role, it is an error.
  Tensor DeclareState(absl::string_view name, TensorType type, Role role, Initializer initializer,
                      bool trainable = true);
  // Declares a trainable parameter of dtype f32.
  Tensor Parameter(absl::string_view name, Shape shape, Initializer initializer);
  // Declares a bias: a trainable f32 parameter that is initially 0.
  Tensor Bias(absl::string_view name, Shape shape);
  // Declares a running statistic: an f32 state that is no parameter. It has no gradient; its
  // updated value is computed from activations, and evaluation reads it.
  Tensor RunningStatistic(absl::string_view name, Shape shape, Initializer initializer);
  // Sets the updated value of the state `path`, instead of one that was set before.
  void SetState(absl::string_view path, Tensor updated);
  // Declares a state that the Graph writes and never reads.
  void WriteState(const State& like, Tensor updated);

  // Sets a limit on the states. Exceeding it is a ResourceExhausted error, so that a model with
  // very many layers that cannot fit is refused before the rest of it is recorded.
  void LimitState(const StateLimit& limit) { state_limit_ = limit; }

  void SetOutput(absl::string_view name, Tensor value);

  // Records one use of an operator in the current scope and returns its outputs, or nothing if an
  // input is invalid or does not fit. `name` defaults to the operator's name; if the path is used
  // already, it gets the suffix "_1", "_2", ... The main output has the op's path, other outputs
  // have "path.<output name>".
  std::vector<Tensor> Record(const Operator& kind, absl::Span<const Tensor> inputs,
                             Attributes attributes = {}, absl::string_view name = "");
  // The same for an operator with one output. Returns an invalid handle if the use does not fit.
  Tensor Record1(const Operator& kind, absl::Span<const Tensor> inputs, Attributes attributes = {},
                 absl::string_view name = "");

  // Records an error. Only the first one is kept.
  void Fail(absl::Status status);
  const absl::Status& status() const { return status_; }

  void set_phase(Phase phase) { phase_ = phase; }
  Phase phase() const { return phase_; }

  // Makes every op its own origin, so that Op::origin refers to the ops of this Graph.
  void ResetOrigins();
  // Changes the path of a value. The new path must be free. The value's op keeps its path.
  void Rename(ValueId value, absl::string_view path);
  // Requires that `op` runs after `earlier`.
  void AddOrderEdge(OpId op, OpId earlier);
  // Records that the gradient rule of `forward` recorded `op`.
  void SetGradientOf(OpId op, OpId forward) { ops_[op].gradient_of = forward; }
  void SetBlock(OpId op, BlockId block) { ops_[op].block = block; }
  // Sets the value that `gradient` is the gradient of, unless it is set already.
  void SetGradientOfValue(ValueId gradient, ValueId value) {
    ValueId& of = values_[gradient].gradient_of;
    if (of == kNone) of = value;
  }
  // Sets the target that `gradient` is the complete gradient of, unless it is set already.
  void SetCompleteGradientOf(ValueId gradient, ValueId target) {
    ValueId& of = values_[gradient].complete_gradient_of;
    if (of == kNone) of = target;
  }
  void SetAttribute(OpId op, absl::string_view name, AttributeValue value) {
    ops_[op].attributes.Set(name, std::move(value));
  }
  // Makes room for as many ops and values in total, so that a Graph of many is never in memory
  // twice while it grows.
  void Reserve(size_t ops, size_t values);
  // Frees what finds ops and values by their paths, which is much of a large Graph's memory. From
  // then on none may be found by its path, or added.
  void ForgetPaths();
  // Appends a use of an operator with these outputs, without applying the shape rule: for
  // rewritings of a valid Graph. The paths of outputs must be free; if the op's path is not free,
  // it gets a suffix. The fields gradient_of and complete_gradient_of are not copied, because they
  // hold ids of another Graph.
  OpId AppendOp(Op op, absl::Span<const Value> outputs);
  // Append a copy of another Graph's state, or of its input: `value` is the input's value and
  // `origin` the path of the recorded input. For rewritings.
  ValueId AppendInput(const Value& value, int batch_dim, absl::string_view origin);
  ValueId AppendState(State state);

  // --- Reading ---------------------------------------------------------------------------------

  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  const Table<ValueId, Value>& values() const { return values_; }
  const Table<OpId, Op>& ops() const { return ops_; }
  const std::vector<GraphInput>& inputs() const { return inputs_; }
  const std::vector<State>& states() const { return states_; }
  const std::vector<GraphOutput>& outputs() const { return outputs_; }
  // Paths of the scopes that were marked as blocks, in order.
  const Table<BlockId, std::string>& blocks() const { return blocks_; }

  const Value& value(ValueId id) const { return values_[id]; }
  const Op& op(OpId id) const { return ops_[id]; }
  Tensor tensor(ValueId id) { return Tensor(this, id); }
  // Returns nullptr if there is no state of that path.
  const State* FindState(absl::string_view path) const;
  ValueId FindValue(absl::string_view path) const;  // kNone if there is none
  // Returns whether neither a value nor an op has this path.
  bool PathIsFree(absl::string_view path) const;

  std::vector<TensorType> TypesOf(absl::Span<const ValueId> ids) const;

  // Returns one line for each input, state, operator, updated state and output; see
  // docs/architecture.md.
  std::string ToString() const;
  // Returns 32 hexadecimal digits: XXH3-128 of the text form without its first line. Equal for
  // equal Graphs on every machine.
  std::string Fingerprint() const;
  // Returns the fingerprint of the operators in the scope `block`, with paths relative to it. Equal
  // for blocks that differ only by their index.
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
  Table<ValueId, Value> values_;
  Table<OpId, Op> ops_;
  std::vector<GraphInput> inputs_;
  std::vector<State> states_;
  std::vector<GraphOutput> outputs_;
  Table<BlockId, std::string> blocks_;
  ValuesByPath value_of_path_;
  absl::flat_hash_set<std::string> op_paths_;  // of ops whose path is not also that of a value
  absl::flat_hash_map<std::string, int> state_of_path_;
  absl::flat_hash_map<std::string, int> next_suffix_;
  std::string scope_;
  BlockId block_;  // the current one
  Phase phase_ = Phase::kForward;
  absl::Status status_;
  int64_t state_bytes_ = 0;
  StateLimit state_limit_;
};

// While a Scope exists, everything that is recorded gets a path below `name`. A block is a scope
// that a strategy may treat as one unit (recompute it, gather it). Blocks do not nest.
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
  BlockId outer_block_;
};

// Returns whether `path` is in the scope `scope`: "blocks.1.ln1" is in "blocks.1", "blocks.10" is
// not.
bool InScope(absl::string_view path, absl::string_view scope);

}  // namespace tessera

#endif  // TESSERA_CORE_GRAPH_GRAPH_H_
