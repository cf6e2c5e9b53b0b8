#include "strategies/fsdp/units.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::strategy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

using Paths = std::vector<std::vector<std::string>>;

Paths PathsOf(const ModelInfo& model, const UnitPolicy& policy) {
  const auto units = DivideIntoUnits(model, policy);
  EXPECT_TRUE(units.ok()) << units.status();
  Paths paths;
  for (const Unit& unit : *units) paths.push_back(unit.parameters);
  return paths;
}

TEST(UnitsTest, EachBlockIsAUnitAndTheRestIsTheRoot) {
  const auto units = DivideIntoUnits(SmallModel(), {});
  ASSERT_TRUE(units.ok()) << units.status();
  ASSERT_EQ(units->size(), 4u);
  EXPECT_THAT((*units)[1].parameters, ElementsAre("b.1.attn.w", "b.1.mlp.w"));
  EXPECT_EQ((*units)[1].bytes, 300);
  EXPECT_FALSE((*units)[1].root);
  EXPECT_THAT((*units)[3].parameters, ElementsAre("embed"));
  EXPECT_TRUE((*units)[3].root);
}

// Regression: blocks of 300 bytes were joined to units of 600, although the size was 400.
TEST(UnitsTest, BlocksAreJoinedUpToASize) {
  EXPECT_EQ(PathsOf(SmallModel(), {UnitPolicy::Kind::kSize, 400, ""}),
            PathsOf(SmallModel(), UnitPolicy()));
  EXPECT_EQ(PathsOf(SmallModel(), {UnitPolicy::Kind::kSize, 600, ""}),
            (Paths{{"b.0.attn.w", "b.0.mlp.w", "b.1.attn.w", "b.1.mlp.w"},
                   {"b.2.attn.w", "b.2.mlp.w"},
                   {"embed"}}));
  const auto all = DivideIntoUnits(SmallModel(), {UnitPolicy::Kind::kSize, 899, ""});
  ASSERT_TRUE(all.ok()) << all.status();
  for (const Unit& unit : *all) EXPECT_LE(unit.bytes, 899);
  // No unit is smaller than a block.
  EXPECT_EQ(PathsOf(SmallModel(), {UnitPolicy::Kind::kSize, 1, ""}),
            PathsOf(SmallModel(), UnitPolicy()));
}

TEST(UnitsTest, ScopesThatAPatternMatches) {
  const UnitPolicy policy = {UnitPolicy::Kind::kPattern, 0, "b.*.mlp|embed"};
  EXPECT_EQ(PathsOf(SmallModel(), policy), (Paths{{"embed"},
                                                  {"b.0.mlp.w"},
                                                  {"b.1.mlp.w"},
                                                  {"b.2.mlp.w"},
                                                  {"b.0.attn.w", "b.1.attn.w", "b.2.attn.w"}}));
  const auto none = DivideIntoUnits(SmallModel(), {UnitPolicy::Kind::kPattern, 0, "c.*"});
  EXPECT_THAT(none.status().message(), HasSubstr("pattern 'c.*' matches no scope"));
}

// One array holds parameters of one dtype that are all trained or all frozen.
TEST(UnitsTest, FrozenParametersAndOtherDtypesAreUnitsOfTheirOwn) {
  ModelInfo model = SmallModel();
  model.parameters[1].trainable = false;
  model.parameters[4].type.set_dtype(TypeProto::BF16);
  const Paths paths = PathsOf(model, {});
  EXPECT_THAT(paths, testing::UnorderedElementsAre(
                         ElementsAre("b.0.attn.w"), ElementsAre("b.0.mlp.w"),
                         ElementsAre("b.1.attn.w"), ElementsAre("b.1.mlp.w"),
                         ElementsAre("b.2.attn.w", "b.2.mlp.w"), ElementsAre("embed")));
}

TEST(UnitsTest, Patterns) {
  EXPECT_EQ(ScopeThatMatches("b.*", "b.10.mlp.w"), "b.10");
  EXPECT_EQ(ScopeThatMatches("b.1", "b.10.mlp.w"), "");
  EXPECT_EQ(ScopeThatMatches("b.1*.m*p", "b.10.mlp.w"), "b.10.mlp");
  EXPECT_EQ(ScopeThatMatches("b.*.*.*.*", "b.10.mlp.w"), "");
  EXPECT_EQ(ScopeThatMatches("", "b.10.mlp.w"), "");
}

}  // namespace
}  // namespace tessera::strategy
