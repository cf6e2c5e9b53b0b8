#include "core/train/data/data_position.h"

#include <fstream>
#include <string>

#include "core/train/data/synthetic_dataset.h"
#include "core/train/data/text_dataset.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

TEST(DataPositionTest, RowsOfAnotherLengthBeginTheNextEpoch) {
  const std::string path = ::testing::TempDir() + "/text.txt";
  std::ofstream(path) << std::string(10'000, 'x');
  const auto text = TextDataset::Open(path, 9, 1);
  ASSERT_TRUE(text.ok()) << text.status();
  const int64_t epoch = (*text)->RowsPerEpoch(9);
  EXPECT_EQ(epoch, (*text)->training_windows());
  EXPECT_EQ(epoch, (9000 - 9) / 10);
  const auto rows = [&](int64_t taken, int64_t sequence) {
    const DataPosition position = PositionFor({taken, 9}, sequence, **text);
    EXPECT_EQ(position.sequence, sequence);
    return position.rows;
  };
  EXPECT_EQ(rows(5 * epoch + 7, 9), 5 * epoch + 7);
  const int64_t other = (*text)->RowsPerEpoch(19);
  EXPECT_EQ(other, (9000 - 19) / 20);
  EXPECT_EQ(rows(0, 19), 0);
  EXPECT_EQ(rows(1, 19), other);
  EXPECT_EQ(rows(epoch, 19), other);
  EXPECT_EQ(rows(epoch + 1, 19), 2 * other);
  // Longer than a tenth of the text, and than all of it: what a run with it would take.
  EXPECT_EQ((*text)->RowsPerEpoch(1999), (8000 - 1999) / 2000);
  EXPECT_EQ((*text)->RowsPerEpoch(20'000), 1);
}

TEST(DataPositionTest, DataWithoutAnEndGoesOnAfterAsManyRows) {
  const auto random = SyntheticDataset::Create({}, 0, 1);
  ASSERT_TRUE(random.ok());
  EXPECT_EQ(PositionFor({123, 9}, 19, **random).rows, 123);
}

}  // namespace
}  // namespace tessera
