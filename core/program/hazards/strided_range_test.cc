// Compares counts with those of sets of elements.
#include "core/program/hazards/strided_range.h"

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace tessera {
namespace {

struct View {
  int64_t offset;
  std::vector<int64_t> shape, strides;

  StridedRange Range() const { return StridedRange(offset, shape, strides); }
  std::set<int64_t> Elements() const {
    std::set<int64_t> elements = {offset};
    for (size_t d = 0; d < shape.size(); ++d) {
      std::set<int64_t> next;
      for (int64_t i = 0; i < shape[d]; ++i) {
        for (int64_t at : elements) next.insert(at + i * strides[d]);
      }
      elements = std::move(next);
    }
    return elements;
  }
};

// Returns a part of a row-major tensor: ranges of its dimensions, permuted, some of them split in
// two.
View RandomView(std::mt19937& random) {
  const std::vector<std::vector<int64_t>> tensors = {{24}, {4, 6}, {2, 3, 4}, {3, 8}, {2, 2, 2, 3}};
  const std::vector<int64_t>& shape = tensors[random() % tensors.size()];
  View view{0, {}, {}};
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    const int64_t first = static_cast<int64_t>(random() % shape[d]);
    const int64_t size = 1 + static_cast<int64_t>(random() % (shape[d] - first));
    view.offset += first * stride;
    if (size % 2 == 0 && random() % 2 == 0) {
      view.shape.insert(view.shape.end(), {size / 2, 2});
      view.strides.insert(view.strides.end(), {2 * stride, stride});
    } else {
      view.shape.push_back(size);
      view.strides.push_back(random() % 8 == 0 ? 0 : stride);
    }
    stride *= shape[d];
  }
  return view;
}

TEST(StridedRange, CountsCommonElements) {
  std::mt19937 random(1);
  int overlapping = 0;
  for (int i = 0; i < 100000; ++i) {
    const View a = RandomView(random), b = RandomView(random);
    const std::set<int64_t> in_a = a.Elements(), in_b = b.Elements();
    int64_t common = 0;
    for (int64_t element : in_a) common += static_cast<int64_t>(in_b.count(element));
    ASSERT_EQ(a.Range().elements(), static_cast<int64_t>(in_a.size())) << i;
    ASSERT_EQ(a.Range().end(), *in_a.rbegin() + 1) << i;
    ASSERT_EQ(StridedRange::CommonElements(a.Range(), b.Range()), common) << i;
    ASSERT_EQ(StridedRange::CommonElements(b.Range(), a.Range()), common) << i;
    if (common > 0) ++overlapping;
  }
  EXPECT_GT(overlapping, 10000);
}

TEST(StridedRange, OfManyRowsTakesNoLoopOverThem) {
  constexpr int64_t kRows = int64_t{1} << 40;
  const StridedRange all(0, {kRows, 12}, {12, 1});
  const StridedRange column(4, {kRows, 4}, {12, 1});
  EXPECT_EQ(StridedRange::CommonElements(all, column), 4 * kRows);
  const StridedRange next(8, {kRows, 4}, {12, 1});
  EXPECT_EQ(StridedRange::CommonElements(next, column), 0);
}

TEST(StridedRange, OfNoElementsHasNoneInCommon) {
  const StridedRange none(3, {0, 4}, {4, 1}), all(0, {24}, {1});
  EXPECT_EQ(none.elements(), 0);
  EXPECT_EQ(StridedRange::CommonElements(none, all), 0);
}

}  // namespace
}  // namespace tessera
