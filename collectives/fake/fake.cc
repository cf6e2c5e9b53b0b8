#include "collectives/fake/fake.h"

#include <chrono>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/testing/disturbed.h"
#include "core/status/status_macros.h"
#include "core/sync/mutex.h"

namespace tessera::comm {
namespace {

constexpr std::chrono::seconds kExchangeTimeout{60};

// Exchanges texts among all threads.
class Board {
 public:
  explicit Board(int ranks) : ranks_(ranks) {}

  // Records that the thread of a rank has ended with an error, so that no thread waits for its
  // texts.
  void Fail(int rank, const absl::Status& why) {
    MutexLock lock(&mutex_);
    if (failure_.ok()) {
      failure_ = absl::AbortedError(absl::StrCat("rank ", rank, " has failed: ", why.message()));
    }
    changed_.NotifyAll();
  }

  Exchange ExchangeOf(int rank) {
    return [this, rank](absl::string_view key, absl::string_view mine) {
      return ExchangeTexts(rank, std::string(key), mine);
    };
  }

 private:
  struct Round {
    std::vector<std::string> texts;  // by rank
    int arrived = 0;
  };

  absl::StatusOr<std::vector<std::string>> ExchangeTexts(int rank, const std::string& key,
                                                         absl::string_view mine) {
    const auto end = std::chrono::steady_clock::now() + kExchangeTimeout;
    MutexLock lock(&mutex_);
    // A key may be used several times: each use is a round of its own.
    Round& round = rounds_[absl::StrCat(key, "#", uses_[{key, rank}]++)];
    round.texts.resize(ranks_);
    round.texts[rank] = std::string(mine);
    ++round.arrived;
    changed_.NotifyAll();
    while (round.arrived < ranks_ && failure_.ok() && changed_.WaitUntil(lock, end)) {
    }
    if (round.arrived == ranks_) return round.texts;
    RETURN_IF_ERROR(failure_);
    return absl::DeadlineExceededError(
        absl::StrCat(ranks_ - round.arrived, " of ", ranks_, " ranks did not come to ", key));
  }

  const int ranks_;
  Mutex mutex_;
  ConditionVariable changed_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<std::string, int>, int> uses_ ABSL_GUARDED_BY(mutex_);  // of a key by a rank
  std::map<std::string, Round> rounds_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

const std::string& FakeRank::backend() const {
  static const std::string* const name = new std::string("fake");
  return *name;
}

absl::Status FakeRank::Copy(void* to, const void* from, int64_t bytes) {
  std::memmove(to, from, bytes);
  return absl::OkStatus();
}

absl::Status FakeRank::Leave(const absl::Status& why) {
  if (!why.ok()) world_->Abort(why);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<FakeRank>> MakeFakeRank(int rank, const FakeOptions& options,
                                                       const Exchange& exchange) {
  auto self = std::make_unique<FakeRank>();
  ASSIGN_OR_RETURN(self->shm_, shm::Backend::Create(rank, options.ranks, exchange,
                                                    {.timeout_seconds = options.timeout_seconds,
                                                     .memory = {.guarded = options.guarded}}));
  ASSIGN_OR_RETURN(self->world_, self->shm_->World());
  if (options.seed != 0) {
    self->world_ = WithPermutedTiming(std::move(self->world_), options.seed);
  }
  return self;
}

std::vector<absl::Status> RunThreads(
    int ranks, const std::function<absl::Status(int rank, const Exchange& exchange)>& body) {
  Board board(ranks);
  std::vector<absl::Status> results(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      results[rank] = body(rank, board.ExchangeOf(rank));
      if (!results[rank].ok()) board.Fail(rank, results[rank]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

std::vector<absl::Status> RunFake(const FakeOptions& options,
                                  const std::function<absl::Status(World& rank)>& body) {
  return RunThreads(options.ranks, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const std::unique_ptr<FakeRank> self, MakeFakeRank(rank, options, exchange));
    absl::Status status = body(*self);
    if (!status.ok()) self->Leave(status).IgnoreError();
    return status;
  });
}

}  // namespace tessera::comm
