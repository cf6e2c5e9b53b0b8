// The values of a Graph during lowering. Finds each value in the layout in which it is read, or
// adds the instructions that make it.
#ifndef TESSERA_CORE_PROGRAM_LOWER_LOWERED_VALUES_H_
#define TESSERA_CORE_PROGRAM_LOWER_LOWERED_VALUES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/ids/table.h"
#include "core/layout/redistribution/redistribution.h"
#include "core/program/kernels/kernel_chooser.h"
#include "core/program/lower/flat_storage.h"
#include "core/program/lower/lower_flat.h"
#include "core/program/lower/lower_redistribution.h"
#include "core/program/lower/program_builder.h"
#include "core/program/lower/value_layouts.h"

namespace tessera {

// The part of an op that a rank computes.
struct LocalOp {
  std::vector<TensorType> inputs, outputs;  // padded local types
  Attributes attributes;

  OpTypes types() const { return {inputs, outputs, attributes}; }
};

// The lowered values of a Graph. Not thread-safe. Every argument of the constructor must outlive
// it.
class LoweredValues {
 public:
  // `needed[op]` says whether an op is lowered.
  LoweredValues(const Graph& graph, ValueLayouts layouts, const FlatStorage& storage,
                const Table<OpId, bool>& needed, RedistributionFinder& finder,
                const KernelCatalogue& catalogue, ProgramBuilder* builder);

  const ValueLayouts& layouts() const { return layouts_; }
  // Returns the value in the layout in which it is made, or kNone if it was not added yet.
  ProgramValueId AsMade(ValueId id) const { return made_[id]; }

  // Begins, or continues, a period: ops that are lowered after this call belong to this phase and
  // micro-batch.
  void BeginPeriod(Phase phase, int32_t micro_batch);
  // Adds an input, or the input value of a state.
  void AddInput(ValueId id);
  // Adds the value that an op writes.
  ProgramValueId AddOutput(ValueId id);
  // Adds the outputs of an op whose outputs are views.
  absl::Status AddViews(OpId id);
  // Returns whether an op works on this rank's elements of a flat group: it casts one of the
  // group's parameters, or accumulates gradients over micro-batches.
  bool IsOnGroup(OpId id) const;
  // Adds the output of an op for which IsOnGroup() holds. It is computed once for all members of
  // the group. If the group's values do not exist yet, it is added as soon as they do.
  absl::Status AddOnGroup(OpId id);
  // Must be called when an op's output has been written. If the output is partial, brings it at
  // once to the layouts in which it is read complete, so that the reduction runs beside what
  // follows. After the last gradient of a flat group, reduces the group; after the last update,
  // gathers it.
  absl::Status CompleteOutput(ValueId id);

  // Returns a value in a layout. If it is not in this layout yet, emits its redistribution from the
  // layout that is cheapest to start from, among those in which the value exists.
  absl::StatusOr<ProgramValueId> BringToLayout(ValueId id, LayoutId layout);
  // Returns the values that an op reads, each brought to the layout in which the op reads it.
  absl::StatusOr<Operands> InputsOf(OpId id);
  // Returns the part of an op that a rank computes: local types, and the attributes for them.
  LocalOp Localized(OpId id) const;
  // Returns whether there are values in the layouts in which the op makes its outputs: along two
  // axes, a value can only be partial in the same way. InvalidArgument names the op.
  absl::Status CheckOutputs(OpId id) const;

 private:
  // A value in another layout than the one in which it is made.
  struct Arrangement {
    LayoutId layout;
    int period;
    ProgramValueId value;
  };
  // The gradients of a flat group in one micro-batch, or in the step.
  struct Gradients {
    std::vector<ValueId> members;  // kNone: not read
    int missing = 0;               // the number of members that were not written yet
  };
  // The gradients that are reduced together: those of a flat group in a micro-batch.
  using GradientSet = std::pair<int, int32_t>;
  // Returns the set with which a gradient is reduced. A gradient that is made once, after all
  // micro-batches, is reduced with those of the last micro-batch.
  GradientSet GradientSetOf(ValueId gradient) const;
  // Returns whether a value is a gradient that is not made as a member of its flat group. If it is
  // read as one, it is reduced with the gradients of the other members.
  bool IsReducedInGroup(ValueId id) const;

  // Sets reads_ and what the lowering of flat groups needs to know about all readers in advance.
  void ListReads(const Table<OpId, bool>& needed);
  // Sets the value in the layout in which it is made, and marks it if it is a result.
  void SetMade(ValueId id, ProgramValueId value);
  // Adds a value in the layout in which it is made: a tensor, or a member of a flat group's state
  // (its updated state if `updated`).
  void AddAsMade(ValueId id, bool updated);
  TensorType LocalType(ValueId id, LayoutId layout) const;
  // Returns the elements of a value that all ranks together hold: all of it, or, for an input or a
  // slice, a part of the recorded tensor.
  PartRule TensorOf(ValueId id) const;
  PartId PartOf(ValueId id, LayoutId layout);
  // Returns the properties of a value as a member of a flat group, in `layout`.
  FlatLowering::Member DescribeMember(ValueId id, LayoutId layout);

  bool IsParameter(ValueId id) const;
  // Returns whether the value is a parameter (or a cast of one), or a view of a parameter. Such a
  // value may exist once for each period.
  bool Repeats(ValueId id) const { return IsParameter(id) || repeated_views_.contains(id); }
  // Returns whether a group is gathered once and kept for the step.
  bool IsGatheredOnce(const FlatPosition* position) const;
  // Returns the period for which a value is brought to another layout.
  int PeriodOf(ValueId id) const;
  // Returns the stream on which a value is redistributed.
  absl::string_view StreamOf(ValueId id) const;
  // Returns whether a value that is partial over some axis in `from` is not in `to`.
  bool Completes(LayoutId from, LayoutId to) const;

  // Returns the value in its own layout, for readers of the current period.
  absl::StatusOr<ProgramValueId> BringToMadeLayout(ValueId id);
  // Returns the outputs of a view op as views of `base`, added once for each base.
  absl::StatusOr<std::vector<ProgramValueId>> FindOrAddViews(OpId id, ProgramValueId base);
  // Emits what brings a value to a layout in which it does not exist yet.
  absl::StatusOr<ProgramValueId> EmitRedistribution(ValueId id, LayoutId layout);
  // If an op updates a member of a flat group, gathers what later ops read of the group's previous
  // states. An update of one member may overwrite the array of all.
  absl::Status GatherBeforeUpdate(OpId id);
  // Emits a value as a member of its flat group, in the flat layout `layout`.
  absl::StatusOr<ProgramValueId> EmitAsFlat(ValueId id, LayoutId layout);
  // Returns the error for a value that cannot be brought to the layout in which it is read.
  absl::Status Unreadable(ValueId id, const absl::Status& status) const;
  // A value as a member of a flat group.
  struct FlatValue {
    LayoutId layout;
    ProgramValueId value;
  };
  // Sums a member of a flat group over axes over which all of them are partial.
  absl::StatusOr<ProgramValueId> SumFlat(ValueId id, const FlatValue& from, LayoutId layout);
  // Returns whether a value exists in a layout in which it is a member of a flat group.
  bool ExistsIn(ValueId id, LayoutId layout);
  // Reduces the gradients of a group, and lowers the ops that waited for the results.
  absl::Status ReduceGradients(int group, const Gradients& reduced_now);

  // A flat group whose parameters are stored in full, if the Graph updates it.
  struct FullParameters {
    // By member: the parameter's input value (kNone: not in the Graph) and its updated value
    // (kNone: not updated).
    std::vector<ValueId> inputs, updated;
    int missing = 0;           // the number of members whose update was not lowered yet
    OpId last_reader = kNone;  // of an input value
  };
  // Sets full_parameters_.
  void ListFullParameters(const Table<OpId, bool>& needed);
  // Must be called when a value has been written. If it was the last parameter of its group to be
  // updated on the elements that a rank holds, gathers all of them.
  absl::Status CompleteUpdate(ValueId id);
  // Gathers the updated parameters of a group, once all of them are updated.
  absl::Status GatherUpdated(int group, const FullParameters& parameters);
  // Copies the gathered parameters of a group into their states, if no op from `now` on reads the
  // previous ones. (Otherwise they are copied at the end of the step.)
  absl::Status StoreGathered(int group, OpId now);

  const Graph& graph_;
  ValueLayouts layouts_;
  const FlatStorage& storage_;
  const KernelCatalogue& catalogue_;
  ProgramBuilder& builder_;
  Redistributor redistributor_;
  FlatLowering flat_;
  // A period is a phase of one micro-batch. A parameter is brought to a layout once in each period,
  // unless its group is gathered once for the step. `period_` is the current one.
  absl::flat_hash_map<std::pair<Phase, int32_t>, int> periods_;
  int period_ = 0;
  absl::flat_hash_set<ValueId> results_;  // outputs, updated states
  absl::flat_hash_set<ValueId> updated_;  // updated values of states
  Table<ValueId, bool> is_part_;          // part of a recorded tensor in time
  Table<ValueId, ProgramValueId> made_;
  Table<ValueId, std::vector<LayoutId>> reads_;  // the other layouts in which it is read
  absl::flat_hash_map<ValueId, std::vector<Arrangement>> arranged_;
  absl::flat_hash_map<ValueId, ProgramValueId> repeated_views_;  // the value that it views
  absl::flat_hash_map<std::pair<OpId, ProgramValueId>, std::vector<ProgramValueId>>
      views_;  // by op and base
  absl::flat_hash_map<GradientSet, Gradients> gradients_;
  // By group: the states that the update reads in full, and the layouts in which it reads them.
  absl::flat_hash_map<int, std::vector<std::pair<ValueId, LayoutId>>> gathered_in_update_;
  absl::flat_hash_map<int, FullParameters> full_parameters_;  // by group
  std::vector<int> gathered_;              // groups of these that were gathered, and not copied yet
  std::vector<int32_t> last_micro_batch_;  // by group; kNone: its gradients are not reduced
  absl::flat_hash_map<int, std::vector<OpId>> waiting_;  // by group: ops for AddOnGroup()
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_LOWER_LOWERED_VALUES_H_
