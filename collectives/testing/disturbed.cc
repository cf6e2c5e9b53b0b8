#include "collectives/testing/disturbed.h"

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/status/status_macros.h"
#include "core/tensor/random.h"

namespace tessera::comm {
namespace {

// A group that passes all operations to another group.
class Disturbed : public Communicator {
 public:
  explicit Disturbed(std::unique_ptr<Communicator> group)
      : Communicator(group->name(), group->rank(), group->size()), group_(std::move(group)) {}

  absl::Status Wait(Ticket ticket) override { return group_->Wait(ticket); }
  bool Test(Ticket ticket) override { return group_->Test(ticket); }
  bool HasEnded(Ticket ticket) const override { return group_->HasEnded(ticket); }
  CompletionSource* SourceOf(Ticket ticket) override { return group_->SourceOf(ticket); }
  Exchange SplitExchange() override { return group_->SplitExchange(); }
  void set_grace_period(double seconds) override { group_->set_grace_period(seconds); }
  Traffic traffic() const override { return group_->traffic(); }
  std::string note() const override { return group_->note(); }

 protected:
  Ticket Start(const Request& request, const absl::Status& status) override {
    const absl::Status disturbed = status.ok() ? Disturb(request) : status;
    if (disturbed.ok()) return group_->Issue(request);
    group_->Abort(disturbed);
    return kFailureTicket;
  }
  absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(absl::string_view name,
                                                          absl::Span<const int> colors,
                                                          Contents contents) override {
    return group_->Split(name, colors, contents);
  }

  // Runs before an operation is issued; an error ends the group.
  virtual absl::Status Disturb(const Request& request) = 0;

 private:
  const std::unique_ptr<Communicator> group_;
};

// Disturbs one operation by a delay or a failure.
class FaultyGroup : public Disturbed {
 public:
  FaultyGroup(std::unique_ptr<Communicator> group, const Fault& fault)
      : Disturbed(std::move(group)), fault_(fault) {}

 protected:
  absl::Status Disturb(const Request& request) override {
    if (++issued_ != fault_.operation) return absl::OkStatus();
    std::this_thread::sleep_for(std::chrono::duration<double>(fault_.delay_seconds));
    if (!fault_.fails) return absl::OkStatus();
    return absl::AbortedError(absl::StrCat(Describe(request), ": injected fault"));
  }

 private:
  const Fault fault_;
  int64_t issued_ = 0;
};

// Disturbs operations by random pauses.
class PermutedGroup : public Disturbed {
 public:
  PermutedGroup(std::unique_ptr<Communicator> group, uint64_t seed)
      : Disturbed(std::move(group)), seed_(seed), stream_(MakeStream(seed, name())) {}

 protected:
  // No pause, or one that lets another rank go first, or a long one.
  absl::Status Disturb(const Request& /*request*/) override {
    const uint64_t random = RandomWord(stream_, static_cast<uint64_t>(rank()), issued_++);
    if (random % 4 == 0) std::this_thread::yield();
    if (random % 32 == 1) {
      std::this_thread::sleep_for(std::chrono::microseconds(random / 32 % 300));
    }
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(absl::string_view name,
                                                          absl::Span<const int> colors,
                                                          Contents contents) override {
    ASSIGN_OR_RETURN(std::unique_ptr<Communicator> group,
                     Disturbed::MakeGroup(name, colors, contents));
    return group == nullptr ? nullptr : WithPermutedTiming(std::move(group), seed_);
  }

 private:
  const uint64_t seed_;
  const RandomStream stream_;
  int64_t issued_ = 0;
};

}  // namespace

absl::StatusOr<RankFault> ParseFault(absl::string_view text, int size) {
  const std::vector<std::string> words = absl::StrSplit(text, ':');
  RankFault result;
  const bool is_complete = words.size() == 3 && absl::SimpleAtoi(words[0], &result.rank) &&
                           result.rank >= 0 && result.rank < size &&
                           absl::SimpleAtoi(words[1], &result.fault.operation) &&
                           result.fault.operation > 0;
  result.fault.fails = is_complete && words[2] == "fail";
  if (is_complete &&
      (result.fault.fails || (absl::SimpleAtod(words[2], &result.fault.delay_seconds) &&
                              result.fault.delay_seconds >= 0))) {
    return result;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the fault '", text, "' is not RANK:N:fail or RANK:N:SECONDS, such as 1:7:0.5, ",
                   "with a rank from 0 to ", size - 1));
}

std::unique_ptr<Communicator> WithFault(std::unique_ptr<Communicator> group, const Fault& fault) {
  return std::make_unique<FaultyGroup>(std::move(group), fault);
}

std::unique_ptr<Communicator> WithPermutedTiming(std::unique_ptr<Communicator> group,
                                                 uint64_t seed) {
  return std::make_unique<PermutedGroup>(std::move(group), seed);
}

}  // namespace tessera::comm
