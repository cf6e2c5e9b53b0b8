// The layouts in which the values of a Graph are made and read on a mesh.
#ifndef TESSERA_CORE_PROGRAM_VALUE_LAYOUTS_H_
#define TESSERA_CORE_PROGRAM_VALUE_LAYOUTS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/layout/mesh.h"
#include "core/layout/mesh_layout.h"
#include "core/plan/graph_layouts.h"
#include "core/plan/layout_decisions.h"

namespace tessera {

// Layouts have numbers; equal ones have one. An axis of one rank is B in all of them.
// Thread safety: immutable after construction.
class ValueLayouts {
 public:
  static constexpr int32_t kBroadcast = 0;

  // All values are B, on one rank without a mesh.
  explicit ValueLayouts(const Graph& graph);
  ValueLayouts(const Graph& graph, const Mesh& mesh, const GraphLayouts& layouts,
               const LayoutDecisions& decisions);

  const MeshLayout& layout(int32_t number) const { return layouts_[number]; }
  // In which the value is made; an input or a state's input value, in which it is stored.
  int32_t Made(ValueId value) const { return made_[value]; }
  // In which an op reads its inputs.
  absl::Span<const int32_t> Read(OpId op) const {
    return absl::MakeConstSpan(read_).subspan(first_read_[op],
                                              first_read_[op + 1] - first_read_[op]);
  }
  // In which state i is kept from step to step.
  int32_t Stored(size_t i) const { return stored_[i]; }

  // The type of the part that a rank holds, with padding.
  TensorType LocalType(const TensorType& global, int32_t layout) const;

 private:
  void ReadStores(const GraphLayouts& layouts, const LayoutDecisions& decisions);
  void ReadUses(const GraphLayouts& layouts);
  int32_t Enter(MeshLayout layout);
  // The number of the layout of an operand that `layout_of` gives along each axis of a use.
  template <typename LayoutOf>
  int32_t EnterOperand(absl::Span<const AxisUse> uses, const LayoutOf& layout_of);

  const Graph& graph_;
  const Mesh mesh_;
  std::vector<MeshLayout> layouts_;
  absl::flat_hash_map<MeshLayout, int32_t> numbers_;
  std::vector<int32_t> made_;        // by value
  std::vector<int32_t> stored_;      // by state
  std::vector<int32_t> read_;        // by op and input
  std::vector<int32_t> first_read_;  // by op: of its inputs in read_
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_VALUE_LAYOUTS_H_
