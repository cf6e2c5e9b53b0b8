// Two ranks gather a state of 2 x 6 elements. The members a, b and c begin at elements 0, 4 and 8,
// so b is in both parts. Copies read the members; one instruction updates the state at the end.
#include "core/program/ranks/own_parts.h"

#include <string>

#include "gtest/gtest.h"

namespace tessera {
namespace {

constexpr int64_t kPart = 6, kMember = 4, kSize = 4;

class OwnPartsTest : public ::testing::Test {
 protected:
  OwnPartsTest() {
    program_.mesh = *Mesh::Create({{"shard", 2}});
    program_.streams = {"compute", "parameters"};
    program_.collectives = {{.operation = CollectiveOperation::kAllGather,
                             .elements = 2 * kPart,
                             .dtype = DType::kF32,
                             .mesh_axes = {"shard"}}};
    state_ = AddTensor("state", kPart);
    program_.buffers[program_.value(state_).buffer].state = true;
    gathered_ = AddTensor("gathered", 2 * kPart);
    Add(InstructionKind::kCollective, state_, gathered_, StreamId(1));
    program_.instructions[InstructionId(0)].collective = CollectiveId(0);
    for (int k = 0; k < 3; ++k) {
      members_[k] = AddTensor("member", kMember);
      ProgramValue& member = program_.values[members_[k]];
      member.buffer = program_.value(gathered_).buffer;
      member.offset = k * kMember * kSize;
      member.within = gathered_;
      Add(InstructionKind::kCopy, members_[k], AddTensor("copy", kMember), kFirstStream);
    }
    updated_ = AddTensor("updated", kPart);
    program_.values[updated_].buffer = program_.value(state_).buffer;
    Add(InstructionKind::kCopy, AddTensor("update", kPart), updated_, kFirstStream);
  }

  ProgramValueId AddTensor(const std::string& path, int64_t elements) {
    ProgramValue value;
    value.path = path;
    value.type = {DType::kF32, {elements}};
    value.strides = {1};
    Buffer buffer;
    buffer.bytes = elements * kSize;
    buffer.offset = 256 * static_cast<int64_t>(program_.buffers.size());
    value.buffer = program_.buffers.push_back(buffer);
    return program_.values.push_back(value);
  }
  void Add(InstructionKind kind, ProgramValueId input, ProgramValueId output, StreamId stream) {
    Instruction instruction;
    instruction.kind = kind;
    instruction.stream = stream;
    instruction.inputs = {input};
    instruction.outputs = {output};
    program_.instructions.push_back(instruction);
  }

  OwnParts PartsOf(int rank) const {
    return OwnParts(program_, RankBinding(&program_, {rank}), {rank});
  }
  // Returns where a member is read: at which element of the state, or -1 for the gathered tensor.
  int64_t InState(const OwnParts& parts, int member) const {
    const ArenaAddress planned = program_.AddressOf(members_[member]);
    const ArenaAddress read = parts.AddressOf(members_[member], planned);
    return read == planned ? -1 : (read.offset - program_.AddressOf(state_).offset) / kSize;
  }
  void ExpectNothingInState() const {
    for (const int rank : {0, 1}) {
      const OwnParts parts = PartsOf(rank);
      EXPECT_EQ(parts.UnreadIn(InstructionId(0)).size(), 0);
      for (const int member : {0, 1, 2}) EXPECT_EQ(InState(parts, member), -1);
    }
  }

  Program program_;
  ProgramValueId state_, gathered_, updated_, members_[3];
};

TEST_F(OwnPartsTest, AMemberInTheOwnPartIsReadInTheState) {
  const OwnParts first = PartsOf(0), second = PartsOf(1);
  EXPECT_EQ(first.UnreadIn(InstructionId(0)), (FlatGroup::Range{0, 4}));
  EXPECT_EQ(InState(first, 0), 0);
  EXPECT_EQ(InState(first, 1), -1);
  EXPECT_EQ(InState(first, 2), -1);
  EXPECT_EQ(second.UnreadIn(InstructionId(0)), (FlatGroup::Range{8, 12}));
  EXPECT_EQ(InState(second, 0), -1);
  EXPECT_EQ(InState(second, 1), -1);
  EXPECT_EQ(InState(second, 2), 2);
}

TEST_F(OwnPartsTest, WhatNobodyReadsIsUnread) {
  program_.instructions.erase(program_.instructions.begin() + 2);
  EXPECT_EQ(PartsOf(0).UnreadIn(InstructionId(0)), (FlatGroup::Range{0, 6}));
  EXPECT_EQ(PartsOf(1).UnreadIn(InstructionId(0)), (FlatGroup::Range{6, 12}));
  EXPECT_EQ(InState(PartsOf(0), 0), 0);
}

TEST_F(OwnPartsTest, AStateThatIsWrittenBeforeTheLastReaderIsCopied) {
  std::swap(program_.instructions[InstructionId(3)], program_.instructions[InstructionId(4)]);
  ExpectNothingInState();
}

TEST_F(OwnPartsTest, AStateThatItsReaderWritesIsCopied) {
  program_.instructions[InstructionId(4)].inputs = {members_[0]};
  ExpectNothingInState();
}

TEST_F(OwnPartsTest, AStateThatAnotherStreamWritesIsCopied) {
  program_.instructions[InstructionId(4)].stream = StreamId(1);
  ExpectNothingInState();
}

TEST_F(OwnPartsTest, AStateThatIsWrittenBeforeTheGatherStays) {
  std::rotate(program_.instructions.begin(), program_.instructions.begin() + 4,
              program_.instructions.end());
  EXPECT_EQ(PartsOf(0).UnreadIn(InstructionId(1)), (FlatGroup::Range{0, 4}));
}

TEST_F(OwnPartsTest, AReaderOfTheWholeNeedsTheCopy) {
  program_.instructions[InstructionId(1)].inputs = {gathered_};
  ExpectNothingInState();
}

// Values may overlap: here some elements of a are also elements of b, which is read from the
// output.
TEST_F(OwnPartsTest, AValueThatIsCopiedInPartNeedsAllOfTheCopy) {
  program_.values[members_[0]].offset = 2 * kSize;
  const OwnParts parts = PartsOf(0);
  EXPECT_EQ(parts.UnreadIn(InstructionId(0)).size(), 0);
  EXPECT_EQ(InState(parts, 0), -1);
}

TEST_F(OwnPartsTest, AResultOfTheStepNeedsTheCopy) {
  program_.outputs = {{"a", members_[0]}};
  ExpectNothingInState();
}

TEST_F(OwnPartsTest, WhatIsNoStateMayBeGoneWhenAMemberIsRead) {
  program_.buffers[program_.value(state_).buffer].state = false;
  ExpectNothingInState();
}

}  // namespace
}  // namespace tessera
