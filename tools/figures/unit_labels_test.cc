#include "tools/figures/unit_labels.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(UnitLabelsTest, PathsThatDifferInOneNumber) {
  EXPECT_TRUE(DifferInOneNumber("blocks.0", "blocks.11"));
  EXPECT_TRUE(DifferInOneNumber("decoder.3.self", "decoder.4.self"));
  EXPECT_FALSE(DifferInOneNumber("blocks.0", "blocks.0"));
  EXPECT_FALSE(DifferInOneNumber("blocks.0", "layers.0"));
  EXPECT_FALSE(DifferInOneNumber("blocks.0", "blocks.0.mlp"));
  EXPECT_FALSE(DifferInOneNumber("stages.0.blocks.1", "stages.1.blocks.2"));
}

TEST(UnitLabelsTest, Labels) {
  EXPECT_EQ(LabelOfUnits({"blocks.0", "blocks.1"}, /*all=*/true), "blocks.*");
  EXPECT_EQ(LabelOfUnits({"blocks.0", "blocks.1", "blocks.2", "blocks.5"}, /*all=*/false),
            "blocks.{0-2, 5}");
  EXPECT_EQ(LabelOfUnits({"a.10.b", "a.9.b"}, /*all=*/false), "a.{9-10}.b");
}

}  // namespace
}  // namespace tessera
