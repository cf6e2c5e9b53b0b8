#include "tools/plan/flags.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/types/span.h"
#include "core/status/status_macros.h"
#include "core/text/nearest_name.h"
#include "models/models.h"
#include "tools/command_line/command_line.h"
#include "tools/strategy_entry/default_strategies.h"
#include "tools/strategy_entry/strategy_entry.h"
#include "tools/train/flags/flag_fields.h"
#include "tools/train/setup/find_cluster.h"

ABSL_FLAG(std::string, model, "gpt", "the model");
ABSL_FLAG(
    std::vector<std::string>, strategies,
    std::vector<std::string>({"ddp", "fsdp", "osdp", "tensor"}),
    "what to plan, separated by commas: a strategy's name with options, as in fsdp:reshard=no; the "
    "path of a plugin; or a Plan, the file FILE.textproto or the name of one of docs/plans. An "
    "entry may also set batch, micro_batches, recompute and memory_limit of its run. LABEL=ENTRY "
    "names an entry in the table. By default, osdp may use the memory half way between the peaks "
    "of ddp and fsdp, if nothing else limits it");
ABSL_FLAG(bool, fit, false,
          "where a step does not fit in memory, search micro-batches and recomputation for the "
          "fastest one that does");
ABSL_FLAG(std::string, tokens, "",
          "show the days that a training on so many tokens, or pictures, takes: 300B");
ABSL_FLAG(std::string, json, "", "write the figures to this file");
ABSL_FLAG(std::string, report, "",
          "write a report as one HTML page: figures, timelines, memory over time, Plans by layer");
ABSL_FLAG(std::string, save, "",
          "write the Plan to this file, to be run with --plan=FILE of a training target; for one "
          "strategy and one number of ranks");

namespace tessera {
namespace {

// The value of --ranks that searches their number.
constexpr char kFewest[] = "fewest";
// The number of ranks without --ranks and --cluster.
constexpr int kDefaultRanks = 2;

constexpr char kAbout[] =
    "Plans the training of a model, without the machines that it is for: what each\n"
    "strategy would need and cost on each number of ranks.\n"
    "\n"
    "Examples\n"
    "  $program\n"
    "      a small GPT on 2 ranks of this machine: DDP, FSDP, OSDP in between, and\n"
    "      tensor parallelism\n"
    "  $program --preset=gpt3_6.7b --dtype=bf16 --cluster=h100 --ranks=8,64,512 --fit\n"
    "      does it fit, and how fast is it\n"
    "  $program --preset=124m --cluster=ethernet_1g --strategies=ddp,fsdp,fsdp:reshard=no\n"
    "      which strategy for a slow network\n"
    "  $program explain --preset=gpt3_6.7b --dtype=bf16 --cluster=h100 --strategies=fsdp\n"
    "      where the time of a step goes, and what would make it faster\n"
    "  $program diff --strategies=ddp,fsdp\n"
    "      what differs between two Plans, and between their costs\n"
    "  $program holds --plan=saved.textproto --strategies=osdp --memory_limit=2GiB\n"
    "      is a Plan that --save has written still the one to train with\n"
    "\n"
    "Commands\n"
    "  (none)   a table: strategies by numbers of ranks\n"
    "  explain  time by layer and by kind, the dearest instructions, what\n"
    "           collectives wait for, and the next best changes\n"
    "  diff     the decisions and costs in which two Plans differ\n"
    "  costs    the price of each kernel and collective of a step\n"
    "  holds    whether a saved Plan (--plan) fits the model, the ranks and the memory\n"
    "           limit, and whether its strategy would still make it\n";

constexpr char kNotes[] =
    "\n"
    "Memory and bytes are exact. Times are predicted: by prices that were measured on\n"
    "this machine, or by the rates of --cluster (docs/costs.md, docs/accuracy.md).\n"
    "Defaults of the configuration are those of the model's first preset. --threads\n"
    "and --memory_limit are those of one rank.\n"
    "\n"
    "Exit codes: 0; 2 if something could not be planned, or if a Plan does not hold;\n"
    "1 after another error, such as a Plan of another model; 128 + the signal after an\n"
    "interrupt, which ends a search with its best Plan so far.\n";

const std::vector<FlagGroup>& PlanFlags() {
  static const auto* const groups =
      new std::vector<FlagGroup>{{"Plans",
                                  {{"strategies", "ENTRY,..."},
                                   {"strategy_seconds", "X"},
                                   {"ranks", "N,...|fewest"},
                                   {"cluster", "NAME"},
                                   {"hosts", "NAME,..."},
                                   {"backend", "NAME"},
                                   {"fit", ""},
                                   {"tokens", "N"},
                                   {"json", "FILE"},
                                   {"report", "FILE"},
                                   {"save", "FILE"},
                                   {"plan", "FILE"},
                                   {"trace", "FILE"}}},
                                 {"Model",
                                  {{"model", "NAME"},
                                   {"preset", "NAME"},
                                   {"config", "FILE"},
                                   {"set", "FIELD=VALUE,..."},
                                   {"batch", "N", {"batch_size"}},
                                   {"sequence", "N", {"seq_len", "block_size"}},
                                   {"optimizer", "NAME"},
                                   {"clip_norm", "X", {"grad_clip"}}}},
                                 {"Ranks",
                                  {{"device", "NAME"},
                                   {"threads", "N"},
                                   {"micro_batches", "N"},
                                   {"recompute", "WHAT"},
                                   {"dtype", "NAME", {"precision"}},
                                   {"kernels", "HOW"},
                                   {"memory_limit", "SIZE"}}}};
  return *groups;
}

// Returns whether the training tool lacks the flag, or has it with another meaning.
bool IsPlanFlag(absl::string_view name) {
  constexpr absl::string_view kOwn[] = {"model", "strategies", "ranks", "fit",   "tokens",
                                        "json",  "report",     "save",  "trace", "plan"};
  return absl::c_linear_search(kOwn, name);
}

constexpr std::pair<absl::string_view, PlanCommand> kCommands[] = {
    {"explain", PlanCommand::kExplain},
    {"diff", PlanCommand::kDiff},
    {"costs", PlanCommand::kCosts},
    {"holds", PlanCommand::kHolds}};

// Takes the command from the arguments, if there is one.
absl::StatusOr<PlanCommand> TakeCommand(std::vector<std::string>* arguments) {
  if (arguments->empty() || arguments->front().empty() || arguments->front()[0] == '-') {
    return PlanCommand::kTable;
  }
  const std::string name = arguments->front();
  arguments->erase(arguments->begin());
  std::vector<std::string> names;
  for (const auto& [known, command] : kCommands) {
    if (name == known) return command;
    names.emplace_back(known);
  }
  return absl::InvalidArgumentError(absl::StrCat("there is no command '", name, "': it is ",
                                                 absl::StrJoin(names, ", "), " or none",
                                                 DidYouMean(name, names)));
}

// Returns the number in a text such as "300B", "1.5T" or "20000000".
absl::StatusOr<double> ParseTokens(absl::string_view text) {
  constexpr absl::string_view kSuffixes = "KMBT";
  absl::string_view digits = text;
  double factor = 1;
  const size_t power = text.empty() ? absl::string_view::npos : kSuffixes.find(text.back());
  if (power != absl::string_view::npos) {
    factor = std::pow(1e3, static_cast<double>(power + 1));
    digits.remove_suffix(1);
  }
  double number = 0;
  if (absl::SimpleAtod(digits, &number) && number > 0 && std::isfinite(number)) {
    return number * factor;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--tokens is '", text, "': it must be a number above 0, such as 300B, 1.5T or 20M"));
}

// Returns the numbers of ranks to plan for: those of --ranks, or else the devices of a host of
// --cluster.
absl::StatusOr<std::vector<int>> RanksToPlan(const std::string& cluster) {
  const std::vector<std::string> texts = absl::GetFlag(FLAGS_ranks);
  if (texts == std::vector<std::string>{kFewest}) return std::vector<int>{kFewestRanks};
  ASSIGN_OR_RETURN(std::vector<int> ranks, ParseRankCounts(texts));
  if (!ranks.empty()) return ranks;
  if (cluster.empty()) return std::vector<int>{kDefaultRanks};
  ASSIGN_OR_RETURN(const Cluster described, ReadNamedCluster(cluster));
  return std::vector<int>{std::max(kDefaultRanks, described.ranks_per_host())};
}

// Returns the entries of --strategies, or else the default ones of the command.
absl::StatusOr<std::vector<StrategyEntry>> Entries(PlanCommand command, bool given) {
  if (given) return ParseStrategies(absl::GetFlag(FLAGS_strategies));
  std::vector<StrategyEntry> entries = DefaultStrategies();
  if (command == PlanCommand::kDiff) entries.resize(2);
  return entries;
}

// Returns what to plan. `train` has the flags that all have.
absl::StatusOr<std::vector<CellRequest>> Requests(const CommandLine& train,
                                                  absl::Span<const StrategyEntry> entries) {
  ASSIGN_OR_RETURN(const std::vector<int> ranks, RanksToPlan(train.cluster));
  std::vector<CellRequest> requests;
  for (const StrategyEntry& entry : entries) {
    ASSIGN_OR_RETURN(const CommandLine line, CommandLineOf(entry, train));
    for (const int count : ranks) {
      requests.push_back({entry.label, line, count, entry.limit_between});
    }
  }
  return requests;
}

// Checks what `holds` needs, and that it alone has the flag --plan.
absl::Status CheckHolds(const PlanCommandLine& line) {
  if (line.command != PlanCommand::kHolds) {
    if (line.plan.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("--plan is for the command holds: a Plan to be planned is an entry of "
                     "--strategies, --strategies=",
                     line.plan));
  }
  if (line.plan.empty()) {
    return absl::InvalidArgumentError(
        "holds checks a saved Plan: name its file with --plan=FILE, and the strategy that made it "
        "with --strategies=NAME");
  }
  if (line.requests.size() != 1 || line.requests.front().ranks == kFewestRanks) {
    return absl::InvalidArgumentError(
        "holds asks one strategy about one number of ranks: name them with --strategies=NAME and "
        "--ranks=N");
  }
  if (!line.requests.front().line.plan.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("holds asks a strategy, and ", line.requests.front().label,
                     " is a Plan: name the strategy that made it with --strategies=NAME"));
  }
  const std::pair<const char*, bool> unused[] = {
      {"--json", !line.json.empty()}, {"--report", !line.report.empty()},
      {"--save", !line.save.empty()}, {"--trace", !line.trace.empty()},
      {"--tokens", line.tokens > 0},  {"--fit", line.fit}};
  for (const auto& [flag, given] : unused) {
    if (!given) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("holds prints one line: leave out ", flag, ", which it does not use"));
  }
  return absl::OkStatus();
}

// Checks what a command, --save and --trace need.
absl::Status CheckRequests(const PlanCommandLine& line) {
  RETURN_IF_ERROR(CheckHolds(line));
  const size_t count = line.requests.size();
  if (line.command == PlanCommand::kDiff && count != 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "diff compares two Plans, and --strategies and --ranks name ", count,
        ": name two strategies and one number of ranks, or one strategy and two numbers"));
  }
  for (const auto& [flag, file] : {std::pair("--save", &line.save), {"--trace", &line.trace}}) {
    if (file->empty() || count == 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " is for one Plan, and --strategies and --ranks name ", count,
                     ": name one strategy and one number of ranks"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PlanCommandLine> ParsePlanCommandLine(const std::vector<std::string>& arguments) {
  PlanCommandLine line;
  std::vector<std::string> rest = arguments;
  ASSIGN_OR_RETURN(line.command, TakeCommand(&rest));
  ASSIGN_OR_RETURN(const ParsedFlags parsed,
                   ParseFlags(rest, PlanFlags(), Rest::kError, [](absl::string_view name) {
                     const auto model = FindModel(absl::GetFlag(FLAGS_model));
                     return model.ok() ? FieldHint(name, **model) : "";
                   }));
  line.help = parsed.help;
  line.version = parsed.version;
  if (line.help || line.version) return line;
  ASSIGN_OR_RETURN(line.model, FindModel(absl::GetFlag(FLAGS_model)));
  line.fit = absl::GetFlag(FLAGS_fit);
  line.json = absl::GetFlag(FLAGS_json);
  line.report = absl::GetFlag(FLAGS_report);
  line.save = absl::GetFlag(FLAGS_save);
  line.trace = absl::GetFlag(FLAGS_trace);
  line.plan = absl::GetFlag(FLAGS_plan);
  if (const std::string tokens = absl::GetFlag(FLAGS_tokens); !tokens.empty()) {
    ASSIGN_OR_RETURN(line.tokens, ParseTokens(tokens));
  }
  // Nothing is read of the data, and nothing is sampled.
  std::vector<std::string> train = {"--plan_only", "--data=synthetic", "--sample_tokens=0"};
  for (const GivenFlag& flag : parsed.given) {
    if (!IsPlanFlag(flag.name)) train.push_back(absl::StrCat("--", flag.name, "=", flag.value));
  }
  ASSIGN_OR_RETURN(const CommandLine common, ParseCommandLine(train, *line.model));
  const bool names_strategies =
      absl::c_any_of(parsed.given, [](const GivenFlag& flag) { return flag.name == "strategies"; });
  ASSIGN_OR_RETURN(const std::vector<StrategyEntry> entries,
                   Entries(line.command, names_strategies));
  ASSIGN_OR_RETURN(line.requests, Requests(common, entries));
  RETURN_IF_ERROR(CheckRequests(line));
  return line;
}

std::string PlanHelp(const std::string& program) {
  std::map<std::string, FlagNote> notes;
  notes["ranks"] = {
      "", "",
      "numbers of ranks, of which none is started, or \"fewest\": the fewest of 1, 2, "
      "4, ... on which a strategy fits (--fit); without it, the devices of a host of "
      "--cluster, or 2"};
  notes["model"].more = absl::StrCat(": ", absl::StrJoin(ModelNames(), " or "));
  notes["trace"] = {"",
                    {},
                    "write the predicted timeline of a step to this file, for ui.perfetto.dev; for "
                    "one strategy and one number of ranks"};
  notes["plan"] = {"", {}, "the file of a saved Plan; for the command holds"};
  for (const char* name : {"batch", "sequence", "clip_norm", "micro_batches"}) {
    notes[name].default_value = "";
  }
  return absl::StrReplaceAll(absl::StrCat(kAbout, FlagsHelp(PlanFlags(), notes), kNotes),
                             {{"$program", program}});
}

}  // namespace tessera
