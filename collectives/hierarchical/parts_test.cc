// A group ends only when none of its parts uses the buffers any more. The parts are fakes, of which
// the test decides when they end.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "collectives/hierarchical/group.h"
#include "core/tensor/rank_placement.h"
#include "gtest/gtest.h"

namespace tessera::comm::hierarchical {
namespace {

constexpr auto kMoment = std::chrono::milliseconds(1);

void WaitFor(const std::function<bool()>& done) {
  while (!done()) std::this_thread::sleep_for(kMoment);
}

bool IsFailureTicket(Ticket ticket) { return ticket.number == kFailureTicket.number; }

class FakePart : public Communicator, public CompletionSource {
 public:
  using Communicator::Communicator;
  ~FakePart() override {
    if (aborting_.joinable()) aborting_.join();
  }

  // The test decides these.
  bool ends_at_once = false;                 // every operation
  std::chrono::milliseconds abort_takes{0};  // another thread is at work meanwhile
  std::atomic<bool> is_held = false;         // Wait does not return
  void Fail() { failed_ = true; }
  // It can see these.
  bool has_failed() const { return failed_; }
  bool is_in_wait() const { return in_wait_; }

  absl::Status Wait(Ticket ticket) override {
    WaitUntil([&] { return HasEnded(ticket); });
    if (!IsFailureTicket(ticket)) {
      in_wait_ = true;
      WaitFor([&] { return !is_held; });
    }
    return failed_ ? absl::UnavailableError("a rank died") : absl::OkStatus();
  }
  bool Test(Ticket ticket) override { return HasEnded(ticket); }
  bool HasEnded(Ticket ticket) const override {
    return failed_ || (ends_at_once && !IsFailureTicket(ticket));
  }
  CompletionSource* SourceOf(Ticket /*ticket*/) override { return this; }
  void WaitUntil(const std::function<bool()>& done) override { WaitFor(done); }
  void Watch(CompletionWatcher* /*watcher*/) override {}
  void Unwatch(CompletionWatcher* /*watcher*/) override {}

 protected:
  Ticket Start(const Request& request, const absl::Status& status) override {
    if (!status.ok()) {
      if (aborting_.joinable()) return kFailureTicket;
      aborting_ = std::thread([this] {
        std::this_thread::sleep_for(abort_takes);
        failed_ = true;
      });
      return kFailureTicket;
    }
    // All ranks request the same.
    for (int r = 0; request.operation == Operation::kAllGather && r < size(); ++r) {
      const char* const input = static_cast<const char*>(request.input);
      std::copy_n(input, request.part, static_cast<char*>(request.output) + r * request.part);
    }
    return {0, issued_++};
  }
  absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(absl::string_view /*name*/,
                                                          absl::Span<const int>,
                                                          Contents) override {
    return absl::UnimplementedError("");
  }

 private:
  std::atomic<bool> failed_ = false, in_wait_ = false;
  std::atomic<uint64_t> issued_ = 0;
  std::thread aborting_;
};

// Rank 0 of 4 ranks on two hosts. Its requests are agreed on at once.
class PartsTest : public testing::Test {
 protected:
  PartsTest() {
    Subgroups groups;
    groups.local = Make(2, &local_);
    groups.rail = Make(2, &rail_);
    groups.all = Make(4, &all_);
    FakePart *requests = nullptr, *pairs = nullptr;
    for (auto* part : {&groups.local_requests, &groups.rail_requests}) {
      *part = Make(2, &requests);
      requests->ends_at_once = true;
    }
    groups.local_pairs = Make(2, &local_pairs_);
    groups.pairs = Make(4, &pairs);
    group_ = std::make_unique<Group>("world", 0, PlaceRanks({0, 0, 1, 1}), std::move(groups), 1);
  }

  static std::unique_ptr<Communicator> Make(int size, FakePart** part) {
    auto made = std::make_unique<FakePart>("part", 0, size);
    *part = made.get();
    return made;
  }

  FakePart *local_ = nullptr, *rail_ = nullptr, *all_ = nullptr, *local_pairs_ = nullptr;
  std::vector<float> data_ = std::vector<float>(10000);
  std::unique_ptr<Group> group_;
};

// Regression: a part that another thread advances takes an abort later. The group ended before, and
// that thread wrote into buffers which the caller had freed.
TEST_F(PartsTest, APartThatIsStillAtWorkIsWaitedFor) {
  local_->abort_takes = std::chrono::milliseconds(300);
  const Ticket ticket = group_->AllReduce(data_.data(), data_.data(),
                                          static_cast<int64_t>(data_.size()), DType::kF32);
  all_->Fail();
  EXPECT_FALSE(group_->Wait(ticket).ok());
  EXPECT_TRUE(local_->has_failed());
}

// Regression: when a message failed, a collective that another thread was running ended before that
// thread had.
TEST_F(PartsTest, ACollectiveEndsWhenTheThreadThatRunsItHasEnded) {
  local_->ends_at_once = true;
  local_->is_held = true;
  const Ticket collective = group_->AllReduce(data_.data(), data_.data(),
                                              static_cast<int64_t>(data_.size()), DType::kF32);
  WaitFor([&] { return local_->is_in_wait(); });
  const Ticket message = group_->Send(data_.data(), 1, DType::kF32, 1);
  local_pairs_->Fail();
  EXPECT_FALSE(group_->Wait(message).ok());
  EXPECT_FALSE(group_->HasEnded(collective));
  local_->is_held = false;
  EXPECT_FALSE(group_->Wait(collective).ok());
}

}  // namespace
}  // namespace tessera::comm::hierarchical
