#include "core/layout/mesh.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Mesh MakeMesh(std::vector<Mesh::Axis> axes) {
  absl::StatusOr<Mesh> mesh = Mesh::Create(std::move(axes));
  EXPECT_TRUE(mesh.ok()) << mesh.status();
  return *std::move(mesh);
}

TEST(MeshTest, RanksAreRowMajorAndTheLastAxisVariesFastest) {
  const Mesh mesh = MakeMesh({{"data", 2}, {"model", 3}});
  EXPECT_EQ(mesh.size(), 6);
  EXPECT_THAT(mesh.CoordinatesOf(0), ElementsAre(0, 0));
  EXPECT_THAT(mesh.CoordinatesOf(1), ElementsAre(0, 1));
  EXPECT_THAT(mesh.CoordinatesOf(3), ElementsAre(1, 0));
  for (int rank = 0; rank < mesh.size(); ++rank) {
    EXPECT_EQ(mesh.RankOf(mesh.CoordinatesOf(rank)), rank);
  }
}

TEST(MeshTest, GroupsDifferAlongTheirAxesOnly) {
  const Mesh mesh = MakeMesh({{"a", 2}, {"b", 2}, {"c", 2}});
  EXPECT_THAT(mesh.GroupsAlong({1}), ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3),
                                                 ElementsAre(4, 6), ElementsAre(5, 7)));
  EXPECT_THAT(mesh.GroupsAlong({0, 2}),
              ElementsAre(ElementsAre(0, 1, 4, 5), ElementsAre(2, 3, 6, 7)));
  EXPECT_EQ(mesh.GroupsAlong({}).size(), 8);
}

TEST(MeshTest, AMeshWithoutAxesIsOneRank) {
  const Mesh mesh;
  EXPECT_EQ(mesh.size(), 1);
  EXPECT_THAT(mesh.CoordinatesOf(0), ElementsAre());
  EXPECT_THAT(mesh.GroupsAlong({}), ElementsAre(ElementsAre(0)));
  EXPECT_EQ(mesh.ToString(), "");
}

TEST(MeshTest, AnAxisOfSizeZeroTakesTheRanksThatRemain) {
  const absl::StatusOr<Mesh> mesh = Mesh::ForRanks({{"data", 0}, {"model", 2}}, 8);
  ASSERT_TRUE(mesh.ok()) << mesh.status();
  EXPECT_EQ(mesh->ToString(), "data: 4, model: 2");
  EXPECT_EQ(*mesh->FindAxis("model"), 1);
  EXPECT_EQ(mesh->FindAxis("dta").status().message(),
            "the mesh (data: 4, model: 2) has no axis 'dta'; did you mean 'data'?");
}

TEST(MeshTest, ErrorsNameTheAxisAndTheRemedy) {
  const auto error = [](std::vector<Mesh::Axis> axes, int ranks) {
    return std::string(Mesh::ForRanks(std::move(axes), ranks).status().message());
  };
  EXPECT_EQ(error({{"data", 3}}, 4), "the mesh (data: 3) has 3 ranks, but the job has 4");
  EXPECT_EQ(error({{"data", 0}, {"model", 3}}, 4),
            "axis 'data' of the mesh cannot take the ranks that remain: the other axes have 3 "
            "ranks, which do not divide 4");
  EXPECT_THAT(error({{"data", 0}, {"model", 0}}, 4), HasSubstr("'data' and 'model'"));
  EXPECT_THAT(error({{"data", -2}}, 4), HasSubstr("has size -2; it must be at least 1"));
  EXPECT_THAT(error({{"Data", 4}}, 4), HasSubstr("is named 'Data'; a name is"));
  EXPECT_THAT(error({{"", 4}}, 4), HasSubstr("is named ''"));
  EXPECT_THAT(error({{"a", 2}, {"a", 2}}, 4), HasSubstr("two axes named 'a'"));
  EXPECT_THAT(error({{"a", 1 << 20}, {"b", 1 << 20}}, 4), HasSubstr("more than 1048576 ranks"));
  EXPECT_THAT(error({{"a", 0}, {"b", 1 << 20}, {"c", 1 << 20}}, 4), HasSubstr("do not divide 4"));
  std::vector<Mesh::Axis> many;
  for (int i = 0; i < 9; ++i) many.push_back({absl::StrCat("a", i), 1});
  EXPECT_THAT(error(many, 1), HasSubstr("a mesh of 9 axes; at most 8"));
}

}  // namespace
}  // namespace tessera
