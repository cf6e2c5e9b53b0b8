// Times every operation of a communicator among the ranks of a job; prints nccl-tests' table.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "collectives/connected_world.h"
#include "core/posix/output_file.h"
#include "core/posix/signals.h"
#include "core/posix/stdout_status.h"
#include "core/posix/user_folder.h"
#include "core/status/status_macros.h"
#include "core/text/human_units.h"
#include "core/text/version.h"
#include "nlohmann/json.hpp"
#include "tools/comm_bench/bench.h"
#include "tools/comm_bench/interrupt.h"
#include "tools/comm_bench/overlap.h"
#include "tools/command_line/command_line.h"
#include "tools/world_flags/world_flags.h"

ABSL_FLAG(std::string, operations, "all",
          "operations, separated by commas: all-reduce, reduce-scatter, all-gather, all-to-all, "
          "broadcast, send, barrier");
ABSL_FLAG(std::string, b, "8", "the smallest size");
ABSL_FLAG(std::string, e, "128M", "the largest size");
ABSL_FLAG(double, f, 2, "the factor from one size to the next");
ABSL_FLAG(int32_t, n, 20, "timed runs of each operation and size");
ABSL_FLAG(int32_t, w, 5, "untimed runs before those");
ABSL_FLAG(std::string, d, "f32", "the element type: f32, f64, bf16, f16, i32, i64, u8");
ABSL_FLAG(std::string, o, "sum", "how all-reduce and reduce-scatter reduce: sum or max");
ABSL_FLAG(int32_t, r, 0, "the root of a broadcast");
ABSL_FLAG(bool, check, true, "compare every element of a result with the expected one");
ABSL_FLAG(bool, bound, false,
          "time memory beside each operation, and print the share of its bound that is reached");
ABSL_FLAG(bool, overlap, false,
          "time each operation alone, computation of about the same length alone, and the two in "
          "sequence and together");
ABSL_FLAG(bool, shared, true, "take buffers from memory that the ranks of a host share");
ABSL_FLAG(std::string, json, "", "write the table to this file as well, as JSON");
ABSL_FLAG(std::string, fault, "",
          "for tests: at its N-th operation a rank aborts (RANK:N:fail) or is late "
          "(RANK:N:SECONDS)");

namespace tessera::comm {
namespace {

std::vector<FlagGroup> MakeGroups() {
  std::vector<FlagEntry> job = WorldFlags();
  job.push_back({"fault", "RANK:N:WHAT"});
  return {
      {"What to time",
       {{"operations", "NAME,..."},
        {"b", "SIZE"},
        {"e", "SIZE"},
        {"f", "X"},
        {"d", "TYPE"},
        {"o", "NAME"},
        {"r", "N"}}},
      {"How",
       {{"n", "N"},
        {"w", "N"},
        {"check", ""},
        {"bound", ""},
        {"overlap", ""},
        {"shared", ""},
        {"json", "FILE"}}},
      {"The job", job},
  };
}

const std::vector<FlagGroup>& Groups() {
  static const auto* const groups = new std::vector<FlagGroup>(MakeGroups());
  return *groups;
}

std::string HelpText() {
  return absl::StrCat(
      "Times the operations of a communicator: one rank of a job, or all that a launcher starts.\n"
      "\n"
      "Examples\n"
      "  ./bazelw run //tools/launch -- --nproc=2 bazel-bin/tools/comm_bench/comm_bench\n"
      "  ... comm_bench --operations=all-reduce -b 4K -e 64M -f 4 --bound\n"
      "  torchrun --no-python --nproc_per_node=2 .../comm_bench -e 1M\n",
      FlagsHelp(Groups()),
      "\nSizes are those of the full buffer, in bytes: 8, 4K, 128M. algbw is size over time;\n"
      "busbw is algbw times the factor of nccl-tests, to compare with the rate of a link.\n"
      "--overlap prints the share of an operation that is hidden behind computation, and the\n"
      "share by which computation is slower.\n");
}

absl::StatusOr<std::vector<Operation>> ParseOperations(const std::string& text) {
  const std::vector<Operation> all = {
      Operation::kAllReduce, Operation::kReduceScatter, Operation::kAllGather, Operation::kAllToAll,
      Operation::kBroadcast, Operation::kSend,          Operation::kBarrier};
  if (text == "all") return all;
  std::vector<Operation> chosen;
  for (const std::string& word : std::vector<std::string>(absl::StrSplit(text, ','))) {
    const auto found = std::find_if(all.begin(), all.end(), [&](Operation operation) {
      return OperationName(operation) == absl::StrReplaceAll(word, {{"_", "-"}});
    });
    if (found == all.end()) {
      std::vector<std::string> names;
      for (Operation operation : all) names.emplace_back(OperationName(operation));
      return absl::InvalidArgumentError(absl::StrCat("--operations: there is no '", word,
                                                     "': it is ", absl::StrJoin(names, ", ")));
    }
    chosen.push_back(*found);
  }
  return chosen;
}

absl::StatusOr<int64_t> ParseSize(const char* flag, const std::string& text) {
  const auto bytes = ParseBytes(text);
  if (bytes.ok()) return *bytes;
  return absl::InvalidArgumentError(absl::StrCat("-", flag, ": ", bytes.status().message()));
}

absl::StatusOr<BenchOptions> ReadOptions() {
  BenchOptions options;
  ASSIGN_OR_RETURN(options.operations, ParseOperations(absl::GetFlag(FLAGS_operations)));
  ASSIGN_OR_RETURN(options.first_bytes, ParseSize("b", absl::GetFlag(FLAGS_b)));
  ASSIGN_OR_RETURN(options.last_bytes, ParseSize("e", absl::GetFlag(FLAGS_e)));
  ASSIGN_OR_RETURN(options.dtype, ParseDType(absl::GetFlag(FLAGS_d)));
  options.factor = absl::GetFlag(FLAGS_f);
  options.iterations = absl::GetFlag(FLAGS_n);
  options.warmups = absl::GetFlag(FLAGS_w);
  options.root = absl::GetFlag(FLAGS_r);
  options.check = absl::GetFlag(FLAGS_check);
  options.bound = absl::GetFlag(FLAGS_bound);
  const std::string reduction = absl::GetFlag(FLAGS_o);
  if (reduction != "sum" && reduction != "max") {
    return absl::InvalidArgumentError(absl::StrCat("-o: '", reduction, "' is neither sum nor max"));
  }
  options.reduction = reduction == "max" ? Reduction::kMax : Reduction::kSum;
  if (options.factor <= 1) return absl::InvalidArgumentError("-f must be more than 1");
  if (options.iterations < 1) return absl::InvalidArgumentError("-n must be 1 or more");
  if (options.warmups < 0) return absl::InvalidArgumentError("-w must be 0 or more");
  if (options.first_bytes < 1 || options.first_bytes > options.last_bytes) {
    return absl::InvalidArgumentError("-b must be 1 or more, and at most -e");
  }
  if (absl::GetFlag(FLAGS_overlap) && (options.bound || !absl::GetFlag(FLAGS_json).empty())) {
    return absl::InvalidArgumentError(
        "--overlap prints a table of its own: leave out --bound and --json");
  }
  return options;
}

nlohmann::json ToJson(const Timing& timing) {
  nlohmann::json json = {{"seconds", timing.seconds},
                         {"algbw", timing.algbw},
                         {"busbw", timing.busbw},
                         {"wrong", timing.wrong}};
  if (timing.bound > 0) json["bound_seconds"] = timing.bound;
  return json;
}

// Prints a text at once. If that fails, all ranks stop.
void Print(World& world, const std::string& text) {
  std::printf("%s", text.c_str());
  const absl::Status written = StdoutStatus();
  if (!written.ok()) world.communicator().Abort(written);
}

// The report: printed, and kept for --json; on rank 0 only.
class Report {
 public:
  Report(World& world, const BenchOptions& options) : world_(world), options_(options) {
    if (world.rank() != 0) return;
    json_["ranks"] = world.size();
    json_["backend"] = world.backend();
    json_["dtype"] = std::string(DTypeName(options.dtype));
    json_["rows"] = nlohmann::json::array();
  }

  void Begin() {
    if (world_.rank() != 0) return;
    Print(world_, absl::StrCat("# ", world_.size(), " ranks, ", world_.backend(), "\n",
                               TableHead(options_)));
  }

  void Add(const BenchRow& row) {
    wrong_ +=
        std::max<int64_t>(0, row.out_of_place.wrong) + std::max<int64_t>(0, row.in_place.wrong);
    if (world_.rank() != 0) return;
    Print(world_, TableRow(row, options_));
    nlohmann::json line = {{"operation", std::string(OperationName(row.operation))},
                           {"bytes", row.bytes},
                           {"count", row.count},
                           {"out_of_place", ToJson(row.out_of_place)}};
    if (row.has_in_place) line["in_place"] = ToJson(row.in_place);
    json_["rows"].push_back(std::move(line));
  }

  absl::Status End(int64_t network_bytes, const std::string& path) {
    if (world_.rank() == 0 && network_bytes > 0) {
      std::printf("# %s went over the network\n", FormatBytes(network_bytes).c_str());
      json_["network_bytes"] = network_bytes;
    }
    if (world_.rank() == 0 && !path.empty()) {
      RETURN_IF_ERROR(WriteOutputFile(path, json_.dump(1) + "\n"));
    }
    if (wrong_ == 0) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(wrong_, " elements are wrong"));
  }

 private:
  World& world_;
  const BenchOptions& options_;
  int64_t wrong_ = 0;
  nlohmann::json json_;
};

absl::Status RunOverlap(World& world, const BenchOptions& options, char* first, char* second) {
  const auto print = [&world](const std::string& text) {
    if (world.rank() == 0) Print(world, text);
  };
  print(absl::StrCat("# ", world.size(), " ranks, ", world.backend(), "\n", OverlapHead()));
  return BenchOverlap(world, options, first, second,
                      [&](const OverlapRow& row) { print(OverlapLine(row)); });
}

absl::Status RunBench(World& world, const BenchOptions& options) {
  if (options.root < 0 || options.root >= world.size()) {
    return absl::InvalidArgumentError(absl::StrCat("-r: there are ranks 0 to ", world.size() - 1));
  }
  const int64_t bytes = BufferBytes(options, world.size());
  std::vector<char> own;
  char* first = nullptr;
  if (absl::GetFlag(FLAGS_shared) || world.backend() == "nccl") {
    ASSIGN_OR_RETURN(first, world.Allocate(2 * bytes));
  } else {
    own.resize(2 * bytes);
    first = own.data();
  }
  if (absl::GetFlag(FLAGS_overlap)) return RunOverlap(world, options, first, first + bytes);
  Report report(world, options);
  report.Begin();
  RETURN_IF_ERROR(
      Bench(world, options, first, first + bytes, [&](const BenchRow& row) { report.Add(row); }));
  int64_t network_bytes = world.NetworkBytes();
  Communicator& group = world.cpu_communicator();
  RETURN_IF_ERROR(group.Wait(group.AllReduce(&network_bytes, &network_bytes, 1, DType::kI64)));
  return report.End(network_bytes, absl::GetFlag(FLAGS_json));
}

absl::StatusOr<std::unique_ptr<ConnectedWorld>> Connect() {
  ASSIGN_OR_RETURN(WorldOptions options, ReadWorldFlags());
  options.fault = absl::GetFlag(FLAGS_fault);
  return ConnectedWorld::Connect(options);
}

// Prints an error in one line, even if a library's message has several.
void PrintError(const absl::Status& error) {
  std::fflush(stdout);
  const std::string message(error.message());
  std::fprintf(stderr, "error: %s\n", absl::StrReplaceAll(message, {{"\n", " "}}).c_str());
}

// Runs the benchmark on this rank, reports an error, and returns the exit code.
int RunRank(const BenchOptions& options, const Interrupt& interrupt, ConnectedWorld& world) {
  absl::Status status = RunBench(world, options);
  status.Update(world.Leave(status));
  if (status.ok()) return 0;
  const int own = interrupt.signal();
  const int signal = own != 0 ? own : SignalInError(status);
  // A signal stops all ranks, and one of them reports it.
  if (signal == 0 || world.rank() == 0) PrintError(own != 0 ? InterruptError(own) : status);
  return signal != 0 ? 128 + signal : 1;
}

// Returns the exit code, or an error of a rank that has not joined the others.
absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Interrupt& interrupt) {
  ASSIGN_OR_RETURN(const ParsedFlags parsed, ParseFlags(arguments, Groups(), Rest::kError));
  if (parsed.help) {
    std::printf("%s", HelpText().c_str());
    return 0;
  }
  if (parsed.version) {
    std::printf("%s", VersionLine().c_str());
    return 0;
  }
  ASSIGN_OR_RETURN(const BenchOptions options, ReadOptions());
  ASSIGN_OR_RETURN(const std::unique_ptr<ConnectedWorld> world, Connect());
  for (const std::string& note : {world->environment().note, world->communicator().note()}) {
    if (world->rank() == 0 && !note.empty()) std::printf("# note: %s\n", note.c_str());
  }
  interrupt.set_world(world.get());
  const int code = RunRank(options, interrupt, *world);
  interrupt.set_world(nullptr);
  return code;
}

}  // namespace
}  // namespace tessera::comm

int main(int argc, char** argv) {
  tessera::comm::Interrupt interrupt;
  tessera::LetWritesFail();
  const absl::StatusOr<std::string> argv0 = tessera::EnterUserFolder(argv[0]);
  absl::StatusOr<int> code =
      argv0.ok() ? tessera::comm::Run(std::vector<std::string>(argv + 1, argv + argc), interrupt)
                 : argv0.status();
  const absl::Status written = tessera::StdoutStatus();
  if (code.ok() && *code == 0 && !written.ok()) code = written;
  if (code.ok()) return *code;
  tessera::comm::PrintError(code.status());
  return 1;
}
