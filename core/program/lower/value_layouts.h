// The layouts in which the values of a Graph are made and read on a mesh.
#ifndef TESSERA_CORE_PROGRAM_LOWER_VALUE_LAYOUTS_H_
#define TESSERA_CORE_PROGRAM_LOWER_VALUE_LAYOUTS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/ids/id.h"
#include "core/ids/table.h"
#include "core/layout/mesh.h"
#include "core/layout/mesh_layout.h"
#include "core/plan/layouts/graph_layouts.h"
#include "core/plan/layouts/layout_decisions.h"
#include "core/program/lower/flat_storage.h"

namespace tessera {

// How ranks hold a value: in a layout, or (if `flat`) as their elements of a member of a flat
// group. In that case `layout` is that of the member before the group is split.
struct ValueLayout {
  MeshLayout layout;
  bool flat = false;

  friend bool operator==(const ValueLayout& a, const ValueLayout& b) {
    return a.flat == b.flat && a.layout == b.layout;
  }
  template <typename H>
  friend H AbslHashValue(H h, const ValueLayout& layout) {
    return H::combine(std::move(h), layout.layout, layout.flat);
  }
};

using LayoutId = Id<ValueLayout>;

// The layouts of all values of a Graph. Each distinct layout has an id. A mesh axis with one
// rank is B in all of them. Thread safety: const methods may run concurrently.
class ValueLayouts {
 public:
  static constexpr LayoutId kBroadcast{0};

  ValueLayouts(const Graph& graph, const Mesh& mesh, const GraphLayouts& layouts,
               const LayoutDecisions& decisions, const FlatStorage& storage);

  const MeshLayout& layout(LayoutId layout) const { return layouts_[layout].layout; }
  bool flat(LayoutId layout) const { return layouts_[layout].flat; }
  // Returns the id of a layout, which is added if it is new.
  LayoutId FindOrAdd(MeshLayout layout, bool flat = false);

  // Returns the layout in which a value is made; for an input or a state's input value, the layout
  // in which it is stored.
  LayoutId MadeIn(ValueId value) const { return made_[value]; }
  // Returns the layouts in which an op reads its inputs.
  absl::Span<const LayoutId> ReadIn(OpId op) const {
    return absl::MakeConstSpan(read_).subspan(first_read_[op],
                                              first_read_[op + 1] - first_read_[op]);
  }
  // Returns the layout in which state i is stored from step to step.
  LayoutId StoredIn(size_t i) const { return stored_[i]; }

  // Returns the position of a flat value in its group. Flat values are states, gradients of
  // parameters, and values that are computed from them element by element. nullptr for any other
  // value.
  const FlatPosition* PositionOf(ValueId value) const {
    return positions_.empty() ? nullptr : positions_[value];
  }

  // Returns the padded local shape of a value in a layout.
  Shape LocalShapeOf(ValueId value, LayoutId layout) const;

 private:
  void ReadStores(const GraphLayouts& layouts, const LayoutDecisions& decisions);
  void FindPositions(const GraphLayouts& layouts);
  void ReadUses(const GraphLayouts& layouts);
  // Returns the id of the layout of an operand; `layout_of` gives it for each axis of a use.
  template <typename LayoutOf>
  LayoutId FindOrAddOperand(ValueId value, absl::Span<const AxisUse> uses,
                            const LayoutOf& layout_of);
  // Returns the id of the layout of an operand that is not flat, and that is `used` along one axis
  // and B along the others.
  LayoutId FindOrAddAlong(int axis, const AxisLayout& used);
  // Returns whether a use reads only the elements of the value's flat group that this rank holds.
  bool UsedFlat(ValueId value, absl::Span<const AxisUse> uses) const;

  const Graph& graph_;
  const Mesh mesh_;
  const FlatStorage& storage_;
  Table<LayoutId, ValueLayout> layouts_;
  absl::flat_hash_map<ValueLayout, LayoutId> ids_;
  // By axis: layouts of operands that are not flat, and that are B along all other axes.
  std::vector<std::vector<std::pair<AxisLayout, LayoutId>>> along_one_axis_;
  Table<ValueId, LayoutId> made_;
  Table<ValueId, const FlatPosition*> positions_;  // empty without flat groups
  std::vector<LayoutId> stored_;                   // by state
  std::vector<LayoutId> read_;                     // by op and input
  Table<OpId, size_t> first_read_;                 // index in read_ of its first input
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_LOWER_VALUE_LAYOUTS_H_
