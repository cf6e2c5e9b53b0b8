#include "tools/emulate/host_rank.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/posix/file_descriptor.h"
#include "core/status/status_macros.h"
#include "tools/emulate/link_limits.h"

namespace tessera {
namespace {

constexpr int kCannotRun = 126;     // the exit code of a shell
constexpr int kMasterPort = 29500;  // torchrun's default; free, since the host is new

// The arguments, by their positions.
enum Position { kMarker, kRanksPerHost, kNamespaces, kCores, kProgram };

absl::StatusOr<int> Number(absl::string_view text) {
  int number = 0;
  if (absl::SimpleAtoi(text, &number)) return number;
  return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not a number"));
}

absl::StatusOr<HostRanks> ParseArguments(const std::vector<std::string>& arguments) {
  HostRanks ranks;
  if (arguments.size() <= kProgram) {
    return absl::InvalidArgumentError(
        absl::StrCat(kHostRankArgument, " is for emulate itself: see --help"));
  }
  ASSIGN_OR_RETURN(ranks.ranks_per_host, Number(arguments[kRanksPerHost]));
  ranks.namespaces = absl::StrSplit(arguments[kNamespaces], ',');
  for (absl::string_view core : absl::StrSplit(arguments[kCores], ',', absl::SkipEmpty())) {
    ASSIGN_OR_RETURN(const int number, Number(core));
    ranks.cores.push_back(number);
  }
  return ranks;
}

// Enters the network of a host, and takes its name, which messages of ranks contain.
absl::Status EnterHost(int host, const std::string& space_path) {
  const FileDescriptor space(open(space_path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!space.is_open() || setns(space.get(), CLONE_NEWNET) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot enter the network of host ", host));
  }
  const std::string name = absl::StrCat("host", host);
  if (unshare(CLONE_NEWUTS) != 0 || sethostname(name.data(), name.size()) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot take the name ", name));
  }
  return absl::OkStatus();
}

// Replaces what the launcher has set for ranks of one host.
void SetVariables(const HostRanks& ranks, const RankOnHost& place) {
  const auto set = [](const char* name, const std::string& value) {
    setenv(name, value.c_str(), /*overwrite=*/1);
  };
  set("LOCAL_RANK", absl::StrCat(place.local_rank));
  set("LOCAL_WORLD_SIZE", absl::StrCat(ranks.ranks_per_host));
  set("MASTER_ADDR", HostAddress(0));
  set("MASTER_PORT", absl::StrCat(kMasterPort));
  // The launcher's socket is outside of the host.
  int listener = 0;
  const char* const text = std::getenv("TESSERA_LISTEN_FD");
  if (text != nullptr && absl::SimpleAtoi(text, &listener)) close(listener);
  unsetenv("TESSERA_LISTEN_FD");
}

void UseCores(const std::vector<int>& numbers) {
  if (numbers.empty()) return;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (const int core : numbers) CPU_SET(core, &cores);
  // If the system forbids it, the rank runs on other cores; its results do not depend on them.
  sched_setaffinity(0, sizeof(cores), &cores);
}

absl::Status BecomeProgram(const std::vector<std::string>& arguments) {
  std::vector<char*> pointers;
  for (size_t i = kProgram; i < arguments.size(); ++i) {
    pointers.push_back(const_cast<char*>(arguments[i].c_str()));
  }
  pointers.push_back(nullptr);
  execv(pointers.front(), pointers.data());
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot run ", arguments[kProgram]));
}

absl::Status Run(const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(const HostRanks ranks, ParseArguments(arguments));
  const char* const text = std::getenv("RANK");
  ASSIGN_OR_RETURN(const int rank, Number(text == nullptr ? "" : text));
  const RankOnHost place = PlaceRank(ranks, rank);
  RETURN_IF_ERROR(EnterHost(place.host, ranks.namespaces.at(place.host)));
  SetVariables(ranks, place);
  UseCores(place.cores);
  return BecomeProgram(arguments);
}

}  // namespace

std::vector<std::string> HostRankArguments(const HostRanks& ranks, const std::string& program,
                                           const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {kHostRankArgument, absl::StrCat(ranks.ranks_per_host),
                                  absl::StrJoin(ranks.namespaces, ","),
                                  absl::StrJoin(ranks.cores, ","), program};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

RankOnHost PlaceRank(const HostRanks& ranks, int rank) {
  RankOnHost place = {rank / ranks.ranks_per_host, rank % ranks.ranks_per_host, {}};
  const size_t of_host = ranks.cores.size() / ranks.namespaces.size();
  size_t first = place.host * of_host, count = of_host;
  if (of_host % ranks.ranks_per_host == 0) {
    count = of_host / ranks.ranks_per_host;
    first += place.local_rank * count;
  }
  place.cores.assign(ranks.cores.begin() + first, ranks.cores.begin() + first + count);
  return place;
}

int RunHostRank(const std::vector<std::string>& arguments) {
  const absl::Status status = Run(arguments);
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return kCannotRun;
}

}  // namespace tessera
