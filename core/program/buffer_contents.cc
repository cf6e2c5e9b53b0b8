#include "core/program/buffer_contents.h"

#include <utility>
#include <vector>

namespace tessera {

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

void BufferContents::Entry::AddReader(Reader reader) {
  for (Reader& known : readers) {
    if (known.lane == reader.lane) {
      known.instruction = reader.instruction;
      return;
    }
  }
  readers.push_back(reader);
}

void BufferContents::Write(int32_t value, int32_t writer, const StridedRange& bytes) {
  if (bytes.elements() == 0) return;
  std::vector<Entry> rests;
  bool beside = false;
  for (auto it = by_end_.upper_bound(bytes.begin()); it != by_end_.end();) {
    Entry& old = it->second;
    if (old.bytes.begin() >= bytes.end()) {
      if (!interleaved_) break;
      ++it;
      continue;
    }
    const bool within = bytes.begin() <= old.bytes.begin() && old.bytes.end() <= bytes.end();
    const bool split = bytes.contiguous() && old.bytes.contiguous();
    if (!split && !(within && StridedRange::Common(old.bytes, bytes) == old.bytes.elements())) {
      beside = true;
      ++it;
      continue;
    }
    if (split && old.bytes.begin() < bytes.begin()) {
      rests.push_back(old);
      rests.back().bytes = StridedRange(old.bytes.begin(), bytes.begin());
    }
    if (split && bytes.end() < old.bytes.end()) {
      rests.push_back(std::move(old));
      rests.back().bytes = StridedRange(bytes.end(), rests.back().bytes.end());
    }
    it = by_end_.erase(it);
  }
  if (by_end_.empty()) interleaved_ = false;
  interleaved_ = interleaved_ || beside;
  for (Entry& rest : rests) by_end_.emplace(rest.bytes.end(), std::move(rest));
  by_end_.emplace(bytes.end(), Entry{value, writer, next_number_++, bytes, {}});
}

}  // namespace tessera
