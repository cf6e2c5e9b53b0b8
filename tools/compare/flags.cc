#include "tools/compare/flags.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "collectives/rendezvous/environment.h"
#include "core/status/status_macros.h"
#include "models/models.h"
#include "tools/command_line/command_line.h"
#include "tools/strategy_entry/default_strategies.h"
#include "tools/train/flags/flag_fields.h"
#include "tools/world_flags/world_flags.h"

ABSL_FLAG(std::string, model, "gpt", "the model");
ABSL_FLAG(
    std::vector<std::string>, strategies,
    std::vector<std::string>({"ddp", "fsdp", "osdp", "tensor"}),
    "what to compare, separated by commas: a strategy's name with options, as in "
    "fsdp:reshard=no; the path of a plugin; or a Plan, the file FILE.textproto or the name of "
    "one of docs/plans. An entry may also set batch, micro_batches, recompute and memory_limit of "
    "its run, as in fsdp:batch=32. LABEL=ENTRY names an entry in the table. By default, osdp may "
    "use the memory half way between the peaks of ddp and fsdp, if nothing else limits it");
ABSL_FLAG(int64_t, rounds, 0,
          "in each round every strategy runs some of its steps, so that noise of the machine hits "
          "all equally; 0: 5, or as many as there are steps");
ABSL_FLAG(bool, one_at_a_time, false,
          "run the strategies one after the other, with only one in memory, which happens by "
          "itself if they do not fit together");
ABSL_FLAG(
    std::string, json, "",
    "write the table and every measured time to this file; tools/compare/json.md documents it");
ABSL_FLAG(std::string, report, "",
          "write a report as one HTML page: predicted and measured times, timelines, memory over "
          "time, losses, Plans by layer");

namespace tessera {
namespace {

constexpr int kDefaultRanks = 2;
constexpr int64_t kDefaultSteps = 20;
constexpr int64_t kDefaultRounds = 5;

constexpr char kAbout[] =
    "Compares parallel strategies on one model: trains it with each of them, in\n"
    "alternation, from the same initial state and data, and prints one table, and\n"
    "which to choose, and why.\n"
    "\n"
    "Examples\n"
    "  $program\n"
    "      a small GPT on 2 ranks of this machine: DDP, FSDP, OSDP with a memory\n"
    "      limit half way between their peaks, and tensor parallelism\n"
    "  $program --preset=124m --batch=8 --sequence=256 --steps=10\n"
    "  $program --strategies=fsdp,fsdp:reshard=no,ddp:bucket=1MiB\n"
    "      the same strategy with other options\n"
    "  $program --strategies=ddp,big=ddp:batch=32,lean=fsdp:recompute=block\n"
    "      settings of a run; entries of another batch are compared by samples/s\n"
    "  $program --strategies=ddp,tensor_parallel,mine=my_plan.textproto --nproc=4\n"
    "      Plans beside a strategy\n"
    "  $program --model=mlp --json=mlp.json\n"
    "  $program --plan_only --cluster=a100 --ranks=64 --preset=1558m --dtype=bf16\n"
    "      what is predicted for ranks that are not there; see also tools/plan\n";

constexpr char kNotes[] =
    "\n"
    "Defaults of the configuration are those of the model's first preset. --nproc\n"
    "starts the ranks on this machine; torchrun, srun and mpirun start one process\n"
    "of this program for each. --threads and --memory_limit are those of one rank.\n"
    "\n"
    "The table\n"
    "  estimated   from the Program alone: memory, calls and bytes are exact, times\n"
    "              are those of the described cluster (--cluster)\n"
    "  measured    times of the slowest rank, calls and bytes of the rank that sends\n"
    "              most, and the memory that a rank has allocated\n"
    "  computation alone      a step less the time in its collectives, beside which\n"
    "                         nothing is computed\n"
    "  communication alone    the collectives of a step, one after the other\n"
    "  exposed communication  the step less its computation alone\n"
    "\n"
    "Before the rounds every strategy trains a few steps, which must be the same for\n"
    "all. Exit codes: 0; 2 if a strategy did not fit or failed; 3 if one trains\n"
    "differently; 1 after another error.\n";

const std::vector<FlagGroup>& CompareFlags() {
  static const auto* const groups = [] {
    std::vector<FlagEntry> ranks = {{"nproc", "N", {"nproc_per_node", "np"}},
                                    {"grace", "X"},
                                    {"cluster", "NAME"},
                                    {"ranks", "N"}};
    for (FlagEntry& flag : WorldFlags()) ranks.push_back(std::move(flag));
    return new std::vector<FlagGroup>{{"Comparison",
                                       {{"strategies", "ENTRY,..."},
                                        {"strategy_seconds", "X"},
                                        {"steps", "N"},
                                        {"rounds", "N"},
                                        {"one_at_a_time", ""},
                                        {"plan_only", ""},
                                        {"json", "FILE"},
                                        {"report", "FILE"}}},
                                      {"Model and data",
                                       {{"model", "NAME"},
                                        {"preset", "NAME"},
                                        {"config", "FILE"},
                                        {"set", "FIELD=VALUE,..."},
                                        {"data", "FILE"},
                                        {"batch", "N", {"batch_size"}},
                                        {"sequence", "N", {"seq_len", "block_size"}},
                                        {"optimizer", "NAME"},
                                        {"lr", "X", {"learning_rate"}},
                                        {"clip_norm", "X", {"grad_clip"}},
                                        {"seed", "N"}}},
                                      {"Machine",
                                       {{"device", "NAME"},
                                        {"threads", "N"},
                                        {"micro_batches", "N"},
                                        {"recompute", "WHAT"},
                                        {"dtype", "NAME", {"precision"}},
                                        {"memory_limit", "SIZE"}}},
                                      {"Ranks", std::move(ranks)}};
  }();
  return *groups;
}

// Returns whether the training tool lacks the flag, or has it with another meaning.
bool IsCompareFlag(absl::string_view name) {
  return name == "model" || name == "strategies" || name == "steps" || name == "rounds" ||
         name == "one_at_a_time" || name == "json" || name == "report";
}

const GivenFlag* Find(const std::vector<GivenFlag>& given, absl::string_view name) {
  const auto found = std::find_if(given.rbegin(), given.rend(),
                                  [name](const GivenFlag& flag) { return flag.name == name; });
  return found == given.rend() ? nullptr : &*found;
}

absl::Status ReadSteps(const std::vector<GivenFlag>& given, CompareCommandLine* line) {
  // The training tool's flag has another default.
  line->steps = Find(given, "steps") == nullptr ? kDefaultSteps : line->steps;
  if (line->steps < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--steps is ", line->steps, ": it must be 0 or more"));
  }
  const int64_t rounds = absl::GetFlag(FLAGS_rounds);
  const bool trains = line->steps > 0;
  if (rounds < 0 || (trains && rounds > line->steps)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--rounds is ", rounds, ": it must be ",
        trains ? absl::StrCat("from 0 to ", line->steps, ", the number of --steps") : "0 or more"));
  }
  line->rounds = rounds > 0 ? rounds : kDefaultRounds;
  if (trains) line->rounds = std::min(line->rounds, line->steps);
  return absl::OkStatus();
}

// Starts ranks by default, unless this process is one of several, or the only one of --nproc=1.
absl::StatusOr<bool> StartsDefaultRanks(const std::vector<GivenFlag>& given) {
  if (Find(given, "nproc") != nullptr || Find(given, "ranks") != nullptr) return false;
  ASSIGN_OR_RETURN(const comm::RankEnvironment environment, comm::ReadRankEnvironment(""));
  return environment.size == 1 && environment.launcher != "tessera";
}

}  // namespace

absl::StatusOr<CompareCommandLine> ParseCompareCommandLine(
    const std::vector<std::string>& arguments) {
  CompareCommandLine line;
  ASSIGN_OR_RETURN(const ParsedFlags parsed,
                   ParseFlags(arguments, CompareFlags(), Rest::kError, [](absl::string_view name) {
                     const auto model = FindModel(absl::GetFlag(FLAGS_model));
                     return model.ok() ? FieldHint(name, **model) : "";
                   }));
  line.help = parsed.help;
  line.version = parsed.version;
  if (line.help || line.version) return line;
  ASSIGN_OR_RETURN(line.model, FindModel(absl::GetFlag(FLAGS_model)));
  line.strategies = DefaultStrategies();
  if (Find(parsed.given, "strategies") != nullptr) {
    ASSIGN_OR_RETURN(line.strategies, ParseStrategies(absl::GetFlag(FLAGS_strategies)));
  }
  line.one_at_a_time = absl::GetFlag(FLAGS_one_at_a_time);
  line.json = absl::GetFlag(FLAGS_json);
  line.report = absl::GetFlag(FLAGS_report);
  line.steps = absl::GetFlag(FLAGS_steps);
  RETURN_IF_ERROR(ReadSteps(parsed.given, &line));
  std::vector<std::string> train, all;
  for (const GivenFlag& flag : parsed.given) {
    const std::string text = absl::StrCat("--", flag.name, "=", flag.value);
    if (!IsCompareFlag(flag.name)) train.push_back(text);
    if (flag.name != "nproc" && flag.name != "grace") all.push_back(text);
  }
  ASSIGN_OR_RETURN(const bool starts_default_ranks, StartsDefaultRanks(parsed.given));
  if (starts_default_ranks) train.push_back(absl::StrCat("--nproc=", kDefaultRanks));
  // A comparison neither evaluates nor samples.
  train.push_back("--sample_tokens=0");
  ASSIGN_OR_RETURN(line.train, ParseCommandLine(train, *line.model));
  line.planned_ranks = std::max({1, line.train.ranks, line.train.launch.nproc});
  line.launch = line.train.launch;
  line.launch.arguments = std::move(all);
  return line;
}

std::string CompareHelp(const std::string& program) {
  std::map<std::string, FlagNote> notes;
  notes["steps"] = {"", absl::StrCat(kDefaultSteps),
                    "timed steps of each strategy, after one that is not timed; 0: only "
                    "measure the prices of its kernels and collectives, keep them for later "
                    "estimates, and print the step times that they predict"};
  notes["nproc"] = {"", absl::StrCat(kDefaultRanks)};
  notes["ranks"].default_value = "";
  notes["plan_only"] = {"", {}, "start no ranks, and print the predicted columns only"};
  notes["model"].more = absl::StrCat(": ", absl::StrJoin(ModelNames(), " or "));
  notes["backend"].more = "; fake runs ranks as threads of this process, for tests";
  for (const char* name : {"batch", "sequence", "lr", "clip_norm", "seed", "micro_batches"}) {
    notes[name].default_value = "";
  }
  return absl::StrReplaceAll(absl::StrCat(kAbout, FlagsHelp(CompareFlags(), notes), kNotes),
                             {{"$program", program}});
}

}  // namespace tessera
