#include "core/program/collective_waits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/ids/table.h"
#include "core/program/program.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A Program of collectives on the streams "gradients" and "parameters". Each reads and writes
// values of 8 f32 in one buffer.
class Collectives {
 public:
  Collectives() {
    program_.streams = {"compute", "gradients", "parameters"};
    Buffer buffer;
    buffer.bytes = 4096;
    buffer.offset = 64;
    program_.buffers.push_back(buffer);
  }

  // Adds a value at an offset of the buffer.
  ProgramValueId Value(int64_t offset) {
    ProgramValue value;
    value.type = {DType::kF32, {8}};
    value.buffer = BufferId(0);
    value.offset = offset;
    return program_.values.push_back(std::move(value));
  }
  ProgramValueId SliceOf(ProgramValueId base) {
    ProgramValue value = program_.values[base];
    value.type.shape = {2};
    value.sliced_from = base;
    return program_.values.push_back(std::move(value));
  }

  Collectives& Reduce(ProgramValueId input, ProgramValueId output, int stream = 1,
                      const std::vector<std::string>& axes = {"data"}) {
    Instruction instruction;
    instruction.kind = InstructionKind::kCollective;
    instruction.stream = StreamId(stream);
    instruction.collective = program_.FindOrAddCollective({.elements = 8, .mesh_axes = axes});
    instruction.inputs = {input};
    instruction.outputs = {output};
    program_.instructions.push_back(std::move(instruction));
    return *this;
  }
  Collectives& Compute(const std::vector<int>& waits, int stream = 0) {
    Instruction instruction;
    instruction.stream = StreamId(stream);
    for (const int earlier : waits) instruction.waits.emplace_back(earlier);
    program_.instructions.push_back(std::move(instruction));
    return *this;
  }

  CollectiveWaits waits() const { return WaitsForCollectives(program_); }
  std::vector<InstructionId> Before(int instruction) const {
    return waits().before[InstructionId(instruction)];
  }

 private:
  Program program_;
};

InstructionId Id(int i) { return InstructionId(i); }

TEST(CollectiveWaitsTest, AGroupRunsItsCollectivesInOrder) {
  Collectives c;
  const ProgramValueId a = c.Value(0), b = c.Value(32);
  c.Reduce(a, a).Reduce(b, b);
  EXPECT_THAT(c.Before(1), IsEmpty());
  EXPECT_THAT(c.waits().at_end, ElementsAre(Id(0), Id(1)));
}

TEST(CollectiveWaitsTest, MemoryInCommonNeedsAWait) {
  Collectives c;
  const ProgramValueId a = c.Value(0), b = c.Value(32), across = c.Value(16), d = c.Value(64);
  c.Reduce(a, b).Reduce(d, across);
  EXPECT_THAT(c.Before(1), ElementsAre(Id(0)));
  Collectives reads;
  const ProgramValueId from = reads.Value(0), x = reads.Value(32), y = reads.Value(64);
  reads.Reduce(from, x).Reduce(from, y);
  EXPECT_THAT(reads.Before(1), IsEmpty()) << "both only read it";
}

TEST(CollectiveWaitsTest, ASliceIsAnywhereInItsBase) {
  Collectives c;
  const ProgramValueId a = c.Value(0), b = c.Value(64);
  const ProgramValueId slice = c.SliceOf(a), end_of_a = c.Value(16);
  c.Reduce(b, slice).Reduce(end_of_a, b);
  EXPECT_THAT(c.Before(1), ElementsAre(Id(0)));
}

TEST(CollectiveWaitsTest, AnotherGroupWaitsOnTheSameStreamOnly) {
  Collectives c;
  const ProgramValueId a = c.Value(0), b = c.Value(32);
  c.Reduce(a, a).Reduce(b, b, 1, {"model"}).Reduce(b, b, 2, {"model"});
  EXPECT_THAT(c.Before(1), ElementsAre(Id(0)));
  EXPECT_THAT(c.Before(2), IsEmpty());
  Collectives both;
  const ProgramValueId x = both.Value(0), y = both.Value(32);
  both.Reduce(x, x, 1, {"data", "model"}).Reduce(y, y, 1, {"model", "data"});
  EXPECT_THAT(both.Before(1), IsEmpty()) << "the same group";
}

TEST(CollectiveWaitsTest, WhatWaitsForOneWaitsForThoseBeforeIt) {
  Collectives c;
  const ProgramValueId a = c.Value(0), b = c.Value(32), d = c.Value(64);
  c.Reduce(a, a).Reduce(b, b).Reduce(d, d).Compute({1}).Compute({1}).Compute({}, 1);
  EXPECT_THAT(c.Before(3), ElementsAre(Id(0), Id(1)));
  EXPECT_THAT(c.Before(4), IsEmpty());
  EXPECT_THAT(c.Before(5), ElementsAre(Id(2))) << "it is on their stream";
  EXPECT_THAT(c.waits().at_end, IsEmpty());
}

}  // namespace
}  // namespace tessera
