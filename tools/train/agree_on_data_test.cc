// Tests the agreement on data with ranks that are threads of this process.
#include "tools/train/agree_on_data.h"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collectives/fake/fake.h"
#include "core/status/status_macros.h"
#include "core/train/testing/bigram.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

// Data that must be compared, which takes a while.
class TouchedDataset : public Dataset {
 public:
  explicit TouchedDataset(absl::Status same) : same_(std::move(same)) {}

  const std::vector<BatchField>& fields() const override { return fields_; }
  absl::Status Read(DataSplit, size_t, const Box&, absl::Span<char>) const override {
    return absl::OkStatus();
  }
  bool MustCompare() const override { return true; }
  absl::Status Compare() const override {
    std::this_thread::sleep_for(std::chrono::seconds(2));
    return same_;
  }
  int64_t RowsPerEpoch(int64_t) const override { return 0; }
  std::string Fingerprint() const override { return ""; }
  int64_t EvaluationRows() const override { return 0; }

 private:
  const absl::Status same_;
  const std::vector<BatchField> fields_;
};

// Data that never change.
class QuietDataset : public TouchedDataset {
 public:
  QuietDataset() : TouchedDataset(absl::OkStatus()) {}
  bool MustCompare() const override { return false; }
  absl::Status Compare() const override { return absl::OkStatus(); }
};

struct Agreement {
  absl::Status status;  // of the agreement
  bool data_failed = false;
  absl::Status read;
};

// Two ranks, of which rank 1 has the data `touched`. A step's time-out is 1 second.
std::vector<Agreement> Agree(const Dataset& touched) {
  const QuietDataset quiet;
  std::vector<Agreement> agreements(2);
  comm::RunFake({.ranks = 2, .timeout_seconds = 1}, [&](comm::World& world) -> absl::Status {
    ASSIGN_OR_RETURN(const std::unique_ptr<Ranks> ranks, Ranks::Create(&world));
    const Dataset* const dataset = ranks->rank() == 0 ? &quiet : &touched;
    const BigramModel model;
    Trainer trainer(RunConfig(), &model, nullptr, dataset, ranks.get());
    StopRequest stop(ranks.get());
    Agreement& mine = agreements[ranks->rank()];
    StopRequest::Report report;
    report.compares_data = trainer.MustCompareData();
    const auto agreed = AgreeOnData(report, trainer, *ranks, stop, &mine.read);
    mine.status = agreed.status();
    if (agreed.ok()) mine.data_failed = agreed->data_failed;
    return mine.status;
  });
  return agreements;
}

// Regression: the others waited for it with the time-out of a step, and the job died unsaved.
TEST(AgreeOnDataTest, AComparisonMayTakeLongerThanAStep) {
  for (const Agreement& each : Agree(TouchedDataset(absl::OkStatus()))) {
    EXPECT_TRUE(each.status.ok()) << each.status;
    EXPECT_FALSE(each.data_failed);
    EXPECT_TRUE(each.read.ok()) << each.read;
  }
}

TEST(AgreeOnDataTest, AllRanksLearnThatTheDataOfOneHaveChanged) {
  const std::vector<Agreement> agreements =
      Agree(TouchedDataset(absl::FailedPreconditionError("the file was changed")));
  for (const Agreement& each : agreements) {
    EXPECT_TRUE(each.status.ok()) << each.status;
    EXPECT_TRUE(each.data_failed);
  }
  EXPECT_TRUE(agreements[0].read.ok());
  EXPECT_THAT(std::string(agreements[1].read.message()), HasSubstr("the file was changed"));
}

}  // namespace
}  // namespace tessera
