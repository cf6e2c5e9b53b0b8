#include "core/train/state/state_part.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr int64_t kPadding = -1;

// Returns the elements of the global tensor in a rank's padded part, computed by iterating over the
// box.
std::vector<int64_t> PaddedElements(const Box& box, const Shape& padded, const Shape& global) {
  std::vector<int64_t> elements(NumElements(padded));
  const Strides strides = RowMajorStrides(padded), of_global = RowMajorStrides(global);
  for (size_t i = 0; i < elements.size(); ++i) {
    for (size_t d = 0; d < global.size(); ++d) {
      const int64_t index = static_cast<int64_t>(i) / strides[d] % padded[d];
      if (index >= box.extent[d]) {
        elements[i] = kPadding;
        break;
      }
      elements[i] += (box.start[d] + index) * of_global[d];
    }
  }
  return elements;
}

// Returns the elements in the buffer of a part, computed from the part's runs. Elements in no run
// are padding.
std::vector<int64_t> BufferElements(const StatePart& part) {
  std::vector<int64_t> of_shard(part.shard.size(), kPadding);
  SharedRuns runs(FullShard(part.global), part.shard);
  while (const std::optional<SharedRun> run = runs.Next()) {
    for (int64_t i = 0; i < run->count; ++i) of_shard[run->second + i] = run->first + i;
  }
  EXPECT_THAT(of_shard, Each(testing::Ge(0)));
  std::vector<int64_t> buffer(part.buffer.size(), kPadding);
  // In chunks of 3 elements.
  for (int64_t first = 0; first < part.shard.size(); first += 3) {
    const int64_t count = std::min<int64_t>(3, part.shard.size() - first);
    SharedRuns runs(part.shard.Part(first, first + count), part.buffer);
    while (const std::optional<SharedRun> run = runs.Next()) {
      EXPECT_TRUE(run->first >= 0 && run->first + run->count <= count);
      for (int64_t i = 0; i < run->count; ++i) {
        buffer[run->second + i] = of_shard[first + run->first + i];
      }
    }
  }
  return buffer;
}

PartRule Rule(const Shape& global, MeshLayout layout) {
  return {global, Shape(global.size(), 0), global, std::move(layout)};
}

std::vector<PartRule> Rules() {
  const AxisLayout b = AxisLayout::Broadcast();
  std::vector<PartRule> rules;
  for (const Shape& global : {Shape{7, 5}, Shape{1, 3}, Shape{0, 4}, Shape{4, 6}}) {
    for (const AxisLayout& first :
         {b, AxisLayout::Split(0), AxisLayout::Split(1), AxisLayout::Split(0, 3)}) {
      for (const AxisLayout& second : {b, AxisLayout::Split(0), AxisLayout::Split(1)}) {
        rules.push_back(Rule(global, MeshLayout({first, second})));
        // The axes are nested the other way round.
        rules.push_back(Rule(global, MeshLayout(2).With(1, second).With(0, first)));
      }
    }
  }
  // A slice of a tensor.
  rules.push_back({{9, 5}, {4, 0}, {5, 5}, MeshLayout({AxisLayout::Split(0), b})});
  return rules;
}

TEST(StatePartTest, ABufferHoldsThePaddedPart) {
  const Mesh mesh = *Mesh::Create({{"a", 2}, {"b", 3}});
  for (const PartRule& rule : Rules()) {
    SCOPED_TRACE(rule.ToString(mesh));
    ASSERT_TRUE(CheckPart(rule, mesh).ok());
    std::vector<int> saved(NumElements(rule.global), 0);
    std::vector<int> lowest(NumElements(rule.global), -1);
    for (int rank = 0; rank < mesh.size(); ++rank) {
      const MeshCoordinates coordinates = mesh.CoordinatesOf(rank);
      const StatePart part = PartOnRank(rule, nullptr, mesh, coordinates);
      const auto elements =
          PaddedElements(rule.At(mesh, coordinates), rule.LocalShape(mesh), rule.global);
      ASSERT_EQ(BufferElements(part), elements) << rank;
      for (int64_t element : elements) {
        if (element == kPadding) continue;
        if (lowest[element] < 0) lowest[element] = rank;
        EXPECT_EQ(part.saves, lowest[element] == rank) << rank;
        saved[element] += static_cast<int>(part.saves);
      }
    }
    const int first = rule.start.empty() ? 0 : static_cast<int>(rule.start[0] * rule.global[1]);
    for (size_t i = first; i < saved.size(); ++i) EXPECT_EQ(saved[i], 1) << i;
  }
}

TEST(StatePartTest, AFlatMemberHoldsARangeOfThePartWithoutPadding) {
  const Mesh mesh = *Mesh::Create({{"a", 2}, {"b", 3}});
  for (int flat_axis : {0, 1}) {
    for (PartRule rule : Rules()) {
      rule.layout = rule.layout.With(flat_axis, AxisLayout::Broadcast());
      SCOPED_TRACE(rule.ToString(mesh));
      const FlatGroup group = *FlatGroup::Create(
          std::vector<FlatGroup::Member>{{{3}, 1}, {rule.LocalShape(mesh), 2}, {{8}, 1}},
          mesh.axis(flat_axis).size);
      const FlatRule flat = {std::make_shared<FlatGroup>(group), {flat_axis}, 1};
      std::vector<int> saved(NumElements(rule.global), 0);
      for (int rank = 0; rank < mesh.size(); ++rank) {
        const MeshCoordinates coordinates = mesh.CoordinatesOf(rank);
        const StatePart part = PartOnRank(rule, &flat, mesh, coordinates);
        const Box box = rule.At(mesh, coordinates);
        const auto all = PaddedElements(box, box.extent, rule.global);
        const FlatGroup::Range held = flat.HeldAt(mesh, coordinates, NumElements(box.extent));
        const std::vector<int64_t> elements(all.begin() + held.begin, all.begin() + held.end);
        ASSERT_EQ(BufferElements(part), elements) << rank;
        ASSERT_TRUE(CheckShard(part.shard, rule.global).ok());
        for (int64_t element : elements) {
          saved[element] += static_cast<int>(part.saves);
        }
      }
      const auto first = static_cast<size_t>(rule.start[0] * rule.global[1]);
      for (size_t i = first; i < saved.size(); ++i) EXPECT_EQ(saved[i], 1) << i;
    }
  }
}

TEST(StatePartTest, OneRankHoldsAll) {
  const StatePart part = FullPart({2, 2});
  EXPECT_TRUE(part.saves);
  EXPECT_THAT(BufferElements(part), ElementsAre(0, 1, 2, 3));
}

}  // namespace
}  // namespace tessera
