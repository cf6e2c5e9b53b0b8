#include "core/program/rank_rules.h"

#include <memory>
#include <string>

#include "core/kernels/reference/backend.h"
#include "core/ops/ops.h"
#include "core/program/rank_rule_table.h"
#include "core/program/testing_program.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

TEST(RankRuleTable, EqualRulesAreEnteredOnce) {
  Program program;
  program.mesh = *Mesh::Create({{"data", 2}});
  const PartRule rows = {{5, 3}, {0, 0}, {5, 3}, MeshLayout({AxisLayout::Split(0)})};
  const PartRule all = {{5, 3}, {0, 0}, {5, 3}, MeshLayout(1)};
  PartRule second = all;  // the second of two micro-batches
  second.start = {3, 0};
  second.extent = {2, 3};
  RankRuleTable table(&program);
  EXPECT_EQ(table.Enter(rows), 0);
  EXPECT_EQ(table.Enter(all), kNone);
  EXPECT_EQ(table.Enter(second), 1);
  EXPECT_EQ(RankRuleTable(&program).Enter(rows), 0);
  EXPECT_EQ(program.parts.size(), 2);
  EXPECT_EQ(program.parts[0].ToString(program.mesh), "data: S(0) of [5, 3]");
  EXPECT_EQ(program.parts[1].ToString(program.mesh), "[2, 3] at [3, 0] of [5, 3]");
}

// Members of 10 and 4 elements in three parts of 5: [0, 5), [5, 10), [10, 14) and padding.
TEST(FlatRule, AMembersElementsOnEachRank) {
  const auto group = std::make_shared<const FlatGroup>(*FlatGroup::Create({{{2, 5}}, {{4}}}, 3));
  const FlatRule first = {group, 0, 0}, second = {group, 0, 1};
  EXPECT_EQ(first.LocalElements(), 5);
  EXPECT_EQ(second.LocalElements(), 4);
  EXPECT_EQ(first.HeldAt({1}), (FlatGroup::Range{5, 10}));
  EXPECT_EQ(first.InPartAt({1}), (FlatGroup::Range{0, 5}));
  EXPECT_EQ(first.HeldAt({2}).size(), 0);
  EXPECT_EQ(group->ToString(), "[2, 5], [4]; 3 parts of 5");
}

TEST(FlatRule, TheLargestRangeMayBeInTheMiddle) {
  // 1, then 10 over four parts of 4: the member has 3, 4, 3 and 0 elements.
  const auto group =
      std::make_shared<const FlatGroup>(*FlatGroup::Create({{{1}}, {{10}}, {{3}}}, 4));
  EXPECT_EQ((FlatRule{group, 0, 1}).LocalElements(), 4);
}

// y = negate(x), where each rank holds rows of x; a slice of a bias that all ranks have.
class RankRulesTest : public ::testing::Test {
 protected:
  RankRulesTest() {
    Graph graph("test");
    graph.SetOutput("y", Negate(graph.Input("x", {DType::kF32, {3, 4}})));
    made_ = std::make_unique<TestProgram>(graph, *backend_);
    Program& program = made_->program;
    program.mesh = *Mesh::Create({{"data", 2}});
    RankRuleTable table(&program);
    const int32_t rows =
        table.Enter(PartRule{{5, 4}, {0, 0}, {5, 4}, MeshLayout({AxisLayout::Split(0)})});
    for (const char* path : {"x", "negate"}) Value(path).part = rows;
  }

  ProgramValue& Value(absl::string_view path) { return made_->program.values[made_->Value(path)]; }

  // Adds a value [5, 4] that all ranks have, and its slice by rows.
  void AddSlice() {
    Program& program = made_->program;
    const int32_t all = made_->AddValue("all", {DType::kF64, {5, 4}});
    const int32_t slice = made_->AddValue("slice", {DType::kF64, {3, 4}});
    program.values[slice].buffer = program.values[all].buffer;
    program.values[slice].within = program.values[slice].sliced_from = all;
    program.values[slice].part = 0;
    program.inputs.push_back({"all", all});
    program.buffers.pop_back();
    program.instructions[0].inputs[0] = slice;
  }

  std::string Error() {
    const absl::Status status = made_->Finish();
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  }

  const std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
  std::unique_ptr<TestProgram> made_;
};

TEST_F(RankRulesTest, TheTextNamesPartsAndSlices) {
  AddSlice();
  ASSERT_TRUE(made_->Finish().ok()) << VerifyProgram(made_->program);
  const std::string text = made_->program.ToString();
  EXPECT_THAT(text, HasSubstr("%negate: f64[3, 4] in #2 holds data: S(0) of [5, 4] = "
                              "negate(%slice)"));
}

TEST_F(RankRulesTest, APartOfAnotherShapeIsRefused) {
  made_->program.parts[0].global = made_->program.parts[0].extent = {9, 4};
  EXPECT_THAT(Error(), HasSubstr("x: is [3, 4], but holds data: S(0) of [9, 4], which is [5, 4] on "
                                 "each rank"));
}

TEST_F(RankRulesTest, APartOfAnotherMeshIsRefused) {
  made_->program.parts[0].layout = MeshLayout({AxisLayout::Split(0), AxisLayout::Broadcast()});
  EXPECT_THAT(Error(), HasSubstr("the table of parts: a layout over 2 axes on a mesh of 1"));
}

TEST_F(RankRulesTest, ASliceOfAnotherTensorIsRefused) {
  AddSlice();
  Value("all").part = 0;
  EXPECT_THAT(Error(), HasSubstr("all: is [5, 4], but holds data: S(0) of [5, 4]"));
}

TEST_F(RankRulesTest, ASliceIsNotWritten) {
  AddSlice();
  made_->program.instructions[0].outputs[0] = made_->Value("slice");
  made_->program.outputs[0].value = made_->Value("slice");
  made_->program.instructions[0].inputs[0] = made_->Value("x");
  EXPECT_THAT(Error(), HasSubstr("negate: writes slice, a slice of all"));
}

TEST_F(RankRulesTest, ASliceWithOtherSplitsThanItsBaseIsRefused) {
  AddSlice();
  Program& program = made_->program;
  // The base is split by columns; its slice would be split by rows only.
  RankRuleTable table(&program);
  Value("all").part =
      table.Enter(PartRule{{5, 8}, {0, 0}, {5, 8}, MeshLayout({AxisLayout::Split(1)})});
  EXPECT_THAT(Error(), HasSubstr("slice: is no slice of all: data: S(0) of [5, 4] is not within "
                                 "data: S(1) of [5, 8]"));
}

TEST_F(RankRulesTest, AMemberOfAFlatGroupHasItsRange) {
  Program& program = made_->program;
  const auto group = std::make_shared<const FlatGroup>(*FlatGroup::Create({{{5}}, {{2}}}, 2));
  program.flats = {{group, 0, 0}};
  const int32_t flat = made_->AddValue("flat", {DType::kF64, {3}});
  program.values[flat].flat = 0;
  program.inputs.push_back({"flat", flat});
  EXPECT_THAT(Error(), HasSubstr("flat: is [3], but up to 4 elements of its flat group"));
}

}  // namespace
}  // namespace tessera
