#include "core/layout/mesh_layout.h"

#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/layout/layout_proto.h"
#include "core/layout/layout_text.h"
#include "core/layout/testing/rank_arrays.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Mesh& Mesh23() {
  static const Mesh mesh = *Mesh::Create({{"data", 2}, {"model", 3}});
  return mesh;
}

const Mesh& Mesh22() {
  static const Mesh mesh = *Mesh::Create({{"data", 2}, {"model", 2}});
  return mesh;
}

MeshLayout Parse(absl::string_view text, const Mesh& mesh) {
  absl::StatusOr<MeshLayout> layout = ParseMeshLayout(text, mesh);
  EXPECT_TRUE(layout.ok()) << layout.status();
  return *std::move(layout);
}

// Returns text like "0+2" for each rank: the start and the extent along the only dimension.
std::string Parts(absl::string_view text, int64_t elements, const Mesh& mesh) {
  const MeshLayout layout = Parse(text, mesh);
  std::string parts;
  for (int rank = 0; rank < mesh.size(); ++rank) {
    const Box box = BoxOf(layout, {elements}, mesh, mesh.CoordinatesOf(rank));
    absl::StrAppend(&parts, rank == 0 ? "" : " ", box.start[0], "+", box.extent[0]);
  }
  return parts;
}

TEST(MeshLayoutTest, TheOrderOfNestedSplitsSaysWhichRowsARankHolds) {
  EXPECT_EQ(Parts("data: S(0), model: S(0)", 8, Mesh22()), "0+2 2+2 4+2 6+2");
  EXPECT_EQ(Parts("model: S(0), data: S(0)", 8, Mesh22()), "0+2 4+2 2+2 6+2");
}

TEST(MeshLayoutTest, LastPartsAreShorterOrEmpty) {
  EXPECT_EQ(Parts("model: S(0)", 7, Mesh23()), "0+3 3+3 6+1 0+3 3+3 6+1");
  EXPECT_EQ(Parts("model: S(0)", 2, Mesh23()), "0+1 1+1 2+0 0+1 1+1 2+0");
  EXPECT_EQ(Parts("model: S(0, 4)", 10, Mesh23()), "0+4 4+4 8+2 0+4 4+4 8+2");
  EXPECT_EQ(Parts("model: S(0, 4)", 3, Mesh23()), "0+3 3+0 3+0 0+3 3+0 3+0");
  // The inner split divides the padded part of 4: the last outer part of 3 is split into 2 and 1.
  EXPECT_EQ(Parts("data: S(0), model: S(0)", 7, Mesh22()), "0+2 2+2 4+2 6+1");
  EXPECT_EQ(Parts("data: S(0), model: S(0)", 5, Mesh22()), "0+2 2+1 3+2 5+0");
  EXPECT_EQ(LocalShape(Parse("data: S(0), model: S(0)", Mesh22()), {5, 3}, Mesh22()),
            Shape({2, 3}));
  EXPECT_EQ(Parts("data: S(0)", 0, Mesh22()), "0+0 0+0 0+0 0+0");
}

TEST(MeshLayoutTest, PartsTileTheTensorWhateverTheSizesAndUnits) {
  for (int64_t n = 0; n <= 13; ++n) {
    for (const char* text : {"data: S(0), model: S(0)", "model: S(0), data: S(0, 2)",
                             "data: S(0, 3), model: S(0, 2)", "data: S(0, 2)", "model: S(0, 5)"}) {
      SCOPED_TRACE(absl::StrCat(text, " of ", n));
      const MeshLayout layout = Parse(text, Mesh23());
      const int64_t padded = LocalShape(layout, {n}, Mesh23())[0];
      std::set<int64_t> held;
      for (int rank = 0; rank < 6; ++rank) {
        const Box box = BoxOf(layout, {n}, Mesh23(), Mesh23().CoordinatesOf(rank));
        EXPECT_LE(box.extent[0], padded);
        EXPECT_LE(box.start[0] + box.extent[0], n);
        EXPECT_TRUE(rank != 0 || box.extent[0] == padded);
        for (int64_t i = 0; i < box.extent[0]; ++i) held.insert(box.start[0] + i);
      }
      EXPECT_EQ(held.size(), n);
    }
  }
}

TEST(MeshLayoutTest, LayoutsAreEqualIfEveryRankHoldsTheSameElements) {
  const auto equal = [](absl::string_view a, absl::string_view b, const Shape& shape,
                        const Mesh& mesh) {
    return HoldSameElements(Parse(a, mesh), Parse(b, mesh), shape, mesh);
  };
  EXPECT_TRUE(equal("data: S(0, 4)", "data: S(0)", {8, 2}, Mesh22()));
  EXPECT_FALSE(equal("data: S(0, 4)", "data: S(0)", {9, 2}, Mesh22()));
  EXPECT_FALSE(equal("data: S(0), model: S(0)", "model: S(0), data: S(0)", {8}, Mesh22()));
  EXPECT_TRUE(equal("data: S(0), model: S(0)", "model: S(0), data: S(0)", {1}, Mesh22()));
  EXPECT_FALSE(equal("data: S(0)", "data: S(1)", {4, 4}, Mesh22()));
  EXPECT_FALSE(equal("data: S(0)", "B", {1, 4}, Mesh22()));
  EXPECT_FALSE(equal("data: P", "B", {4, 4}, Mesh22()));
  EXPECT_FALSE(equal("data: P", "data: P(max)", {4, 4}, Mesh22()));
  const Mesh one = *Mesh::Create({{"data", 1}, {"model", 2}});
  EXPECT_TRUE(equal("data: P", "data: S(1)", {4, 4}, one));
}

TEST(MeshLayoutTest, WithMakesASplitTheInnermost) {
  MeshLayout layout(std::vector<AxisLayout>{AxisLayout::Split(0), AxisLayout::Split(0)});
  EXPECT_THAT(layout.AxesSplitting(0), ElementsAre(0, 1));
  EXPECT_TRUE(layout.IsInnermost(1));
  EXPECT_FALSE(layout.IsInnermost(0));
  layout = layout.With(0, AxisLayout::Split(0));
  EXPECT_THAT(layout.AxesSplitting(0), ElementsAre(1, 0));
  EXPECT_EQ(layout.ToString(Mesh22()), "model: S(0), data: S(0)");
  layout = layout.With(1, AxisLayout::Partial());
  EXPECT_THAT(layout.AxesSplitting(0), ElementsAre(0));
  EXPECT_EQ(layout.ToString(Mesh22()), "data: S(0), model: P");
}

TEST(LayoutTextTest, TextsAndMessagesAreReadBackExactly) {
  const Mesh mesh = *Mesh::Create({{"a", 2}, {"b", 2}, {"c", 2}});
  const std::vector<MeshLayout> layouts =
      AllLayouts(mesh, {AxisLayout::Split(0), AxisLayout::Split(1, 128),
                        AxisLayout::Partial(AxisLayout::Reduction::kLogSumExp)});
  EXPECT_EQ(layouts.size(), 92);
  for (const MeshLayout& layout : layouts) {
    SCOPED_TRACE(layout.ToString(mesh));
    EXPECT_EQ(Parse(layout.ToString(mesh), mesh), layout);
    const absl::StatusOr<MeshLayout> read = FromProto(ToProto(layout, mesh), mesh);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, layout);
  }
}

TEST(LayoutTextTest, ReadsWhatAPersonWrites) {
  EXPECT_EQ(Parse("", Mesh22()), MeshLayout(2));
  EXPECT_EQ(Parse(" B ", Mesh22()), MeshLayout(2));
  EXPECT_EQ(Parse("model:S( 1 ,64 ) , data : P(sum)", Mesh22()).ToString(Mesh22()),
            "data: P, model: S(1, 64)");
  EXPECT_EQ(Parse("data: B, model: P(lse)", Mesh22()).ToString(Mesh22()), "model: P(lse)");
  for (const char* text : {"S(0), B -> S(0)", "B, S(0), B -> P(lse), P", " -> S(1)"}) {
    const absl::StatusOr<Signature> signature = ParseSignature(text);
    ASSERT_TRUE(signature.ok()) << signature.status();
    EXPECT_EQ(signature->ToString(), text);
    const absl::StatusOr<Signature> read = FromProto(ToProto(*signature));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->ToString(), signature->ToString());
  }
}

TEST(LayoutTextTest, RandomEditsAreReadOrRefusedAndNeverMore) {
  const std::string characters = "dataomelBSPx(),:-> 0129";
  std::mt19937 random(5);
  int read = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = "model: S(1, 64), data: P(max)";
    for (int edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t at = random() % text.size(), removed = random() % 4;
      const std::string added(random() % 3, characters[random() % characters.size()]);
      text.replace(at, removed, added);
      if (text.empty()) break;
    }
    const absl::StatusOr<MeshLayout> layout = ParseMeshLayout(text, Mesh22());
    if (!layout.ok()) {
      EXPECT_TRUE(absl::IsInvalidArgument(layout.status())) << text;
      EXPECT_EQ(layout.status().message().find('\n'), std::string::npos) << text;
      continue;
    }
    ++read;
    EXPECT_EQ(Parse(layout->ToString(Mesh22()), Mesh22()), *layout) << text;
  }
  EXPECT_GT(read, 100);
}

TEST(LayoutTextTest, ErrorsQuoteWhatWasReadAndSayWhatWouldBeRight) {
  const auto error = [](absl::string_view text) {
    return std::string(ParseMeshLayout(text, Mesh22()).status().message());
  };
  EXPECT_EQ(error("date: S(0)"),
            "the mesh (data: 2, model: 2) has no axis 'date'; did you mean 'data'?");
  EXPECT_THAT(error("data: S(0), data: B"), HasSubstr("names axis 'data' twice"));
  EXPECT_EQ(error("S(0)"),
            "'S(0)' in layout 'S(0)' names no axis; a clause looks like 'data: S(0)'");
  for (const char* text : {"S", "S()", "S(0", "S(-1)", "S(64)", "S(0, 0)", "S(0, 1, 2)", "P(mean)",
                           "S(0, 9999999999999999)", "T", "", "S(0,)", "S(x)", "P()", "B B"}) {
    EXPECT_THAT(error(absl::StrCat("data: ", text)), HasSubstr("is no layout; one is B, S("))
        << text;
  }
  EXPECT_THAT(error("data: B,"), HasSubstr("'' in layout"));
  EXPECT_EQ(error("da\nta: B"),
            "the mesh (data: 2, model: 2) has no axis 'da\\nta'; did you mean 'data'?");
  EXPECT_THAT(error(std::string(5000, ' ')), HasSubstr("5000 characters"));
  EXPECT_THAT(ParseSignature("S(0), B").status().message(), HasSubstr("is no signature"));
}

TEST(LayoutProtoTest, MessagesOutOfRangeAreRefused) {
  AxisLayoutProto split;
  split.set_kind(AxisLayoutProto::SPLIT);
  split.set_dim(-1);
  EXPECT_THAT(FromProto(split).status().message(), HasSubstr("dimension -1"));
  split.set_dim(0);
  split.set_unit(-3);
  EXPECT_THAT(FromProto(split).status().message(), HasSubstr("units of -3"));
  split.set_unit(0);
  EXPECT_EQ(*FromProto(split), AxisLayout::Split(0));
  split.set_kind(static_cast<AxisLayoutProto::Kind>(77));
  EXPECT_THAT(FromProto(split).status().message(), HasSubstr("kind 77"));
  LayoutProto layout;
  layout.add_clauses()->set_axis("pipe");
  EXPECT_THAT(FromProto(layout, Mesh22()).status().message(), HasSubstr("has no axis"));
  layout.mutable_clauses(0)->set_axis("data");
  *layout.add_clauses() = layout.clauses(0);
  EXPECT_THAT(FromProto(layout, Mesh22()).status().message(), HasSubstr("twice"));
  EXPECT_EQ(*Mesh::Create(AxesFromProto(ToProto(Mesh23()))), Mesh23());
  auto axes = ToProto(Mesh23());
  axes[0].set_size(int64_t{1} << 40);
  EXPECT_FALSE(Mesh::Create(AxesFromProto(axes)).ok());
}

TEST(CheckLayoutTest, ErrorsNameTheAxisAndTheShape) {
  const auto error = [](absl::string_view text, const Shape& shape) {
    return std::string(CheckLayout(Parse(text, Mesh22()), shape, Mesh22()).message());
  };
  EXPECT_EQ(error("data: S(0), model: S(1)", {4, 4}), "");
  EXPECT_EQ(error("data: S(0), model: S(2)", {4, 4}),
            "layout 'data: S(0), model: S(2)' does not fit [4, 4]: S(2) along axis 'model' splits "
            "a dimension that is not in 0..1");
  EXPECT_THAT(error("data: P, model: P(max)", {4, 4}), HasSubstr("cannot be combined with P"));
  EXPECT_THAT(CheckLayout(MeshLayout(1), {4}, Mesh22()).message(), HasSubstr("over 1 axes"));
}

}  // namespace
}  // namespace tessera
