#include "core/cost/prices/price_file.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_replace.h"
#include "core/kernels/reference/backend.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class PriceFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = ::testing::TempDir() + "/" + test->name() + "/prices.json";
    std::filesystem::remove(path_);
  }

  static MeasuredPrices One(double seconds) {
    MeasuredWork measured;
    measured.family = "relu f32 -> f32 threads=1 by highway";
    measured.cost.flops = 8;
    measured.cost.bytes = 64;
    measured.dimensions = {8};
    measured.seconds = {seconds};
    MeasuredPrices prices;
    prices.kernels.Set({"relu f32[8] -> f32[8] threads=1", "highway", 2}, std::move(measured));
    return prices;
  }
  std::string Text() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Write(const std::string& text) const { std::ofstream(path_) << text; }
  PricesOfFile Read() const { return ReadPriceFile(path_, *backend_); }

  const std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
  std::string path_;
};

TEST_F(PriceFileTest, ReturnsWhatWasAdded) {
  EXPECT_TRUE(Read().prices.empty());
  EXPECT_THAT(Read().note, IsEmpty());
  ASSERT_TRUE(AddToPriceFile(path_, *backend_, One(0.25)).ok());
  ASSERT_TRUE(AddToPriceFile(path_, *backend_, One(0.5)).ok());
  const PricesOfFile read = Read();
  ASSERT_EQ(read.prices.kernels.works().size(), 1);
  const auto& [work, measured] = *read.prices.kernels.works().begin();
  EXPECT_EQ(work.request, "relu f32[8] -> f32[8] threads=1");
  EXPECT_EQ(work.kernel, "highway");
  EXPECT_EQ(work.ranks, 2);
  EXPECT_EQ(measured.family, "relu f32 -> f32 threads=1 by highway");
  EXPECT_EQ(measured.cost.flops, 8);
  EXPECT_EQ(measured.cost.bytes, 64);
  EXPECT_THAT(measured.dimensions, ::testing::ElementsAre(8));
  EXPECT_THAT(measured.seconds, ::testing::ElementsAre(0.25, 0.5));
}

TEST_F(PriceFileTest, EntriesThatNoMeasurementMakesAreLeftOut) {
  ASSERT_TRUE(AddToPriceFile(path_, *backend_, One(0.25)).ok());
  const std::string good = Text();
  const std::pair<const char*, const char*> damages[] = {
      {"0.25", "-1"},          {"0.25", "\"x\""},
      {"0.25", "1e9"},         {"\"f32\"", "\"f99\""},
      {"8.0", "null"},         {"2 ranks", "ranks"},
      {"64.0", "-1.0"},        {", 2 ranks", ""},
      {"0.25", "1,1,1,1,1,1"}, {"\"dimensions\"", "\"dims\""}};
  for (const auto& [from, to] : damages) {
    const std::string damaged = absl::StrReplaceAll(good, {{from, to}});
    ASSERT_NE(damaged, good) << from;
    Write(damaged);
    EXPECT_TRUE(Read().prices.empty()) << from << " " << to;
    ASSERT_TRUE(AddToPriceFile(path_, *backend_, One(0.5)).ok());
    EXPECT_EQ(Read().prices.kernels.works().size(), 1);
  }
}

TEST_F(PriceFileTest, AFileOfSomethingElseIsReportedAndMadeAnew) {
  ASSERT_TRUE(AddToPriceFile(path_, *backend_, One(0.25)).ok());
  const std::string good = Text();
  const std::pair<std::string, const char*> files[] = {
      {"no json", "is no file of prices"},
      {absl::StrReplaceAll(good, {{"\"format\": 4", "\"format\": 1"}}), "is not of format 4"},
      {absl::StrReplaceAll(good, {{"reference", "another"}}), "are of other processors"},
      {absl::StrReplaceAll(good, {{"\"libraries\": \"", "\"libraries\": \"other "}}),
       "were measured with other versions"}};
  for (const auto& [text, note] : files) {
    ASSERT_NE(text, good);
    Write(text);
    EXPECT_TRUE(Read().prices.empty());
    EXPECT_THAT(Read().note, HasSubstr(note));
    EXPECT_THAT(Read().note, Not(HasSubstr("\n")));
    ASSERT_TRUE(AddToPriceFile(path_, *backend_, One(0.25)).ok());
    EXPECT_EQ(Read().prices.kernels.works().size(), 1);
  }
}

}  // namespace
}  // namespace tessera
