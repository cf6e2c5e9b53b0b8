#include "core/program/hazards/buffer_contents.h"

#include <utility>
#include <vector>

namespace tessera {

namespace {

StridedRange BytesOf(const ProgramValue& value) {
  const int64_t size = SizeOf(value.type.dtype);
  if (IsRowMajor(value.type.shape, value.strides)) {
    return StridedRange(value.offset, value.offset + NumBytes(value.type));
  }
  Shape shape = value.type.shape;
  Strides strides = value.strides;
  for (int64_t& stride : strides) stride *= size;
  shape.push_back(size);
  strides.push_back(1);
  return StridedRange(value.offset, shape, strides);
}

}  // namespace

ValueBytes::ValueBytes(const Program& program) : program_(program) {
  if (program.flats.empty()) return;
  group_in_.assign(program.buffers.size(), kNone);
  for (const ProgramValue& value : program.values) {
    if (value.flat == kNone || value.sliced_from != kNone || value.buffer == kNone) continue;
    int32_t& group = group_in_[value.buffer];
    if (group != kNone) continue;
    group = static_cast<int32_t>(groups_.size());
    groups_.push_back(
        {program.flats[value.flat].group.get(), value.offset, SizeOf(value.type.dtype)});
  }
}

const ValueBytes::Group* ValueBytes::GroupIn(BufferId buffer) const {
  if (!group_in_.contains(buffer) || group_in_[buffer] == kNone) return nullptr;
  return &groups_[group_in_[buffer]];
}

StridedRange ValueBytes::Of(ProgramValueId id) const {
  const ProgramValue* value = &program_.values[id];
  while (value->sliced_from != kNone) value = &program_.values[value->sliced_from];
  const Group* const group = GroupIn(value->buffer);
  if (group == nullptr) return BytesOf(*value);
  if (value->flat != kNone) {
    const FlatGroup::Range range = group->group->InGathered(program_.flats[value->flat].member);
    return StridedRange(group->offset + range.begin * group->size,
                        group->offset + range.end * group->size);
  }
  // The value covers the same bytes of each rank's part.
  const StridedRange own = BytesOf(*value);
  const int64_t part = group->group->part() * group->size;
  return StridedRange(own.begin(), {group->group->ranks(), own.end() - own.begin()}, {part, 1});
}

int64_t ValueBytes::PaddingIn(BufferId buffer, const StridedRange& range) const {
  const Group* const group = GroupIn(buffer);
  if (group == nullptr) return 0;
  int64_t padding = range.elements();
  for (int member = 0; member < group->group->num_members(); ++member) {
    const FlatGroup::Range held = group->group->InGathered(member);
    padding -=
        StridedRange::CommonElements(range, StridedRange(group->offset + held.begin * group->size,
                                                         group->offset + held.end * group->size));
  }
  return padding;
}

void BufferContents::Entry::AddReader(Reader reader) {
  for (Reader& known : readers) {
    if (known.stream == reader.stream) {
      known.instruction = reader.instruction;
      return;
    }
  }
  readers.push_back(reader);
}

void BufferContents::Write(ProgramValueId value, InstructionId writer, const StridedRange& bytes) {
  if (bytes.elements() == 0) return;
  std::vector<Entry> remainders;
  bool some_overlap_stays = false;
  for (auto it = by_end_.upper_bound(bytes.begin()); it != by_end_.end();) {
    Entry& old = it->second;
    if (old.bytes.begin() >= bytes.end()) {
      // Unless entries are interleaved, they are in the order of their begins too, so that no later
      // one overlaps.
      if (!interleaved_) break;
      ++it;
      continue;
    }
    const bool can_trim = bytes.contiguous() && old.bytes.contiguous();
    const auto is_covered = [&] {
      return bytes.begin() <= old.bytes.begin() && old.bytes.end() <= bytes.end() &&
             StridedRange::CommonElements(old.bytes, bytes) == old.bytes.elements();
    };
    if (!can_trim && !is_covered()) {
      some_overlap_stays = true;
      ++it;
      continue;
    }
    if (can_trim && old.bytes.begin() < bytes.begin()) {
      remainders.push_back(old);
      remainders.back().bytes = StridedRange(old.bytes.begin(), bytes.begin());
    }
    if (can_trim && bytes.end() < old.bytes.end()) {
      remainders.push_back(std::move(old));
      remainders.back().bytes = StridedRange(bytes.end(), remainders.back().bytes.end());
    }
    it = by_end_.erase(it);
  }
  if (by_end_.empty()) interleaved_ = false;
  interleaved_ = interleaved_ || some_overlap_stays;
  for (Entry& entry : remainders) by_end_.emplace(entry.bytes.end(), std::move(entry));
  by_end_.emplace(bytes.end(), Entry{value, writer, next_number_++, bytes, {}});
}

}  // namespace tessera
