#include "core/program/lower/packed_parts.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/layout/layout_text.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

Mesh MakeMesh(const std::vector<int>& sizes) {
  std::vector<Mesh::Axis> axes;
  for (size_t i = 0; i < sizes.size(); ++i) {
    axes.push_back({std::string(1, static_cast<char>('a' + i)), sizes[i]});
  }
  return *Mesh::Create(std::move(axes));
}

MeshLayout Parse(const std::string& text, const Mesh& mesh) {
  const absl::StatusOr<MeshLayout> layout = ParseMeshLayout(text, mesh);
  EXPECT_TRUE(layout.ok()) << layout.status();
  return *layout;
}

// Calls visit(index in the first placement) for each element, in row-major order.
template <typename Visit>
void ForEach(const Shape& shape, const ViewPlacement& placement, const Visit& visit) {
  const Strides strides = RowMajorStrides(shape);
  for (int64_t i = 0; i < NumElements(shape); ++i) {
    int64_t index = placement.offset;
    for (size_t d = 0; d < shape.size(); ++d) {
      index += i / strides[d] % shape[d] * placement.strides[d];
    }
    visit(index);
  }
}

constexpr int64_t kPadding = -1, kUnset = -2;

// Returns the buffer that the copies and the padding make of a tensor with elements 0, 1, ...
std::vector<int64_t> Buffer(const PackedParts& parts) {
  std::vector<int64_t> buffer(parts.elements(), kUnset);
  const auto set = [&](int64_t at, int64_t value) {
    EXPECT_EQ(buffer.at(at), kUnset) << "element " << at << " is written twice";
    buffer.at(at) = value;
  };
  for (const PackedParts::Copy& copy : parts.copies()) {
    std::vector<int64_t> from;
    ForEach(copy.shape, copy.in_tensor, [&](int64_t index) { from.push_back(index); });
    size_t next = 0;
    ForEach(copy.shape, copy.in_buffer, [&](int64_t index) { set(index, from[next++]); });
  }
  for (const PackedParts::Padding& padding : parts.padding()) {
    ForEach(padding.shape, padding.in_buffer, [&](int64_t index) { set(index, kPadding); });
  }
  return buffer;
}

// Returns what the buffer must be: for each rank of the group, its part of the tensor.
std::vector<int64_t> Expected(const Shape& tensor, const MeshLayout& layout, const Mesh& mesh) {
  const Shape part = LocalShape(layout, tensor, mesh);
  const Strides in_tensor = RowMajorStrides(tensor), in_part = RowMajorStrides(part);
  std::vector<int64_t> buffer;
  for (int rank = 0; rank < mesh.size(); ++rank) {
    const Box box = BoxOf(layout, tensor, mesh, mesh.CoordinatesOf(rank));
    for (int64_t i = 0; i < NumElements(part); ++i) {
      int64_t index = 0;
      bool held = true;
      for (size_t d = 0; d < tensor.size(); ++d) {
        const int64_t at = i / in_part[d] % part[d];
        held = held && at < box.extent[d];
        index += (box.start[d] + at) * in_tensor[d];
      }
      buffer.push_back(held ? index : kPadding);
    }
  }
  return buffer;
}

// All nestings of splits of a tensor over all axes of a mesh.
std::vector<MeshLayout> Splits(const Mesh& mesh, int rank) {
  std::vector<AxisLayout> splits;
  for (int d = 0; d < rank; ++d) {
    splits.push_back(AxisLayout::Split(d));
    splits.push_back(AxisLayout::Split(d, 2));
  }
  std::vector<MeshLayout> layouts = {MeshLayout(mesh.num_axes())}, complete;
  for (size_t i = 0; i < layouts.size(); ++i) {
    bool more = false;
    for (int axis = 0; axis < mesh.num_axes(); ++axis) {
      if (!layouts[i].axis(axis).broadcast()) continue;
      more = true;
      for (const AxisLayout& split : splits) layouts.push_back(layouts[i].With(axis, split));
    }
    if (!more) complete.push_back(layouts[i]);
  }
  return complete;
}

TEST(PackedPartsTest, BuffersHoldThePartsOfAllRanksInOrder) {
  int checked = 0;
  for (const std::vector<int>& sizes :
       std::vector<std::vector<int>>{{2}, {3}, {2, 2}, {3, 2}, {2, 1, 3}}) {
    const Mesh mesh = MakeMesh(sizes);
    std::vector<int> axes;
    for (int axis = 0; axis < mesh.num_axes(); ++axis) axes.push_back(axis);
    for (const Shape& tensor :
         std::vector<Shape>{{8, 12}, {5, 7}, {1, 9}, {3, 1, 4}, {2, 6, 5}, {4, 0}, {7}}) {
      for (const MeshLayout& layout : Splits(mesh, static_cast<int>(tensor.size()))) {
        const PackedParts parts(tensor, layout, axes, mesh);
        const std::vector<int64_t> expected = Expected(tensor, layout, mesh);
        ASSERT_EQ(Buffer(parts), expected)
            << ShapeToString(tensor) << " " << layout.ToString(mesh) << " on " << mesh.ToString();
        bool in_order = true;
        for (size_t i = 0; i < expected.size(); ++i) {
          const int64_t here = static_cast<int64_t>(i) < NumElements(tensor) ? i : kPadding;
          in_order = in_order && expected[i] == here;
        }
        EXPECT_EQ(parts.in_order(), in_order);
        EXPECT_EQ(parts.consecutive(), in_order && parts.elements() == NumElements(tensor));
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 3000);
}

TEST(PackedPartsTest, OtherAxesMaySplitTheSameDimension) {
  const Mesh mesh = MakeMesh({2, 2, 2});
  // b splits what a leaves: rows of 4 of 8.
  const MeshLayout layout = Parse("a: S(0), b: S(0), c: S(1)", mesh);
  const PackedParts parts({4, 6}, layout, {1, 2}, mesh);
  EXPECT_EQ(Buffer(parts), Expected({4, 6}, Parse("b: S(0), c: S(1)", mesh),
                                    *Mesh::Create({{"a", 1}, {"b", 2}, {"c", 2}})));
}

std::string ToString(const PackedParts& parts) {
  std::string text;
  for (const PackedParts::Copy& copy : parts.copies()) {
    absl::StrAppend(&text, ShapeToString(copy.shape), " from ", copy.in_tensor.offset, " by ",
                    ShapeToString(copy.in_tensor.strides), " to ", copy.in_buffer.offset, " by ",
                    ShapeToString(copy.in_buffer.strides), "\n");
  }
  return text;
}

TEST(PackedPartsTest, CommonSplitsAreFewCopies) {
  const Mesh mesh = MakeMesh({4, 2});
  const auto copies = [&](const Shape& tensor, const std::string& layout,
                          const std::vector<int>& axes) {
    return ToString(PackedParts(tensor, Parse(layout, mesh), axes, mesh));
  };
  EXPECT_EQ(copies({3, 8, 5}, "a: S(1)", {0}),
            "[4, 3, 2, 5] from 0 by [10, 40, 5, 1] to 0 by [30, 10, 5, 1]\n");
  EXPECT_EQ(copies({3, 7, 5}, "a: S(1)", {0}),
            "[3, 3, 2, 5] from 0 by [10, 35, 5, 1] to 0 by [30, 10, 5, 1]\n"
            "[1, 3, 1, 5] from 30 by [10, 35, 5, 1] to 90 by [30, 10, 5, 1]\n");
  EXPECT_EQ(copies({6, 16}, "a: S(1), b: S(1)", {0, 1}),
            "[8, 6, 2] from 0 by [2, 16, 1] to 0 by [12, 2, 1]\n");
  EXPECT_EQ(copies({6, 16}, "b: S(1), a: S(1)", {0, 1}),
            "[4, 2, 6, 2] from 0 by [2, 8, 16, 1] to 0 by [24, 12, 2, 1]\n");
  EXPECT_EQ(copies({8, 16}, "a: S(0), b: S(1)", {0, 1}),
            "[4, 2, 2, 8] from 0 by [32, 8, 16, 1] to 0 by [32, 16, 8, 1]\n");
  const PackedParts rows({16, 6}, Parse("a: S(0), b: S(0)", mesh), {0, 1}, mesh);
  EXPECT_TRUE(rows.consecutive());
  const PackedParts uneven({15, 6}, Parse("a: S(0), b: S(0)", mesh), {0, 1}, mesh);
  EXPECT_TRUE(uneven.in_order());
  EXPECT_FALSE(uneven.consecutive());
}

}  // namespace
}  // namespace tessera
