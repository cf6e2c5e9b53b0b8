// The values of a Graph as they are lowered: each is found, or made, in the layout in which it is
// read.
#ifndef TESSERA_CORE_PROGRAM_LOWERED_VALUES_H_
#define TESSERA_CORE_PROGRAM_LOWERED_VALUES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/layout/redistribution.h"
#include "core/program/flat_storage.h"
#include "core/program/kernel_chooser.h"
#include "core/program/lower_flat.h"
#include "core/program/lower_redistribution.h"
#include "core/program/program_builder.h"
#include "core/program/value_layouts.h"

namespace tessera {

// The part of an op that a rank computes.
struct LocalOp {
  std::vector<TensorType> inputs, outputs;  // with padding
  Attributes attributes;

  OpTypes types() const { return {inputs, outputs, attributes}; }
};

// Not thread-safe. Everything that is passed must outlive it.
class LoweredValues {
 public:
  // `needed` says by op whether it is lowered. The finder may be null if there is no mesh.
  LoweredValues(const Graph& graph, ValueLayouts layouts, const FlatStorage& storage,
                const std::vector<bool>& needed, RedistributionFinder* finder,
                const KernelCatalogue& catalogue, ProgramBuilder* builder);

  const ValueLayouts& layouts() const { return layouts_; }
  // The value in the layout in which it is made; kNone if it is not there yet.
  int32_t Made(ValueId id) const { return made_[id]; }

  // Ops that are lowered from now on belong to this phase of a micro-batch.
  void Begin(Phase phase, int32_t micro_batch);
  // Adds the input value of a state, or an input.
  void AddInput(ValueId id);
  // Adds what an op writes.
  int32_t AddOutput(ValueId id);
  // Adds the outputs of an op that is a view.
  absl::Status AddViews(OpId id);
  // Whether an op casts a parameter of a flat group, or adds up the gradients of micro-batches on
  // the elements of a flat group that a rank holds.
  bool IsOnGroup(OpId id) const;
  // Adds the output of such an op, which is computed once for all members of the group; if the
  // group is not there yet, as soon as it is.
  absl::Status AddOnGroup(OpId id);
  // Call this when an op's output has been written. If the output is partial, redistributes it to
  // the layouts in which it is read.
  absl::Status Complete(ValueId id);

  // Returns a value in the layout of this number. It is redistributed from whichever layout it
  // already has and from which that costs least.
  absl::StatusOr<int32_t> In(ValueId id, int32_t layout);
  // Returns what an op reads.
  absl::StatusOr<std::vector<int32_t>> InputsOf(OpId id);
  LocalOp Localized(OpId id) const;

 private:
  // A value in another layout than the one in which it is made.
  struct Arrangement {
    int32_t layout;
    int period;
    int32_t value;
  };
  // A flat group's gradients, of a micro-batch or the step.
  struct Gradients {
    std::vector<ValueId> members;  // kNone: not read
    int missing = 0;               // that were not written yet
  };
  using GroupPart = std::pair<int, int32_t>;  // group, micro-batch
  // Returns the gradients together with which a gradient is reduced. A gradient that is made once,
  // after all micro-batches, is reduced with those of the last micro-batch.
  GroupPart GradientsWith(ValueId gradient) const;

  void ListReads(const std::vector<bool>& needed);
  void Set(ValueId id, int32_t value);
  TensorType LocalType(ValueId id, int32_t layout) const;
  // The elements of a value that all ranks together hold: all of it, or, if it is an input or a
  // slice, a part of the recorded tensor.
  PartRule TensorOf(ValueId id) const;
  int32_t PartOf(ValueId id, int32_t layout);
  FlatLowering::Member FlatMember(ValueId id);

  bool IsParameter(ValueId id) const;
  // Whether the value is a parameter (or one in fewer bits), or a view of one, which may be there
  // once for each period.
  bool Repeats(ValueId id) const { return IsParameter(id) || repeated_views_.contains(id); }
  // Whether a group that has been gathered is kept for the step.
  bool KeepsAll(const FlatPosition* position) const;
  // The period for which a value is brought to another layout.
  int PeriodOf(ValueId id) const;
  absl::string_view StreamOf(ValueId id) const;
  bool Completes(int32_t from, int32_t to) const;

  // The value in its own layout, for readers of the present period.
  absl::StatusOr<int32_t> MadeNow(ValueId id);
  absl::StatusOr<std::vector<int32_t>> View(OpId id, int32_t base);
  absl::StatusOr<int32_t> Redistributed(ValueId id, int32_t layout);
  // A value as a member of a flat group.
  struct FlatValue {
    int32_t layout;
    int32_t value;
  };
  // Sums a member of a flat group over axes over which all of them are partial.
  absl::StatusOr<int32_t> SumFlat(ValueId id, const FlatValue& from, int32_t layout);
  // Whether a value is there in a layout in which it is a member of a flat group.
  bool HasFlat(ValueId id, int32_t layout);
  absl::Status ReduceGradients(int group, const Gradients& reduced_now);

  const Graph& graph_;
  ValueLayouts layouts_;
  const FlatStorage& storage_;
  const KernelCatalogue& catalogue_;
  ProgramBuilder& builder_;
  Redistributor redistributor_;
  FlatLowering flat_;
  // By phase and micro-batch; and the present one. A parameter is brought to a layout once in each,
  // unless its group is gathered once.
  absl::flat_hash_map<std::pair<Phase, int32_t>, int> periods_;
  int period_ = 0;
  absl::flat_hash_set<ValueId> results_;     // outputs, updated states
  absl::flat_hash_set<ValueId> updated_;     // values of states
  std::vector<bool> is_part_;                // by ValueId: of a recorded tensor, in time
  std::vector<int32_t> made_;                // by ValueId
  std::vector<std::vector<int32_t>> reads_;  // by ValueId: other layouts
  absl::flat_hash_map<ValueId, std::vector<Arrangement>> arranged_;
  absl::flat_hash_map<ValueId, int32_t> repeated_views_;  // the value that it views
  absl::flat_hash_map<std::pair<OpId, int32_t>, std::vector<int32_t>> views_;  // by op and base
  absl::flat_hash_map<GroupPart, Gradients> gradients_;
  std::vector<int32_t> last_micro_batch_;  // by group, of those that are reduced; kNone: none
  absl::flat_hash_map<int, std::vector<OpId>> waiting_;  // by group: AddOnGroup
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_LOWERED_VALUES_H_
