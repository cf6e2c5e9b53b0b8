// The axes of a mesh along which a redistribution changes the layout.
#ifndef TESSERA_CORE_LAYOUT_REDISTRIBUTION_MOVING_AXES_H_
#define TESSERA_CORE_LAYOUT_REDISTRIBUTION_MOVING_AXES_H_

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "core/layout/mesh.h"
#include "core/layout/mesh_layout.h"
#include "core/layout/redistribution/redistribution.h"
#include "core/tensor/shape.h"

namespace tessera {

// The number of layouts grows fast with the number of axes. So on meshes of more than four axes of
// more than one rank, a search looks only at those that move: along them the layouts differ, or
// their splits are inside of a split that differs. All other axes keep their layouts in every step.
// Their splits are outside of all splits that move, so a redistribution along the moving axes is
// one of the tensor that the other axes leave, on the mesh of the moving axes.
//
// On such meshes a path through a third layout may be cheaper than the direct one, as it may use
// axes that do not move. On meshes of up to four axes all axes of more than one rank move.
//
// A value type.
class MovingAxes {
 public:
  static constexpr int kMost = 4;  // axes that a search takes

  MovingAxes(const MeshLayout& from, const MeshLayout& to, const Mesh& mesh);

  // In the mesh's order.
  absl::Span<const int> axes() const { return axes_; }
  // Returns whether all axes of more than one rank move, whatever the layouts are.
  bool all_move() const { return all_move_; }
  // Returns the mesh of the moving axes.
  Mesh Submesh(const Mesh& mesh) const;
  // Returns the padded local shape that the axes that do not move leave.
  Shape LocalShape(const Shape& global, const Mesh& mesh) const;
  // Returns `from` or `to` on the mesh of the moving axes.
  MeshLayout Select(const MeshLayout& layout) const;
  // Returns the layout on the full mesh of which `layout` is the selection. Axes of one rank are B.
  MeshLayout Restore(const MeshLayout& layout) const;
  RedistributionStep Restore(const RedistributionStep& step) const;

 private:
  absl::InlinedVector<int, 8> axes_;
  bool all_move_ = false;
  MeshLayout unmoved_;  // moving axes are B
};

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_REDISTRIBUTION_MOVING_AXES_H_
