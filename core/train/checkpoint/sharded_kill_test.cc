// Ranks, each a process, save together, and one of them is killed at any moment. The newest
// complete checkpoint still opens and is correct, and the next save removes the remains.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/posix/file_descriptor.h"
#include "core/tensor/random.h"
#include "core/train/checkpoint/durable_file.h"
#include "core/train/checkpoint/open_checkpoint.h"
#include "core/train/checkpoint/save_checkpoint.h"
#include "core/train/checkpoint/testing/kill_at_moments.h"
#include "core/train/checkpoint/testing/test_state.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

constexpr int kRanks = 3;

// A pipe for messages. Receiving from a process that has died gives nullopt.
class Channel {
 public:
  Channel() {
    std::array<int, 2> ends;
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    from_ = FileDescriptor(ends[0]);
    to_ = FileDescriptor(ends[1]);
  }

  void KeepReader() { to_ = FileDescriptor(); }
  void KeepWriter() { from_ = FileDescriptor(); }
  void Close() {
    KeepReader();
    KeepWriter();
  }

  void Send(const std::string& message) {
    const size_t size = message.size();
    std::string bytes(reinterpret_cast<const char*>(&size), sizeof(size));
    bytes += message;
    // If the reader has died, this is not an error of this process.
    if (write(to_.get(), bytes.data(), bytes.size()) < 0) _exit(3);
  }

  std::optional<std::string> Receive() {
    size_t size = 0;
    if (!ReadAll(reinterpret_cast<char*>(&size), sizeof(size))) return std::nullopt;
    std::string message(size, '\0');
    if (!ReadAll(message.data(), size)) return std::nullopt;
    return message;
  }

 private:
  bool ReadAll(char* to, size_t size) {
    while (size > 0) {
      const ssize_t count = read(from_.get(), to, size);
      if (count <= 0) return false;
      to += count;
      size -= count;
    }
    return true;
  }

  FileDescriptor from_, to_;
};

// The pipes from rank 0 to each other rank and back. Rank 0 has none.
struct Channels {
  std::array<Channel, kRanks> folders, reports;

  // Keeps the ends of one rank, so that the death of another one closes its pipes.
  void KeepThoseOf(int rank) {
    for (int other = 1; other < kRanks; ++other) {
      if (rank == 0) {
        folders[other].KeepWriter();
        reports[other].KeepReader();
      } else if (other == rank) {
        folders[other].KeepReader();
        reports[other].KeepWriter();
      } else {
        folders[other].Close();
        reports[other].Close();
      }
    }
  }
};

bool SaveAsRank0(const std::string& run, int64_t step, const SaveOptions& options,
                 Channels& channels) {
  auto save = CheckpointSave::Begin(run, ContentsForTest(step), options);
  if (!save.ok()) return false;
  for (int rank = 1; rank < kRanks; ++rank) channels.folders[rank].Send((*save)->folder());
  std::vector<ShardReport> reports(kRanks);
  reports[0] = WriteShardsForTest((*save)->folder(), step, 0, kRanks, options);
  // Waits for every live rank, because a file that one of them writes later would remain.
  bool complete = true;
  for (int rank = 1; rank < kRanks; ++rank) {
    const auto report = channels.reports[rank].Receive();
    complete = complete && report.has_value() && reports[rank].ParseFromString(*report);
  }
  if (!complete) return false;
  return (*save)->Finish(reports).ok();
}

bool SaveAsOther(int64_t step, int rank, const SaveOptions& options, Channels& channels) {
  const auto folder = channels.folders[rank].Receive();
  if (!folder.has_value()) return false;
  channels.reports[rank].Send(
      WriteShardsForTest(*folder, step, rank, kRanks, options).SerializeAsString());
  return true;
}

// Starts a process for each rank, which saves steps from `first` on, to `last` at most.
std::vector<pid_t> StartRanks(const std::string& run, int64_t first, int64_t last, int keep,
                              const std::function<void(int rank)>& before_change) {
  Channels channels;
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.push_back(Child([&] {
      signal(SIGPIPE, SIG_IGN);
      channels.KeepThoseOf(rank);
      SaveOptions options = OptionsForTest(keep);
      options.before_change = [&](absl::string_view) { before_change(rank); };
      for (int64_t step = first; step <= last; ++step) {
        if (!(rank == 0 ? SaveAsRank0(run, step, options, channels)
                        : SaveAsOther(step, rank, options, channels))) {
          _exit(2);
        }
      }
    }));
  }
  return ranks;
}

// Returns the ranks that were killed.
std::vector<int> WaitFor(const std::vector<pid_t>& ranks) {
  std::vector<int> killed;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    int status = 0;
    EXPECT_EQ(waitpid(ranks[rank], &status, 0), ranks[rank]);
    if (WIFSIGNALED(status)) killed.push_back(static_cast<int>(rank));
  }
  return killed;
}

TEST(ShardedKillTest, SurvivesAKillOfAnyRankBeforeEveryChange) {
  const std::string run = NewFolder("kill");
  const std::string before = NewFolder("before");
  // With remains of a killed save, and old checkpoints to prune.
  for (int64_t step : {10, 20}) {
    ASSERT_TRUE(SaveShardedForTest(before, step, kRanks, OptionsForTest(0)).ok());
  }
  const std::string remains = before + "/checkpoints/.tmp-step_00000025-0123abcd";
  ASSERT_TRUE(MakeFolders(remains).ok());
  WriteFile(remains + "/optimizer-rank00001.safetensors", "half of it");
  int moments = 0;
  for (int victim = 0; victim < kRanks; ++victim) {
    for (int moment = 0;; ++moment) {
      SCOPED_TRACE(testing::Message() << "rank " << victim << " before change " << moment);
      Copy(before, run);
      int changes = 0;
      const auto killed = WaitFor(StartRanks(run, 30, 30, 2, [&](int rank) {
        if (rank == victim && changes++ == moment) kill(getpid(), SIGKILL);
      }));
      ExpectNewest(run, 20, 30);
      if (killed.empty()) {
        ExpectNewest(run, 30, 30);
        ExpectClean(run, 2);
      } else if (victim > 0) {
        // Rank 0 removes what was written.
        ExpectNewest(run, 20, 20);
        ExpectClean(run, 2);
      }
      ASSERT_FALSE(HasFailure());
      if (killed.empty()) break;
      ++moments;
      ASSERT_TRUE(SaveShardedForTest(run, 40, 2, OptionsForTest(1)).ok());
      ExpectNewest(run, 40, 40);
      ExpectClean(run, 1);
    }
  }
  EXPECT_GE(moments, 60);
}

TEST(ShardedKillTest, SurvivesKillsOfAnyRankAtRandomMoments) {
  const std::string run = NewFolder("kill");
  ASSERT_TRUE(SaveShardedForTest(run, 1, kRanks, OptionsForTest(2)).ok());
  const RandomStream random = MakeStream(2, "kill");
  int64_t step = 1;
  int inside = 0;  // kills that left a checkpoint half-written
  for (uint64_t trial = 0; trial < 200; ++trial) {
    const std::vector<pid_t> ranks = StartRanks(run, step + 1, step + 100000, 2, [](int) {});
    usleep(500 + RandomWord(random, 0, trial) % 20000);
    const pid_t victim = ranks[RandomWord(random, 1, trial) % kRanks];
    ASSERT_EQ(kill(victim, SIGKILL), 0);
    ASSERT_EQ(WaitFor(ranks).size(), 1u) << "a save failed by itself";
    const auto names = ListFolder(run + "/checkpoints");
    ASSERT_TRUE(names.ok());
    inside += static_cast<int>(std::any_of(names->begin(), names->end(),
                                           [](const std::string& name) { return name[0] == '.'; }));
    ExpectNewest(run, step, step + 100000);
    ASSERT_FALSE(HasFailure());
    step = OpenCheckpoint(run)->checkpoint->step();
  }
  EXPECT_GE(inside, 10);
  EXPECT_GT(step, 20);
  ASSERT_TRUE(SaveShardedForTest(run, step + 1, kRanks, OptionsForTest(2)).ok());
  ExpectClean(run, 2);
}

// A rank of a killed job that is still writing does not disturb a later save.
TEST(ShardedKillTest, ARankThatComesLateWritesNothing) {
  const std::string run = NewFolder("late");
  auto first = CheckpointSave::Begin(run, ContentsForTest(10), OptionsForTest(1));
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string folder = (*first)->folder();
  first->reset();
  auto second = CheckpointSave::Begin(run, ContentsForTest(10), OptionsForTest(1));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_NE((*second)->folder(), folder);
  std::vector<ShardReport> reports;
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_NE(WriteShardsForTest(folder, 10, rank, kRanks, {}).error(), "");
    reports.push_back(WriteShardsForTest((*second)->folder(), 10, rank, kRanks, {}));
  }
  EXPECT_TRUE((*second)->Finish(reports).ok());
  ExpectNewest(run, 10, 10);
  ExpectClean(run, 1);
}

}  // namespace
}  // namespace tessera
