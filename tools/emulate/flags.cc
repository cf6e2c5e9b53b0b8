#include "tools/emulate/flags.h"

#include <cstdint>

#include "absl/flags/flag.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "core/status/status_macros.h"
#include "tools/command_line/command_line.h"

ABSL_FLAG(int32_t, hosts, 2, "hosts to emulate");
ABSL_FLAG(int32_t, ranks_per_host, 1, "ranks of each host");
ABSL_FLAG(std::string, rate, "1gbit",
          "bits that the link of a host carries per second, in each direction: a number with kbit, "
          "mbit or gbit");
ABSL_FLAG(std::string, latency, "0",
          "time that a packet takes from one host to another, beside that of its bits: a number "
          "with us, ms or s");

namespace tessera {
namespace {

// The hosts' addresses are those of a network with 8 bits.
constexpr int kMaxHosts = 254;
constexpr double kMinRate = 100e3, kMaxRate = 100e9;
constexpr absl::Duration kMaxLatency = absl::Seconds(10);

const std::vector<FlagGroup>& Groups() {
  static const auto* const groups =
      new std::vector<FlagGroup>{{"Hosts and links",
                                  {{"hosts", "N", {"nnodes"}},
                                   {"ranks_per_host", "N", {"nproc_per_node"}},
                                   {"rate", "RATE"},
                                   {"latency", "TIME"}}},
                                 {"As for tools/launch", {{"grace", "X"}, {"max_restarts", "N"}}}};
  return *groups;
}

// Parses "200mbit"; as in tc, units are powers of 1000.
absl::StatusOr<double> ParseRate(const std::string& text) {
  constexpr struct {
    absl::string_view name;
    double bits;
  } kUnits[] = {{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}};
  const std::string lower = absl::AsciiStrToLower(text);
  for (const auto& unit : kUnits) {
    absl::string_view number = lower;
    double rate = 0;
    if (!absl::ConsumeSuffix(&number, unit.name) || !absl::SimpleAtod(number, &rate)) continue;
    rate *= unit.bits;
    if (rate >= kMinRate && rate <= kMaxRate) return rate;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--rate: '", text, "' is not a rate from 100kbit to 100gbit, such as 200mbit or 2.5gbit"));
}

absl::StatusOr<absl::Duration> ParseLatency(const std::string& text) {
  absl::Duration latency;
  if (absl::ParseDuration(text, &latency) && latency >= absl::ZeroDuration() &&
      latency <= kMaxLatency) {
    return latency;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--latency: '", text, "' is not a time from 0 to 10s, such as 100us or 1.5ms"));
}

absl::Status ReadFlags(EmulateCommandLine* line) {
  line->hosts = absl::GetFlag(FLAGS_hosts);
  line->ranks_per_host = absl::GetFlag(FLAGS_ranks_per_host);
  if (line->hosts < 1 || line->hosts > kMaxHosts) {
    return absl::InvalidArgumentError(absl::StrCat("--hosts=", line->hosts,
                                                   ": give the number of hosts, from 1 to ",
                                                   kMaxHosts, ", such as --hosts=2"));
  }
  const int most = comm::kMaxRanksOfHost / line->hosts;
  if (line->ranks_per_host < 1 || line->ranks_per_host > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("--ranks_per_host=", line->ranks_per_host, ": ", line->hosts,
                     " hosts on one machine can have 1 to ", most, " ranks each"));
  }
  ASSIGN_OR_RETURN(line->limits.bits_per_second, ParseRate(absl::GetFlag(FLAGS_rate)));
  ASSIGN_OR_RETURN(line->limits.latency, ParseLatency(absl::GetFlag(FLAGS_latency)));
  absl::SetFlag(&FLAGS_nproc, line->hosts * line->ranks_per_host);
  return comm::ReadLaunchFlags(&line->launch);
}

}  // namespace

absl::StatusOr<EmulateCommandLine> ParseEmulateCommandLine(
    const std::vector<std::string>& arguments) {
  EmulateCommandLine line;
  ASSIGN_OR_RETURN(const ParsedFlags parsed, ParseFlags(arguments, Groups(), Rest::kBegins));
  line.help = parsed.help;
  line.version = parsed.version;
  if (line.help || line.version) return line;
  RETURN_IF_ERROR(ReadFlags(&line));
  if (parsed.rest.empty()) {
    return absl::InvalidArgumentError(
        "there is no program to start: name it after the flags and --, with its arguments "
        "(see --help)");
  }
  line.launch.program = parsed.rest.front();
  line.launch.arguments.assign(parsed.rest.begin() + 1, parsed.rest.end());
  line.launch.only_first_rank = true;
  return line;
}

std::string EmulateHelpText() {
  const std::string text =
      R"(Runs a job on several emulated hosts of this machine, to try a network: each host is a network
namespace with a link of limited rate and latency to a switch that joins all hosts. It needs root
(that of `unshare --map-root-user` suffices, if the system allows it), ip and tc of iproute2, and for
a latency the kernel's sch_netem. Nothing outside of the namespaces is changed, and they are gone when
the job has ended, however it ends.

Usage
  emulate [FLAG...] -- PROGRAM [ARGUMENT...]

Examples, as root
  ./bazelw run //tools/emulate -- --hosts=2 --rate=1gbit -- \
      bazel-bin/models/gpt/train --strategy=fsdp --steps=20
      trains on two hosts of one rank each
  ./bazelw run //tools/emulate -- --hosts=2 --rate=200mbit --latency=100us -- \
      bazel-bin/tools/compare/compare --strategies=ddp,fsdp
      compares strategies, whose ranks send over the links
  ./bazelw run //tools/emulate -- --hosts=4 --ranks_per_host=2 --rate=10gbit -- \
      bazel-bin/tools/comm_bench/comm_bench
  ./bazelw run //tools/emulate -- --hosts=2 -- sh -c 'hostname >&2; ip address'

Ranks
  One copy of the program is started for each rank, with the variables of tools/launch (RANK,
  WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, TESSERA_SECRET and others).
  The ranks of a host are consecutive. What rank 0 writes is shown as it is, and of other ranks
  only the error of the one that failed first.
  Signals, the exit code, --grace and --max_restarts are those of tools/launch (see its --help).

Hosts
  The hosts are named host0, host1, ..., with the addresses 10.77.0.1, 10.77.0.2, ... on the
  interface link0. They share the file system and the memory of this machine. Hosts share no core
  if there are at least as many cores as hosts, else a note says so: one host's communication then
  takes time of another one's computation.

Links
  The link of a host carries --rate in each direction, headers included, and the switch all links
  at their full rate. A packet takes --latency from one host to another, there and back twice that.
  TCP's congestion control is Reno. The switch drops packets to a host for which more than 50 ms of
  data wait, and more than 256 KiB. After a pause, 1 ms of data passes at once. A rate that the cores
  cannot reach is not reached: comm_bench shows what is.
)";
  return text + FlagsHelp(Groups());
}

}  // namespace tessera
