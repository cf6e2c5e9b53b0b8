// A device mesh: the ranks of a job arranged along named axes.
#ifndef TESSERA_CORE_LAYOUT_MESH_H_
#define TESSERA_CORE_LAYOUT_MESH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tessera {

// The position of a rank along each axis of a mesh.
using MeshCoordinates = absl::InlinedVector<int, 4>;

// A device mesh. Ranks are row-major in their coordinates: the last axis varies fastest. A mesh
// without axes has one rank.
//
// Thread safety: immutable after construction.
class Mesh {
 public:
  struct Axis {
    std::string name;  // lower-case letters, digits and underscores; begins with a letter
    int size = 1;

    friend bool operator==(const Axis& a, const Axis& b) {
      return a.name == b.name && a.size == b.size;
    }
  };

  static constexpr int kMaxAxes = 8;
  static constexpr int kMaxRanks = 1 << 20;

  Mesh() = default;
  // InvalidArgument if a name is malformed or used twice, a size is below 1, or there are too many
  // axes or ranks.
  static absl::StatusOr<Mesh> Create(std::vector<Axis> axes);
  // Creates the mesh of a job of `ranks` ranks. One axis may have size 0, which is replaced so that
  // the product of the sizes is `ranks`. Also InvalidArgument if the product cannot be `ranks`.
  static absl::StatusOr<Mesh> ForRanks(std::vector<Axis> axes, int ranks);

  int num_axes() const { return static_cast<int>(axes_.size()); }
  const Axis& axis(int i) const { return axes_[i]; }
  absl::Span<const Axis> axes() const { return axes_; }
  // The number of ranks.
  int size() const { return size_; }

  // Returns the number of the axis; InvalidArgument if there is none of that name.
  absl::StatusOr<int> FindAxis(absl::string_view name) const;

  MeshCoordinates CoordinatesOf(int rank) const;
  int RankOf(absl::Span<const int> coordinates) const;

  // Returns the groups of ranks whose coordinates differ along `axes` only. Groups are in the order
  // of their first ranks, and each lists its ranks in ascending order.
  std::vector<std::vector<int>> GroupsAlong(absl::Span<const int> axes) const;

  // Returns text like "data: 2, model: 4"; "" without axes.
  std::string ToString() const;

  friend bool operator==(const Mesh& a, const Mesh& b) { return a.axes_ == b.axes_; }
  friend bool operator!=(const Mesh& a, const Mesh& b) { return !(a == b); }

 private:
  std::vector<Axis> axes_;
  int size_ = 1;
};

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_MESH_H_
