#include "tools/train/row_table.h"

#include <limits>
#include <memory>

#include "core/train/data/synthetic_dataset.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

TEST(RowTableTest, HasALineForEachRow) {
  // Labels of one class: all of them are 0. Fields of several values are no columns.
  const auto data = SyntheticDataset::Create(
      {{"pictures", {DType::kU8, {2, 2}}, 256}, {"labels", {DType::kI32, {}}, 1}}, 5, 1);
  ASSERT_TRUE(data.ok()) << data.status();
  RowTable table(data->get());
  EXPECT_EQ(table.text(), "");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  PredictedRows rows = {
      0, 2, {{"class", true, 1, {7, -1}}, {"two", false, 2, {0.5, 1e-20, nan, 3}}}};
  ASSERT_TRUE(table.Add(rows).ok());
  rows = {2, 1, {{"class", true, 1, {123456789}}, {"two", false, 2, {1.0f / 3, -2.5}}}};
  ASSERT_TRUE(table.Add(rows).ok());
  EXPECT_EQ(table.rows(), 3);
  EXPECT_EQ(table.text(),
            "row\tlabels\tclass\ttwo_1\ttwo_2\n"
            "0\t0\t7\t0.5\t1e-20\n"
            "1\t0\t-1\tnan\t3\n"
            "2\t0\t123456789\t0.333333343\t-2.5\n");
  rows.first = 5;
  EXPECT_EQ(table.Add(rows).code(), absl::StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace tessera
