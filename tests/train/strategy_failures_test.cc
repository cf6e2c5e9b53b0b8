// Checks faults of ranks under a strategy: a rank that never starts, a full disk, too little
// memory, a port in use. The job must end in time, with one line of the rank that found the fault.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/program.h"
#include "tests/train/rank_program.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

namespace fs = std::filesystem;

std::vector<std::string> Fsdp(const std::vector<std::string>& more) {
  std::vector<std::string> flags = Tiny({"--strategy=fsdp"});
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// Additional time for a busy machine, beyond the documented limit.
constexpr double kBusySeconds = 3;

TEST(StrategyFailuresTest, ARankThatNeverStartsIsNamedAfterTheTimeOut) {
  const std::string train = CommandOf(GptProgram(), Fsdp({"--timeout=1"}));
  const Stopwatch stopwatch;
  const Result result = LaunchShell(3, "if [ $RANK = 2 ]; then exec sleep 30; fi; " + train);
  EXPECT_LT(stopwatch.seconds(), 2 + kBusySeconds);
  EXPECT_EQ(result.code, 1);
  // Rank 0 finds the fault, or reports that rank 1 has found it.
  EXPECT_THAT(result.err, HasSubstr("[0] error: "));
  EXPECT_THAT(result.err, HasSubstr("rank 2 of 3 did not join at 127.0.0.1:"));
  EXPECT_THAT(result.err, HasSubstr(" within 1 s"));
  EXPECT_EQ(CountOf("] error: ", result.err), 1) << result.err;
}

// The failed save is reported to the other ranks, and the previous checkpoint is complete.
TEST(StrategyFailuresTest, AFullDiskEndsAllRanksAndLeavesTheLastCheckpoint) {
  const std::string folder = NewFolder();
  if (Shell("unshare -rm mount -t tmpfs -o size=64k tmpfs " + folder).code != 0) {
    GTEST_SKIP() << "needs unshare, and user namespaces that may mount a tmpfs";
  }
  std::string flags;
  for (const std::string& flag : Fsdp({"--nproc=2", "--out=" + folder + "/run", "--save_every=5",
                                       "--steps=1000000", "--set=keep_checkpoints=1000"})) {
    flags += " '" + flag + "'";
  }
  WriteFile(folder + ".sh", "mount -t tmpfs -o size=400k tmpfs " + folder + " || exit 9\n" +
                                GptProgram() + flags + "\necho \"exit $?\"\n" + GptProgram() +
                                " --resume=" + folder + "/run --mode=evaluate >&2\n");
  const Result result = Shell("unshare -rm sh " + folder + ".sh");
  EXPECT_EQ(result.code, 0) << result.err << result.out;
  EXPECT_THAT(result.out, HasSubstr("exit 1\n"));
  EXPECT_EQ(ErrorsOfRanks(result.err), 1) << result.err;
  // The file that no longer fits is a rank's, or the manifest, which is written after them.
  EXPECT_THAT(result.err, AllOf(HasSubstr("error: cannot save step "),
                                AnyOf(HasSubstr(": rank "), HasSubstr("manifest.json")),
                                HasSubstr("No space left on device")));
  EXPECT_THAT(result.err, HasSubstr("eval_loss ")) << "from the last checkpoint";
}

constexpr char kNeeds[] = "needs root, a control group of its own, and no sanitizer";

// A control group for this test with a memory limit. Needs root.
class MemoryGroup {
 public:
  explicit MemoryGroup(int64_t bytes) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return;  // the sanitizer's own memory would be too much
#endif
    const std::string name = "/tessera_test_" + std::to_string(getpid());
    std::error_code error;
    for (const auto& [root, limit] : std::vector<std::pair<std::string, std::string>>{
             {"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
             {"/sys/fs/cgroup", "memory.max"}}) {
      if (!folder_.empty() || !fs::create_directory(root + name, error)) continue;
      std::ofstream file(absl::StrCat(root, name, "/", limit));
      file << bytes << std::flush;
      if (file.good()) {
        folder_ = root + name;
      } else {
        fs::remove(root + name, error);
      }
    }
  }
  ~MemoryGroup() {
    std::error_code ignored;
    if (!folder_.empty()) fs::remove(folder_, ignored);
  }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  // "": there is none.
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
};

// Trains on two ranks, each of which needs an arena of 329 MiB.
Result TrainInGroup(const MemoryGroup& group, const std::string& folder) {
  std::string command =
      "echo $$ > " + group.folder() + "/cgroup.procs || exit 9; exec " + GptProgram();
  // Kernels that are measured may need more memory than the default ones.
  for (const std::string& flag :
       Fsdp({"--nproc=2", "--backend=shm", "--out=" + folder, "--kernels=default",
             "--set=model.layers=12,model.heads=4,model.channels=512"})) {
    command += " '" + flag + "'";
  }
  const Stopwatch stopwatch;
  Result result = Shell(command);
  EXPECT_LT(stopwatch.seconds(), 10 + kBusySeconds);
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_EQ(CountOf("error: ", result.err), 1) << result.err;
  return result;
}

TEST(StrategyFailuresTest, TooLittleMemoryForTheSegmentsIsAnErrorThatNamesTheRank) {
  const MemoryGroup group(int64_t{200} << 20);
  if (group.folder().empty()) GTEST_SKIP() << kNeeds;
  EXPECT_THAT(TrainInGroup(group, NewFolder() + "/run").err,
              AllOf(HasSubstr("error: rank "), HasSubstr(": there are no "),
                    HasSubstr(" bytes of shared memory (Cannot allocate memory)")));
}

// Each rank alone would find enough memory for its segment, and then the system would kill one.
TEST(StrategyFailuresTest, SegmentsThatFitAloneAndNotTogetherAreAnError) {
  const MemoryGroup group(int64_t{500} << 20);
  if (group.folder().empty()) GTEST_SKIP() << kNeeds;
  const std::string folder = NewFolder() + "/run";
  // If ranks find different amounts of available memory, the message names the rank.
  EXPECT_THAT(
      TrainInGroup(group, folder).err,
      ContainsRegex("error: (rank [01]: )?on .*, 2 ranks of 329 MiB need 658 MiB of memory, "
                    "and only [0-9]* MiB are available\n"));
  EXPECT_FALSE(fs::exists(folder));
}

// A socket that listens on a port of this host.
class UsedPort {
 public:
  UsedPort() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(socket_, 8), 0);
    socklen_t size = sizeof(address);
    EXPECT_EQ(getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~UsedPort() { close(socket_); }
  UsedPort(const UsedPort&) = delete;
  UsedPort& operator=(const UsedPort&) = delete;

  std::string port() const { return std::to_string(port_); }

 private:
  const int socket_;
  int port_ = 0;
};

// Returns options for ranks that are started by hand, all on this host.
RunOptions RankByHand(int rank, const std::string& port) {
  RunOptions options;
  options.environment = {{"RANK", std::to_string(rank)},
                         {"WORLD_SIZE", "2"},
                         {"MASTER_ADDR", "127.0.0.1"},
                         {"MASTER_PORT", port},
                         {"TESSERA_SECRET", "the secret of this test"}};
  return options;
}

TEST(StrategyFailuresTest, APortInUseEndsAllRanksWithinTheTimeOut) {
  const UsedPort used;
  const std::vector<std::string> flags = Fsdp({"--timeout=1", "--out=" + NewFolder() + "/run"});
  const Stopwatch stopwatch;
  RunningProgram second(GptProgram(), flags, RankByHand(1, used.port()));
  const Result first = RunProgram(GptProgram(), flags, RankByHand(0, used.port()));
  EXPECT_LT(stopwatch.seconds(), 1 + kBusySeconds);
  ExpectOneError(first, "port " + used.port() + " is in use");
  const Result other = second.Wait();
  EXPECT_LT(stopwatch.seconds(), 2 + kBusySeconds);
  EXPECT_EQ(other.code, 1);
  EXPECT_EQ(CountOf("\n", other.err), 1) << other.err;
  EXPECT_THAT(other.err, AllOf(StartsWith("error: "), HasSubstr("rank 0"),
                               HasSubstr("127.0.0.1:" + used.port())));
}

}  // namespace
}  // namespace tessera
