// All ranks run one Program. Numbers that differ between ranks are stored in it as rules. A rule is
// evaluated for the mesh coordinates of a rank when the Program is bound to that rank; neither
// kernel requests nor offsets depend on the result.
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

// The part of a global tensor that a value holds. It is split in time first: elements [start, start
// + extent) of the global tensor belong to the value's micro-batch or slice. These are then split
// over devices as `layout` says.
struct PartRule {
  Shape global;
  Shape start;
  Shape extent;
  MeshLayout layout;

  // Returns the rule for all of a tensor, on every rank of a mesh of `num_axes` axes.
  static PartRule All(const Shape& global, int num_axes) {
    return {global, Shape(global.size(), 0), global, MeshLayout(num_axes)};
  }
  // Returns the rule for the same elements in time, in another layout over devices.
  PartRule With(MeshLayout other) const { return {global, start, extent, std::move(other)}; }

  // Returns the elements of the global tensor that the rank at `coordinates` holds.
  Box At(const Mesh& mesh, absl::Span<const int> coordinates) const;
  // Returns the shape of a value's buffer. It is the same on all ranks; shorter parts are padded.
  Shape LocalShape(const Mesh& mesh) const;
  // Returns whether some rank's part is not contiguous in its row-major buffer, because it is short
  // in a dimension that is not the leading one.
  bool Ragged(const Mesh& mesh) const;
  // Returns text like "data: S(0) of [5, 3]", "[2, 3] at [2, 0] of [5, 3]" or "[2, 3] at [2, 0] of
  // [5, 3], data: S(0)".
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

// Returns whether each rank holds the same elements by both rules, and the same axes hold partial
// values. The rules may differ in their layouts (HoldSameElements in core/layout/mesh_layout.h).
bool HoldSameElements(const PartRule& a, const PartRule& b, const Mesh& mesh);

// Returns whether each rank's elements by rule `inner` are among its elements by rule `outer`, and
// the same axes hold partial values.
bool HoldsWithin(const PartRule& outer, const PartRule& inner, const Mesh& mesh);

// Returns InvalidArgument if the part is not inside the global tensor, or the layout does not fit
// it.
absl::Status CheckPart(const PartRule& part, const Mesh& mesh);

// The elements of a member of a flat group that a rank holds: a one-dimensional value in the
// group's buffer, without padding. Groups are compared by address: rules of one group share one
// object.
struct FlatRule {
  std::shared_ptr<const FlatGroup> group;
  std::vector<int> axes;  // mesh axes over which the group is split, the outermost first
  int member = 0;

  // Returns the index of the group's part that the rank at `coordinates` holds.
  int PartAt(const Mesh& mesh, absl::Span<const int> coordinates) const;
  // Returns the range of the member's elements that the rank at `coordinates` holds, counted from
  // the member's first element on this rank. `elements` is the number of the member's elements on
  // this rank before the group is split, without padding.
  FlatGroup::Range HeldAt(const Mesh& mesh, absl::Span<const int> coordinates,
                          int64_t elements) const {
    return group->Held(member, PartAt(mesh, coordinates), elements);
  }
  // Returns the position of those elements in the group's buffer.
  FlatGroup::Range InPartAt(const Mesh& mesh, absl::Span<const int> coordinates,
                            int64_t elements) const {
    return group->InPart(member, PartAt(mesh, coordinates), elements);
  }
  // Returns the largest number of elements that any rank holds.
  int64_t LocalElements() const;

  friend bool operator==(const FlatRule& a, const FlatRule& b) {
    return a.group == b.group && a.axes == b.axes && a.member == b.member;
  }
  template <typename H>
  friend H AbslHashValue(H h, const FlatRule& flat) {
    return H::combine(std::move(h), flat.group, flat.axes, flat.member);
  }
};

// Returns InvalidArgument if the mesh lacks an axis, an axis is named twice, the number of ranks on
// the axes is not the group's number of parts, or the group has no such member.
absl::Status CheckFlat(const FlatRule& flat, const Mesh& mesh);

// The random numbers that an instruction draws.
struct DrawRule {
  std::string path;
  PartRule part;  // the part that output 0 holds

  RandomDraw At(const Mesh& mesh, absl::Span<const int> coordinates) const;
  // Returns text like "blocks.0.dropout", "blocks.0.dropout at [2, 0] of [4, 3]" or "... of [4, 3],
  // data: S(0)".
  std::string ToString(const Mesh& mesh) const;
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_RANK_RULES_H_
