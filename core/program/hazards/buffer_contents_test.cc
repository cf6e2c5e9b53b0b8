// Compares the contents with a map from each byte to the value that was written there last.
#include "core/program/hazards/buffer_contents.h"

#include <map>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace tessera {
namespace {

constexpr int64_t kBytes = 64;

// Ranges of 1 to 3 runs at equal distances.
struct Runs {
  int64_t offset, runs, distance, size;

  StridedRange Range() const { return StridedRange(offset, {runs, size}, {distance, 1}); }
  std::vector<int64_t> Bytes() const {
    std::vector<int64_t> bytes;
    for (int64_t r = 0; r < runs; ++r) {
      for (int64_t b = 0; b < size; ++b) bytes.push_back(offset + r * distance + b);
    }
    return bytes;
  }
};

Runs RandomRun(std::mt19937& random) {
  Runs run;
  run.runs = random() % 2 == 0 ? 1 : 1 + random() % 3;
  run.distance = 4 + random() % 8;
  run.size = 1 + random() % run.distance;
  run.offset = random() % (kBytes - run.runs * run.distance);
  return run;
}

TEST(BufferContents, HoldsWhatWasWrittenLast) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 2000; ++trial) {
    BufferContents contents;
    std::map<int64_t, ProgramValueId> expected;  // by byte
    for (int i = 0; i < 12; ++i) {
      const Runs run = RandomRun(random);
      contents.Write(ProgramValueId(i), InstructionId(i), run.Range());
      for (const int64_t byte : run.Bytes()) expected[byte] = ProgramValueId(i);
    }
    for (int64_t byte = 0; byte < kBytes; ++byte) {
      const StridedRange one(byte, byte + 1);
      ProgramValueId held;
      int64_t newest = -1;
      contents.ForEachNear(one, [&](BufferContents::Entry& entry) {
        if (StridedRange::CommonElements(entry.bytes, one) == 0 || entry.number < newest) return;
        newest = entry.number;
        held = entry.value;
      });
      const auto found = expected.find(byte);
      ASSERT_EQ(held, found == expected.end() ? kNone : found->second) << trial << " " << byte;
    }
  }
}

TEST(BufferContents, AnOverwrittenPieceLeavesBothEnds) {
  BufferContents contents;
  contents.Write(ProgramValueId(0), InstructionId(10), StridedRange(0, 30));
  contents.Write(ProgramValueId(1), InstructionId(11), StridedRange(10, 20));
  std::vector<std::vector<int64_t>> found;
  contents.ForEachNear(StridedRange(0, 30), [&](BufferContents::Entry& entry) {
    found.push_back({entry.value.index(), entry.bytes.begin(), entry.bytes.end()});
  });
  EXPECT_EQ(found, (std::vector<std::vector<int64_t>>{{0, 0, 10}, {1, 10, 20}, {0, 20, 30}}));
}

TEST(BufferContents, KeepsTheLastReaderOfEachLane) {
  BufferContents contents;
  contents.Write(ProgramValueId(0), InstructionId(10), StridedRange(0, 30));
  contents.ForEachNear(StridedRange(0, 1), [&](BufferContents::Entry& entry) {
    entry.AddReader({StreamId(0), InstructionId(11)});
    entry.AddReader({StreamId(1), InstructionId(12)});
    entry.AddReader({StreamId(0), InstructionId(13)});
    ASSERT_EQ(entry.readers.size(), 2u);
    EXPECT_EQ(entry.readers[0].instruction, InstructionId(13));
    EXPECT_EQ(entry.readers[1].instruction, InstructionId(12));
  });
}

}  // namespace
}  // namespace tessera
