#include "core/layout/flat_group.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tessera {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 60;

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

absl::StatusOr<FlatGroup> FlatGroup::Create(absl::Span<const Member> members, int ranks) {
  FlatGroup group;
  group.ranks_ = ranks;
  group.members_.assign(members.begin(), members.end());
  int64_t end = 0, common_block = 1;
  for (size_t i = 0; i < members.size(); ++i) {
    const int64_t block = members[i].block;
    if (block < 1 || block > kMaxElements) {
      return absl::InvalidArgumentError(absl::StrCat("member ", i,
                                                     " of a flat group asks for blocks of ", block,
                                                     " elements; it must be at least 1"));
    }
    const int64_t begin = RoundUp(end, block), elements = NumElements(members[i].local);
    const int64_t step = block / std::gcd(block, common_block);
    if (elements > kMaxElements - begin || step > kMaxElements / common_block / ranks) {
      return absl::InvalidArgumentError(
          absl::StrCat("a flat group of more than 2^60 elements with member ", i, ", ",
                       ShapeToString(members[i].local), " in blocks of ", block));
    }
    common_block *= step;
    end = begin + elements;
    group.ranges_.push_back({begin, end});
  }
  group.part_ = RoundUp(RoundUp(end, ranks) / ranks, common_block);
  return group;
}

FlatGroup::Range FlatGroup::Held(int member, int coordinate, int64_t elements) const {
  Range all = ranges_[member];
  all.end = std::min(all.end, all.begin + elements);
  const int64_t begin = std::clamp(coordinate * part_, all.begin, all.end);
  const int64_t end = std::clamp((coordinate + 1) * part_, all.begin, all.end);
  return {begin - all.begin, end - all.begin};
}

FlatGroup::Range FlatGroup::InPart(int member, int coordinate, int64_t elements) const {
  const Range held = Held(member, coordinate, elements);
  if (held.size() == 0) return {0, 0};
  const int64_t begin = ranges_[member].begin + held.begin - coordinate * part_;
  return {begin, begin + held.size()};
}

std::string FlatGroup::ToString() const {
  const std::string members =
      absl::StrJoin(members_, ", ", [](std::string* out, const Member& member) {
        absl::StrAppend(out, ShapeToString(member.local));
        if (member.block != 1) absl::StrAppend(out, " in blocks of ", member.block);
      });
  return absl::StrCat(members, "; ", ranks_, " parts of ", part_);
}

}  // namespace tessera
