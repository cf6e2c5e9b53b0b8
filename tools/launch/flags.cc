#include "tools/launch/flags.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/status/status_macros.h"
#include "tools/command_line/command_line.h"

ABSL_FLAG(int32_t, nproc, 0, "ranks to start, all on this machine");
ABSL_FLAG(double, grace, 5,
          "seconds between SIGTERM and SIGKILL for the other ranks when one has failed");

namespace tessera::comm {
namespace {

constexpr double kMaxGraceSeconds = 86400;

const std::vector<FlagGroup>& Groups() {
  static const auto* const groups =
      new std::vector<FlagGroup>{{"Flags, before the program", {{"nproc", "N"}, {"grace", "X"}}}};
  return *groups;
}

bool IsDirectory(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

absl::StatusOr<LaunchCommandLine> ParseLaunchCommandLine(
    const std::vector<std::string>& arguments) {
  LaunchCommandLine line;
  ASSIGN_OR_RETURN(const ParsedFlags parsed, ParseFlags(arguments, Groups(), Rest::kBegins));
  line.help = parsed.help;
  if (line.help) return line;
  line.nproc = absl::GetFlag(FLAGS_nproc);
  const double grace = absl::GetFlag(FLAGS_grace);
  if (line.nproc < 1 || line.nproc > kMaxRanksOfHost) {
    return absl::InvalidArgumentError(absl::StrCat("--nproc=", line.nproc,
                                                   ": give the number of ranks, from 1 to ",
                                                   kMaxRanksOfHost, ", such as --nproc=2"));
  }
  if (!(grace >= 0 && grace <= kMaxGraceSeconds)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--grace=", grace, " is not a number of seconds from 0 to ", kMaxGraceSeconds));
  }
  line.grace = std::chrono::milliseconds(std::lround(grace * 1e3));
  if (parsed.rest.empty()) {
    return absl::InvalidArgumentError(
        "there is no program to start: give it and its arguments after the flags (see --help)");
  }
  line.program = parsed.rest.front();
  line.arguments.assign(parsed.rest.begin() + 1, parsed.rest.end());
  return line;
}

std::string LaunchHelpText() {
  std::string text =
      "Starts the ranks of a job on this machine, each a process of its own, shows what they "
      "write\n"
      "with the rank before each line, and ends when they have ended. If one fails, the others "
      "are\n"
      "stopped, and its error is shown last.\n"
      "\n"
      "Usage\n"
      "  ./bazelw run //tools/launch -- --nproc=N PROGRAM [ARGUMENT...]\n"
      "\n"
      "Examples\n"
      "  ./bazelw run //tools/launch -- --nproc=2 bazel-bin/models/gpt/train --steps=100\n"
      "      trains on two ranks; build the program first: ./bazelw build //models/gpt:train\n"
      "  ./bazelw run //tools/launch -- --nproc=4 sh -c 'echo rank $RANK of $WORLD_SIZE'\n"
      "\n"
      "Each rank has RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT,\n"
      "TESSERA_SECRET, and OMP_NUM_THREADS: its share of the cores, unless you have set it. "
      "Ctrl-C\n"
      "goes to all ranks; the third one kills them. The exit code is that of the rank that failed\n"
      "first, 128 and its number for a signal. Across machines, use torchrun, srun or mpirun.\n";
  return text + FlagsHelp(Groups());
}

absl::StatusOr<std::string> FindProgram(const std::string& program, const std::string& path) {
  std::vector<std::string> candidates;
  if (absl::StrContains(program, '/')) {
    candidates.push_back(program);
  } else {
    for (absl::string_view folder : absl::StrSplit(path, ':')) {
      candidates.push_back(absl::StrCat(folder.empty() ? "." : folder, "/", program));
    }
  }
  std::string found;
  for (const std::string& candidate : candidates) {
    if (access(candidate.c_str(), F_OK) != 0 || IsDirectory(candidate)) continue;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    found = candidate;
  }
  if (!found.empty()) {
    return absl::PermissionDeniedError(
        absl::StrCat("cannot start '", program, "': ", found, " is not executable"));
  }
  if (candidates.front() != program) {
    return absl::NotFoundError(
        absl::StrCat("cannot start '", program, "': there is no such program in $PATH"));
  }
  return absl::NotFoundError(
      absl::StrCat("cannot start '", program,
                   "': ", IsDirectory(program) ? "it is a folder" : "there is no such file"));
}

}  // namespace tessera::comm
