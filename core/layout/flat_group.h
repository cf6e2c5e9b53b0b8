// Flat storage of a group of tensors. Fully sharded training stores the parameters of a unit in
// this way, to gather and reduce them together.
#ifndef TESSERA_CORE_LAYOUT_FLAT_GROUP_H_
#define TESSERA_CORE_LAYOUT_FLAT_GROUP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/tensor/shape.h"

namespace tessera {

// A flat group: the local elements of its members are concatenated in one array, which is split
// into equal parts over one axis; coordinate c holds part c. Each member is row-major in its local
// shape, which results from the splits over the other axes of the mesh. So a part may hold several
// members, a range of one, or only padding.
//
// The array has room for each member's padded local shape. If a rank holds less of a member, its
// elements come first, without gaps, and the rest of the room is padding. A member may have a
// block: then it begins at a multiple of that many elements, and parts end at a multiple of that
// many of its elements, for an optimizer that needs complete rows or blocks.
//
// Thread safety: immutable after construction.
class FlatGroup {
 public:
  struct Member {
    Shape local;        // padded local shape, after the splits over the other axes
    int64_t block = 1;  // in elements

    friend bool operator==(const Member& a, const Member& b) {
      return a.local == b.local && a.block == b.block;
    }
  };
  // Elements [begin, end).
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;

    int64_t size() const { return end - begin; }
    friend bool operator==(const Range& a, const Range& b) {
      return a.begin == b.begin && a.end == b.end;
    }
  };

  // InvalidArgument if a block is below 1, or the array gets more than 2^60 elements.
  static absl::StatusOr<FlatGroup> Create(absl::Span<const Member> members, int ranks);

  int num_members() const { return static_cast<int>(members_.size()); }
  absl::Span<const Member> members() const { return members_; }
  int ranks() const { return ranks_; }
  // Returns the number of elements of the gathered array: all parts, with padding.
  int64_t elements() const { return part_ * ranks_; }
  // Returns the number of elements that one rank holds.
  int64_t part() const { return part_; }

  // Returns the position of a member in the gathered array.
  Range InGathered(int member) const { return ranges_[member]; }
  // Returns the range of a member's elements that coordinate c holds, counted from the member's
  // first element; empty if it holds none. `elements` is the number of the member's elements after
  // the splits over the other axes.
  Range Held(int member, int coordinate, int64_t elements) const;
  // The same for a member without padding.
  Range Held(int member, int coordinate) const {
    return Held(member, coordinate, InGathered(member).size());
  }
  // Returns the position of those elements in the part of coordinate c.
  Range InPart(int member, int coordinate, int64_t elements) const;
  Range InPart(int member, int coordinate) const {
    return InPart(member, coordinate, InGathered(member).size());
  }

  // Returns text like "[3, 4], [5] in blocks of 2; 2 parts of 9".
  std::string ToString() const;

  friend bool operator==(const FlatGroup& a, const FlatGroup& b) {
    return a.ranks_ == b.ranks_ && a.members_ == b.members_;
  }

 private:
  std::vector<Member> members_;
  std::vector<Range> ranges_;  // by member
  int ranks_ = 1;
  int64_t part_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_FLAT_GROUP_H_
