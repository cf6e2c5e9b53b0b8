// All ranks run one Program. It holds rules for the numbers that differ between ranks. They are
// evaluated for the mesh coordinates of a rank when the Program is bound to it; neither kernel
// requests nor offsets depend on them.
#ifndef TESSERA_CORE_PROGRAM_RANK_RULES_H_
#define TESSERA_CORE_PROGRAM_RANK_RULES_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/kernels/interface/random_draw.h"
#include "core/layout/flat_group.h"
#include "core/layout/mesh.h"
#include "core/layout/mesh_layout.h"

namespace tessera {

// The part of a global tensor that a value is. First in time: elements [start, start + extent) of
// the global tensor belong to the value's micro-batch or slice. Then over devices: `layout` says
// which of those a rank holds.
struct PartRule {
  Shape global;
  Shape start;
  Shape extent;
  MeshLayout layout;

  // All of a tensor, on every rank of a mesh of so many axes.
  static PartRule All(const Shape& global, int num_axes) {
    return {global, Shape(global.size(), 0), global, MeshLayout(num_axes)};
  }
  // The same elements in time, in another layout over devices.
  PartRule With(MeshLayout other) const { return {global, start, extent, std::move(other)}; }

  // The elements of the global tensor that the rank at `coordinates` holds.
  Box At(const Mesh& mesh, absl::Span<const int> coordinates) const;
  // The shape of a value's buffer, which is the same on all ranks: shorter parts have padding.
  Shape LocalShape(const Mesh& mesh) const;
  // Whether what some rank holds does not lie contiguously in its row-major buffer: a part is short
  // in a dimension that is not the leading one.
  bool Ragged(const Mesh& mesh) const;
  // "data: S(0) of [5, 3]", "[2, 3] at [2, 0] of [5, 3]", "[2, 3] at [2, 0] of [5, 3], data: S(0)"
  std::string ToString(const Mesh& mesh) const;

  friend bool operator==(const PartRule& a, const PartRule& b) {
    return a.global == b.global && a.start == b.start && a.extent == b.extent &&
           a.layout == b.layout;
  }
  template <typename H>
  friend H AbslHashValue(H h, const PartRule& part) {
    return H::combine(std::move(h), part.global, part.start, part.extent, part.layout);
  }
};

// InvalidArgument if the part lies outside of the global tensor, or the layout does not fit it.
absl::Status CheckPart(const PartRule& part, const Mesh& mesh);

// The elements of a member of a flat group that a rank holds: a one-dimensional value in the
// group's buffer, without padding. Groups are compared by address: rules of one group share it.
struct FlatRule {
  std::shared_ptr<const FlatGroup> group;
  std::vector<int> axes;  // of the mesh: the group is split over them, the first one outermost
  int member = 0;

  // The number of the group's part that the rank at `coordinates` holds.
  int PartAt(const Mesh& mesh, absl::Span<const int> coordinates) const;
  // The elements of the member that the rank at `coordinates` holds, counted from the member's
  // first one. `elements` is how many of them the other axes leave this rank, without padding.
  FlatGroup::Range HeldAt(const Mesh& mesh, absl::Span<const int> coordinates,
                          int64_t elements) const {
    return group->Held(member, PartAt(mesh, coordinates), elements);
  }
  // The position of those elements in the group's buffer.
  FlatGroup::Range InPartAt(const Mesh& mesh, absl::Span<const int> coordinates,
                            int64_t elements) const {
    return group->InPart(member, PartAt(mesh, coordinates), elements);
  }
  // The largest number of elements that a rank holds.
  int64_t LocalElements() const;

  friend bool operator==(const FlatRule& a, const FlatRule& b) {
    return a.group == b.group && a.axes == b.axes && a.member == b.member;
  }
  template <typename H>
  friend H AbslHashValue(H h, const FlatRule& flat) {
    return H::combine(std::move(h), flat.group, flat.axes, flat.member);
  }
};

// InvalidArgument if the mesh lacks an axis, one is named twice, the axes have another number of
// ranks than the group has parts, or the group has no such member.
absl::Status CheckFlat(const FlatRule& flat, const Mesh& mesh);

// The random numbers that an instruction draws.
struct DrawRule {
  std::string path;
  PartRule part;  // output 0

  RandomDraw At(const Mesh& mesh, absl::Span<const int> coordinates) const;
  // "blocks.0.dropout", "blocks.0.dropout at [2, 0] of [4, 3]", "... of [4, 3], data: S(0)"
  std::string ToString(const Mesh& mesh) const;
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_RANK_RULES_H_
