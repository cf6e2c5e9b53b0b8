#include "strategies/api/flat_groups.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::strategy {
namespace {

using ::testing::ElementsAre;

ParameterInfo Parameter(const std::string& path, int block, int64_t bytes = 100) {
  ParameterInfo parameter;
  parameter.path = path;
  parameter.block = block;
  parameter.bytes = bytes;
  return parameter;
}

// Returns a model of three blocks, and an embedding outside of them.
ModelInfo SmallModel() {
  ModelInfo model;
  model.blocks = {"b.0", "b.1", "b.2"};
  model.parameters = {Parameter("embed", -1)};
  for (int block = 0; block < 3; ++block) {
    const std::string scope = "b." + std::to_string(block);
    model.parameters.push_back(Parameter(scope + ".attn.w", block));
    model.parameters.push_back(Parameter(scope + ".mlp.w", block, 200));
  }
  return model;
}

std::vector<FlatGroup> DivideByBlocks(const ModelInfo& model, int64_t max_bytes = 0) {
  return DivideIntoGroups(model, /*pattern=*/"", max_bytes);
}

using Paths = std::vector<std::vector<std::string>>;

Paths PathsOf(const std::vector<FlatGroup>& groups) {
  Paths paths;
  for (const FlatGroup& group : groups) paths.push_back(group.parameters);
  return paths;
}

TEST(FlatGroupsTest, EachBlockIsAGroupAndTheRestIsTheRoot) {
  const std::vector<FlatGroup> groups = DivideByBlocks(SmallModel());
  ASSERT_EQ(groups.size(), 4u);
  EXPECT_THAT(groups[1].parameters, ElementsAre("b.1.attn.w", "b.1.mlp.w"));
  EXPECT_EQ(groups[1].bytes, 300);
  EXPECT_FALSE(groups[1].root);
  EXPECT_THAT(groups[3].parameters, ElementsAre("embed"));
  EXPECT_TRUE(groups[3].root);
}

// Regression: blocks of 300 bytes were joined to groups of 600, although the size was 400.
TEST(FlatGroupsTest, BlocksAreJoinedUpToASize) {
  const Paths blocks = PathsOf(DivideByBlocks(SmallModel()));
  EXPECT_EQ(PathsOf(DivideByBlocks(SmallModel(), 400)), blocks);
  EXPECT_EQ(PathsOf(DivideByBlocks(SmallModel(), 600)),
            (Paths{{"b.0.attn.w", "b.0.mlp.w", "b.1.attn.w", "b.1.mlp.w"},
                   {"b.2.attn.w", "b.2.mlp.w"},
                   {"embed"}}));
  for (const FlatGroup& group : DivideByBlocks(SmallModel(), 899)) EXPECT_LE(group.bytes, 899);
  // No group is smaller than a block.
  EXPECT_EQ(PathsOf(DivideByBlocks(SmallModel(), 1)), blocks);
}

TEST(FlatGroupsTest, ScopesThatAPatternMatches) {
  EXPECT_EQ(PathsOf(DivideIntoGroups(SmallModel(), "b.*.mlp|embed")),
            (Paths{{"embed"},
                   {"b.0.mlp.w"},
                   {"b.1.mlp.w"},
                   {"b.2.mlp.w"},
                   {"b.0.attn.w", "b.1.attn.w", "b.2.attn.w"}}));
}

// One array holds parameters of one dtype that are all trained or all frozen.
TEST(FlatGroupsTest, FrozenParametersAndOtherDtypesAreGroupsOfTheirOwn) {
  ModelInfo model = SmallModel();
  model.parameters[1].trainable = false;
  model.parameters[4].type.set_dtype(TypeProto::BF16);
  EXPECT_EQ(PathsOf(DivideByBlocks(model)), (Paths{{"b.0.mlp.w"},
                                                   {"b.0.attn.w"},
                                                   {"b.1.attn.w"},
                                                   {"b.2.attn.w", "b.2.mlp.w"},
                                                   {"b.1.mlp.w"},
                                                   {"embed"}}));
}

}  // namespace
}  // namespace tessera::strategy
