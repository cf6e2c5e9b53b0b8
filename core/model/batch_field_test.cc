#include "core/model/batch_field.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

const std::vector<BatchField>& Pictures() {
  static const auto* const fields =
      new std::vector<BatchField>{{"pictures", {DType::kU8, {28, 28, 1}}, 256},
                                  {"labels", {DType::kI32, {}}, 10, -100, "model.classes"}};
  return *fields;
}

TEST(BatchFieldTest, DataMustHaveWhatAModelReads) {
  EXPECT_TRUE(CheckFields(Pictures(), Pictures()).ok());
  EXPECT_TRUE(CheckFields({}, Pictures()).ok());
  const std::vector<BatchField> text = {{"tokens", {DType::kI32, {64}}, 256},
                                        {"targets", {DType::kI32, {64}}, 256, -100}};
  EXPECT_EQ(CheckFields(Pictures(), text).message(),
            "the model reads pictures u8[28, 28, 1] in each row, and the data have tokens i32[64] "
            "and targets i32[64]");
  std::vector<BatchField> larger = Pictures();
  larger[0].type.shape = {32, 32, 3};
  EXPECT_THAT(std::string(CheckFields(Pictures(), larger).message()),
              HasSubstr("reads pictures u8[28, 28, 1] in each row, and the data have pictures "
                        "u8[32, 32, 3] and labels i32[]"));
}

TEST(BatchFieldTest, ValuesMustBeBelowTheModelsLimit) {
  std::vector<BatchField> data = Pictures();
  data[1].limit = 9;
  EXPECT_TRUE(CheckFields(Pictures(), data).ok());
  data[1].limit = 12;
  EXPECT_EQ(CheckFields(Pictures(), data).message(),
            "model.classes is 10: labels of the data have 12 values, so it must be 12 or more");
  data[1].limit = 0;
  EXPECT_EQ(CheckFields(Pictures(), data).message(),
            "model.classes is 10: labels of the data have any values");
}

}  // namespace
}  // namespace tessera
