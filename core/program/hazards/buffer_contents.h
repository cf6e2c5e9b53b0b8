// Tracks which value each byte of a buffer holds, instruction by instruction.
// The verifier, the dependencies of passes and the waits between streams all look at it.
#ifndef TESSERA_CORE_PROGRAM_HAZARDS_BUFFER_CONTENTS_H_
#define TESSERA_CORE_PROGRAM_HAZARDS_BUFFER_CONTENTS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "core/ids/table.h"
#include "core/program/hazards/strided_range.h"
#include "core/program/program.h"

namespace tessera {

// Finds the bytes of its buffer that a value may cover on any rank. For a slice, these are the
// bytes of the value that it is sliced from. In a buffer that holds a flat group, bytes are counted
// as if the parts of all ranks were concatenated, so that two members cover different bytes even if
// ranks hold different ranges of them.
//
// Thread safety: immutable after construction. The Program must outlive it.
class ValueBytes {
 public:
  explicit ValueBytes(const Program& program);

  StridedRange Of(ProgramValueId value) const;
  // Returns the number of bytes in `range` of a buffer that belong to no member of its flat group
  // (padding, which nothing writes). 0 if the buffer holds no group.
  int64_t PaddingIn(BufferId buffer, const StridedRange& range) const;

 private:
  // A flat group in a buffer.
  struct Group {
    const FlatGroup* group;
    int64_t offset;  // of its first element
    int64_t size;    // of an element
  };
  const Group* GroupIn(BufferId buffer) const;

  const Program& program_;
  std::vector<Group> groups_;
  Table<BufferId, int32_t> group_in_;  // index in groups_, or kNone; empty without flat values
};

// Keeps, for every byte that was written, which value and instruction wrote it last, and which
// instructions have read it since. Time per operation is logarithmic in the number of values in the
// buffer. It is linear in that number while values are interleaved (columns of one matrix), and
// linear in the number of entries that an operation overwrites.
class BufferContents {
 public:
  // An instruction that has read an entry. AddReader keeps only the last reader of each stream.
  struct Reader {
    StreamId stream;
    InstructionId instruction;
  };

  // Bytes that one value has written and that no contiguous value has overwritten since.
  struct Entry {
    ProgramValueId value;
    InstructionId writer;  // kNone: written before the first one
    int64_t number = 0;    // entries that were written later have larger ones
    StridedRange bytes;
    absl::InlinedVector<Reader, 2> readers;

    void AddReader(Reader reader);
  };

  // Calls visit(entry) for each entry whose range from first to last byte overlaps that of `bytes`.
  // If one of the two has gaps, they may still have no byte in common.
  template <typename Visit>
  void ForEachNear(const StridedRange& bytes, const Visit& visit) {
    if (bytes.elements() == 0) return;
    for (auto it = by_end_.upper_bound(bytes.begin()); it != by_end_.end(); ++it) {
      if (it->second.bytes.begin() < bytes.end()) {
        visit(it->second);
      } else if (!interleaved_) {
        break;
      }
    }
  }

  // Adds an entry. An older entry loses the bytes that the new one covers if both are contiguous,
  // and is removed if all its bytes are covered. Any other overlapping entry stays unchanged; the
  // newer of two entries has the larger number.
  void Write(ProgramValueId value, InstructionId writer, const StridedRange& bytes);

 private:
  using Entries = std::multimap<int64_t, Entry>;

  Entries by_end_;
  bool interleaved_ = false;  // some entry may begin before another one ends
  int64_t next_number_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_HAZARDS_BUFFER_CONTENTS_H_
