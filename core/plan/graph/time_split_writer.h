// Writes a Graph in which values are split in time: ops run once for each part of an axis, one part
// after another. Micro-batches and slices of parameters are such splits, and share this code.
#ifndef TESSERA_CORE_PLAN_GRAPH_TIME_SPLIT_WRITER_H_
#define TESSERA_CORE_PLAN_GRAPH_TIME_SPLIT_WRITER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/ids/table.h"
#include "core/layout/layout.h"

namespace tessera {

// Parts that are consecutive in time: the micro-batches of a step, or the slices of a parameter.
struct TimeAxis {
  // The suffix of the paths of an op and its outputs in part k: "@1", "[64:128]".
  std::vector<std::string> suffixes;
  // The suffix of the path of the sum of parts 0 to k: "@0..1", "[0:128]".
  std::vector<std::string> sum_suffixes;

  int64_t parts() const { return static_cast<int64_t>(suffixes.size()); }
};

// Says how the values of a Graph are split. B: there is one value, the full one. S: each part of
// the axis has a part of the value; the parts are consecutive along the dimension, and the last
// ones may be shorter. P: each part has a value of the full shape, and the full value is their sum
// (or maximum, or log-sum-exp).
struct TimeSplit {
  std::vector<TimeAxis> axes;
  Table<ValueId, AxisLayout> values;
  Table<ValueId, int> axis;       // the axis along which it is split or partial
  Table<ValueId, bool> gathered;  // the full value is made once all parts are there
};

struct TimeSplitOptions {
  absl::string_view rewriting;  // "slices": used in errors, and in paths of ops that split a value
  // Whether the path of an op that the rewriting adds ends with the op's kind, so that it differs
  // from the path of the op's output.
  bool own_paths = false;
  // Whether the backward pass gets separate views of a full value. If a kernel needs a copy of a
  // view, the copy of the forward pass is then not kept for the backward pass.
  bool views_per_phase = false;
  // Marks `op` as part `part` of `old`, an op of the source Graph.
  std::function<void(const Op& old, int64_t part, Op& op)> mark;
};

// Writes the split Graph. The Graph that is read is the source; its ids are called `old`. Not
// thread-safe. The constructor's `graph` and `split` must outlive the writer.
class TimeSplitWriter {
 public:
  TimeSplitWriter(const Graph& graph, const TimeSplit& split, TimeSplitOptions options);

  Graph& out() { return out_; }
  // By old value: the full value in the new Graph; kNone until it is written.
  Table<ValueId, ValueId>& full() { return full_; }
  // Appends `part`, a value of the new Graph, to the parts of an input or a state.
  void AddPart(ValueId old, ValueId part) { local_[old].push_back(part); }
  // Returns the number of parts of an op that were written so far.
  int64_t PartsWritten(OpId old) const { return static_cast<int64_t>(ops_[old].size()); }

  // Returns the full value; kNone if it is not written yet. For an input or a state that was added
  // in parts, the first call appends a concat of the parts.
  ValueId FindOrConcatFull(ValueId old);
  // Returns a description of part `part` of a value that has `layout` along the axis, to be given
  // to Graph::AppendOp: an activation or a gradient, with the part's path, type and region.
  Value DescribePart(ValueId old, const AxisLayout& layout, int axis, int64_t part);
  // Returns the value that an op of this phase reads in part `part` if it wants the layout
  // `wanted`: the full value, its part, or a part of the full value, for which the first call
  // appends a split.
  ValueId FindOrAppendInput(ValueId old, const AxisLayout& wanted, int axis, int64_t part,
                            Phase phase);

  // Writes an op that runs once, on full values.
  void WriteFull(OpId old);
  // Writes part `part` of an op, which reads its inputs in the layouts `wanted`. Parts must be
  // written in order. After the last one, the outputs that must be gathered are gathered.
  absl::Status WritePart(OpId old, absl::Span<const AxisLayout> wanted, int axis, int64_t part);

  // Sets the values and ops of which others are the gradients. Must be called last, because a
  // gradient may be written before the value that it is the gradient of.
  void LinkGradients();

 private:
  static constexpr int64_t kAll = -1;
  // A value or an op that repeats an old one, in a part of an axis or (kAll) once: the new id, and
  // the old one.
  template <typename Id>
  struct Copy {
    Id id, old;
    int axis;
    int64_t part;
  };
  // Identifies a split of a full value.
  struct SplitKey {
    ValueId old;
    int axis, dim;
    int64_t unit;
    bool backward;
    template <typename H>
    friend H AbslHashValue(H h, const SplitKey& key) {
      return H::combine(std::move(h), key.old, key.axis, key.dim, key.unit, key.backward);
    }
    friend bool operator==(const SplitKey& a, const SplitKey& b) {
      return a.old == b.old && a.axis == b.axis && a.dim == b.dim && a.unit == b.unit &&
             a.backward == b.backward;
    }
  };

  bool HasParts(ValueId old, int axis) const {
    return !local_[old].empty() && split_.axis[old] == axis;
  }
  // Returns the elements of an old value that a part has in a layout, as a region of that value.
  Region RegionOf(ValueId old, const AxisLayout& layout, int axis, int64_t part,
                  Shape* extent) const;
  // Returns the copy of `old` in a part of an axis or (kAll) the only one; kNone if there is none.
  ValueId CopyIn(int axis, int64_t part, ValueId old) const;
  // Returns the op of the new Graph of which `copy` computes the gradient: the only copy of the old
  // forward op, or the copy in the same part; kNone if there is none.
  OpId ForwardCopyOf(const Copy<OpId>& copy) const;
  // Records `id` and its outputs as copies of `old` and its outputs, for LinkGradients.
  void RecordCopies(OpId id, OpId old, int axis, int64_t part);

  // Returns `path`, with the suffix _1, _2, ... if it is taken.
  std::string FreePath(std::string path) const;
  // Returns the block of the op that computes a value of the source Graph.
  BlockId BlockOf(const Value& value) const;
  // Appends an op of one output that the source Graph does not have, and returns the output. The
  // output has the path `path` and the type, role and region of `like`; the op belongs to the block
  // of the op that computes `like`, and has the path of the output (followed by its kind if
  // options_.own_paths).
  ValueId AppendOpLike(absl::string_view kind, const Value& like, std::string path,
                       std::vector<ValueId> inputs, Attributes attributes, Phase phase);
  // Returns part `part` of a full value, which `layout` splits. The first call for a layout appends
  // the op that splits the value.
  ValueId FindOrAppendSplit(ValueId old, const AxisLayout& layout, int axis, int64_t part,
                            Phase phase);
  // Adds the part that was written last to what becomes the full value: appends a concat after the
  // last part if the value is split, and an addition (or another reduction) if it is partial.
  void Gather(ValueId old, int axis, int64_t part, Phase phase);
  // Adds `term`, of 16 bits, to the sum of the parts of `old`, which is kept in f32. After the last
  // term, the full value is the sum rounded to the dtype of `like`.
  void AccumulateInF32(ValueId old, ValueId term, const Value& like, const std::string& path,
                       bool last, Phase phase);
  // Appends the reduction of `sum` and `term`, and returns its result, at `path`.
  ValueId Accumulate(AxisLayout::Reduction reduction, const Value& like, const std::string& path,
                     ValueId sum, ValueId term, Phase phase);
  // Checks that an op's shape rule gives the output types that its signature gave.
  absl::Status CheckTypes(const Op& op, absl::Span<const TensorType> outputs) const;

  const Graph& graph_;
  const TimeSplit& split_;
  const TimeSplitOptions options_;
  Graph out_;
  Table<ValueId, ValueId> full_;                    // by old value; kNone until it is written
  absl::flat_hash_map<ValueId, ValueId> f32_sums_;  // by old 16-bit value: its sum so far
  Table<ValueId, std::vector<ValueId>> local_;      // by old value: its parts so far
  Table<OpId, std::vector<OpId>> ops_;              // by old op: its parts so far, or the only one
  Table<OpId, int> op_axis_;                        // by old op; kNone: it runs once
  absl::flat_hash_map<SplitKey, std::vector<ValueId>> splits_;  // the outputs of appended splits
  absl::flat_hash_map<std::pair<Shape, Shape>, SharedRegion> regions_;  // by start and global
  std::vector<Copy<ValueId>> copied_values_;
  std::vector<Copy<OpId>> copied_ops_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_GRAPH_TIME_SPLIT_WRITER_H_
