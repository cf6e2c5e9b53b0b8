#include "tools/train/flags/flags.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/layout/mesh.h"
#include "core/status/status_macros.h"
#include "core/text/nearest_name.h"
#include "core/train/data/readers/reader_list.h"
#include "tools/train/flags/check_combination.h"
#include "tools/train/flags/flag_fields.h"
#include "tools/train/flags/shell_word.h"
#include "tools/world_flags/world_flags.h"

namespace tessera {

// The value of --batch, a number or "search".
struct BatchValue {
  std::string text;
};

bool AbslParseFlag(absl::string_view text, BatchValue* batch, std::string* error);
std::string AbslUnparseFlag(const BatchValue& batch);

bool AbslParseFlag(absl::string_view text, BatchValue* batch, std::string* error) {
  int64_t rows = 0;
  if (text != kSearch && !absl::SimpleAtoi(text, &rows)) {
    *error = absl::StrCat("neither a whole number that fits nor ", kSearch);
    return false;
  }
  batch->text = std::string(text);
  return true;
}

std::string AbslUnparseFlag(const BatchValue& batch) { return batch.text; }

}  // namespace tessera

ABSL_FLAG(std::string, preset, "", "a configuration that comes with the model");
ABSL_FLAG(std::string, config, "", "a configuration file; its fields override the preset's");
ABSL_FLAG(std::vector<std::string>, set, {},
          "fields of the configuration, which override the file's: "
          "model.layers=6,optimizer.lr=1e-3; a list is written [64;32]");
ABSL_FLAG(std::string, data, "", tessera::DataHelp());

ABSL_FLAG(int64_t, steps, 0, "total number of steps, including those before a resume");
ABSL_FLAG(int64_t, epochs, 0,
          "instead of --steps: passes over the training data, including those before a resume; the "
          "last step may begin another pass: N passes over R rows are N * R / batch steps, rounded "
          "up");
ABSL_FLAG(tessera::BatchValue, batch, {},
          "sequences per step; search: as many as the strategy decides");
ABSL_FLAG(int64_t, sequence, 0, "tokens per sequence");
ABSL_FLAG(std::string, optimizer, "", "sgd or adamw");
ABSL_FLAG(double, lr, 0, "the learning rate after the warm-up, before it decays");
ABSL_FLAG(double, clip_norm, 0, "the largest norm of all gradients together; 0: no clipping");
ABSL_FLAG(uint64_t, seed, 0, "for initial values, the order of the data, dropout and samples");

ABSL_FLAG(std::string, device, "", "cpu, or reference: the simplest loops, in double");
ABSL_FLAG(int32_t, threads, 0, "threads of the kernels; 0: OMP_NUM_THREADS, or all cores");
ABSL_FLAG(int64_t, micro_batches, 0, "gradient accumulation: micro-batches per step");
ABSL_FLAG(std::string, recompute, "",
          "none, or what the backward pass computes again, to save memory: block, the activations "
          "of each block; or those of scopes and operators, such as blocks.*.mlp.gelu");
ABSL_FLAG(std::string, dtype, "",
          "f32, bf16 or f16: what operators compute on; parameters and optimizer state stay f32");
ABSL_FLAG(std::string, kernels, "measured",
          "measured: where several kernels can do the same work, measure which is fastest on this "
          "machine, once, and keep the times for later runs; default: choose by fixed rules. What "
          "a Plan records is used in any case");
ABSL_FLAG(std::string, memory_limit, "", "refuse a run that needs more than this, such as 2GiB");

ABSL_FLAG(
    std::string, strategy, "",
    "how the run is distributed over its ranks: a strategy's name (ddp, fsdp, osdp, tensor) or the "
    "path of a plugin; with --help, prints its options. Without it and without --plan, several "
    "ranks run ddp");
ABSL_FLAG(std::vector<std::string>, strategy_options, {}, "the strategy's options: bucket=25MiB");
ABSL_FLAG(double, strategy_seconds, 600,
          "seconds that a strategy may plan; after that its best Plan so far is used");
ABSL_FLAG(
    std::string, plan, "",
    "run this Plan, a file in protobuf's text form: how the run is distributed over its ranks");
ABSL_FLAG(std::string, cluster, "",
          "price the run for this cluster: a name, such as a100 (docs/clusters), or a file in "
          "protobuf's text form (docs/costs.md); without it, for ranks like this machine's. The "
          "memory of its devices is the limit of a run without --memory_limit");
ABSL_FLAG(std::vector<std::string>, ranks, {},
          "with --plan_only: plan for so many ranks, of which none is started");

ABSL_FLAG(std::string, out, "", "the run folder; without it, a new one below runs/");
ABSL_FLAG(std::string, resume, "",
          "a run folder, to continue from its newest complete checkpoint, or the folder of one "
          "checkpoint");
ABSL_FLAG(
    bool, requeue, false,
    "with --out: resume the run in that folder if it holds a checkpoint, and start it if not, so "
    "that a batch system can run the same command again");
ABSL_FLAG(bool, allow_changed_data, false, "with --resume: continue although the data has changed");
ABSL_FLAG(int64_t, save_every, 0, "steps between checkpoints; 0: one at the end");
ABSL_FLAG(int64_t, eval_every, 0,
          "steps between evaluations, each of eval_batches batches (20; --set=eval_batches=N); 0: "
          "one at the end");
ABSL_FLAG(int64_t, log_every, 0, "steps between step lines; 0: a few lines a second");
ABSL_FLAG(
    tessera::Mode, mode, tessera::Mode::kTrain,
    "train; or, with --resume, evaluate, predict (what --data=FILE, without labels, shows) or "
    "sample, which do not train");
ABSL_FLAG(
    std::string, predictions, "",
    "with --mode=evaluate or predict: write what the model predicts of each row to this file, "
    "as lines of columns between tabs, of which the first names them; evaluate then takes all "
    "of the held-out data, unless eval_batches is set; predict without it prints them");

ABSL_FLAG(int64_t, sample_tokens, 0, "tokens to generate after training; 0: none");
ABSL_FLAG(std::string, prompt, "", "the text that a sample continues");
ABSL_FLAG(double, temperature, 0,
          "divides the logits before a token is drawn; 0: always the most probable token");
ABSL_FLAG(int64_t, top_k, 0, "draw from the most probable tokens only; 0: from all");

ABSL_FLAG(bool, print_config, false, "print the configuration with every field, and exit");
ABSL_FLAG(bool, plan_only, false, "print what the run would need, allocate none of it, and exit");
ABSL_FLAG(std::string, trace, "", "write a trace of one step to this file, for ui.perfetto.dev");
ABSL_FLAG(std::vector<std::string>, dump, {},
          "write these texts to the run folder, separated by commas: graph, plan, program, memory");
ABSL_FLAG(bool, check_memory, false,
          "before training, check the memory plan with a step in guarded memory");

namespace tessera {
namespace {

// Returns the value of --strategy among arguments that were not parsed; "" if it is not there.
std::string FindStrategy(const std::vector<std::string>& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view text = arguments[i];
    if (!absl::ConsumePrefix(&text, "--strategy")) continue;
    if (absl::ConsumePrefix(&text, "=")) return std::string(text);
    if (text.empty() && i + 1 < arguments.size()) return arguments[i + 1];
  }
  return "";
}

absl::StatusOr<std::vector<FieldSetting>> SplitSettings(const std::vector<std::string>& texts) {
  std::vector<FieldSetting> settings;
  for (const std::string& text : texts) {
    const std::vector<std::string> halves = absl::StrSplit(text, absl::MaxSplits('=', 1));
    if (halves.size() != 2 || halves[0].empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--set: '", text, "' is not FIELD=VALUE, such as optimizer.lr=1e-3"));
    }
    settings.push_back({"--set", halves[0], halves[1]});
  }
  return settings;
}

// Returns the names of --dump as a set. InvalidArgument for one that is unknown.
absl::StatusOr<std::set<std::string>> ParseDump(const std::vector<std::string>& names) {
  const std::vector<std::string> known = {"graph", "plan", "program", "memory"};
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return absl::InvalidArgumentError(absl::StrCat("--dump: there is no '", name, "': it is ",
                                                     absl::StrJoin(known, ", "),
                                                     DidYouMean(name, known)));
    }
  }
  return std::set<std::string>(names.begin(), names.end());
}

// Checks the flags of a job whose ranks this process starts.
absl::Status CheckWorld(const comm::WorldOptions& world, int ranks) {
  if (!world.rendezvous.empty()) {
    return absl::InvalidArgumentError(
        "--rendezvous is for ranks that another launcher starts: leave it out beside --nproc");
  }
  const int hosts = static_cast<int>(world.hosts.size());
  if (hosts == 0 || hosts == ranks) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--hosts names the hosts of ", hosts,
                                                 " ranks, and --nproc is ", ranks,
                                                 ": name one host for each rank"));
}

// Returns the value of --ranks, which is one number here; 0 without the flag.
absl::StatusOr<int> ReadRanks(const std::vector<GivenFlag>& given) {
  if (absl::c_none_of(given, [](const GivenFlag& flag) { return flag.name == "ranks"; })) return 0;
  ASSIGN_OR_RETURN(const std::vector<int> counts, ParseRankCounts(absl::GetFlag(FLAGS_ranks)));
  if (counts.size() == 1) return counts[0];
  return absl::InvalidArgumentError(
      absl::StrCat("--ranks=", absl::StrJoin(counts, ","),
                   ": a run has one number of ranks; tools/plan plans for several"));
}

// Returns the value of --epochs; 0 without the flag.
absl::StatusOr<int64_t> ReadEpochs(const std::vector<GivenFlag>& given) {
  if (absl::c_none_of(given, [](const GivenFlag& flag) { return flag.name == "epochs"; })) return 0;
  const int64_t epochs = absl::GetFlag(FLAGS_epochs);
  if (epochs >= 1) return epochs;
  return absl::InvalidArgumentError(absl::StrCat("--epochs is ", epochs, ": it must be 1 or more"));
}

// The flags of a training run that its checkpoints do not hold.
constexpr absl::string_view kRepeated[] = {"backend", "hosts",     "interface", "integrity",
                                           "timeout", "log_every", "kernels"};

// Reads the flags of ranks. `given` are all flags of the command line.
absl::Status ReadRankFlags(const std::vector<GivenFlag>& given, CommandLine* line) {
  line->plan = absl::GetFlag(FLAGS_plan);
  line->cluster = absl::GetFlag(FLAGS_cluster);
  line->strategy = absl::GetFlag(FLAGS_strategy);
  line->strategy_options = absl::GetFlag(FLAGS_strategy_options);
  line->strategy_seconds = absl::GetFlag(FLAGS_strategy_seconds);
  ASSIGN_OR_RETURN(line->ranks, ReadRanks(given));
  ASSIGN_OR_RETURN(line->world, ReadWorldFlags());
  bool has_nproc = false;
  for (const GivenFlag& flag : given) {
    const std::string argument = absl::StrCat("--", flag.name, "=", flag.value);
    if (flag.name == "nproc" || flag.name == "max_restarts" || flag.name == "grace") {
      absl::StrAppend(&line->launch_flags, " ", ShellWord(argument));
      has_nproc = has_nproc || flag.name == "nproc";
      continue;
    }
    line->launch.arguments.push_back(argument);
    if (absl::c_linear_search(kRepeated, flag.name)) {
      absl::StrAppend(&line->repeated_flags, " ", ShellWord(argument));
    }
  }
  if (has_nproc) {
    RETURN_IF_ERROR(comm::ReadLaunchFlags(&line->launch));
    RETURN_IF_ERROR(CheckWorld(line->world, line->launch.nproc));
    line->launch.times.suspended_limit =
        std::chrono::milliseconds(static_cast<int64_t>(line->world.timeout_seconds * 1e3));
    return absl::OkStatus();
  }
  if (absl::GetFlag(FLAGS_max_restarts) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--max_restarts is for ranks that --nproc=N starts; another launcher has its own");
}

std::vector<FlagEntry> RankFlags() {
  std::vector<FlagEntry> flags = {{"nproc", "N", {"nproc_per_node", "np"}},
                                  {"max_restarts", "N"},
                                  {"grace", "X"},
                                  {"strategy", "NAME"},
                                  {"strategy_options", "NAME=VALUE,..."},
                                  {"strategy_seconds", "X"},
                                  {"plan", "FILE"},
                                  {"cluster", "NAME"},
                                  {"ranks", "N"}};
  for (FlagEntry& flag : WorldFlags()) flags.push_back(std::move(flag));
  return flags;
}

}  // namespace

absl::StatusOr<std::vector<int>> ParseRankCounts(absl::Span<const std::string> texts) {
  std::vector<int> counts;
  for (const std::string& text : texts) {
    int count = 0;
    if (!absl::SimpleAtoi(text, &count) || count < 1 || count > Mesh::kMaxRanks) {
      return absl::InvalidArgumentError(
          absl::StrCat("--ranks=", text, ": it must be from 1 to ", Mesh::kMaxRanks));
    }
    counts.push_back(count);
  }
  return counts;
}

bool RanksAreThreads(const CommandLine& line) { return line.world.backend == "fake"; }

bool StartsRankProcesses(const CommandLine& line) {
  const bool trains = !line.help && !line.version && !line.print_config && !line.plan_only;
  return trains && line.launch.nproc > 0 && !RanksAreThreads(line);
}

bool SetsField(const CommandLine& line, absl::string_view field) {
  return std::any_of(line.settings.begin(), line.settings.end(),
                     [&](const FieldSetting& setting) { return setting.path == field; });
}

const std::vector<FlagGroup>& TrainFlags() {
  static const auto* const groups = new std::vector<FlagGroup>{
      {"Model and data",
       {{"preset", "NAME"}, {"config", "FILE"}, {"set", "FIELD=VALUE,..."}, {"data", "FILE"}}},
      {"Optimization",
       {{"steps", "N", {"max_iters", "max_steps"}},
        {"epochs", "N", {"num_epochs", "num_train_epochs"}},
        {"batch", "N|search", {"batch_size"}},
        {"sequence", "N", {"seq_len", "block_size"}},
        {"optimizer", "NAME"},
        {"lr", "X", {"learning_rate"}},
        {"clip_norm", "X", {"grad_clip", "max_grad_norm"}},
        {"seed", "N"}}},
      {"Machine",
       {{"device", "NAME"},
        {"threads", "N"},
        {"micro_batches", "N"},
        {"recompute", "WHAT"},
        {"dtype", "NAME", {"precision"}},
        {"kernels", "HOW"},
        {"memory_limit", "SIZE"}}},
      {"Ranks", RankFlags()},
      {"Run",
       {{"out", "DIR", {"output_dir", "out_dir"}},
        {"resume", "DIR"},
        {"requeue", ""},
        {"allow_changed_data", ""},
        {"save_every", "N", {"save_interval"}},
        {"eval_every", "N", {"eval_interval"}},
        {"log_every", "N", {"log_interval"}},
        {"mode", "MODE"},
        {"predictions", "FILE"}}},
      {"Samples",
       {{"sample_tokens", "N"}, {"prompt", "TEXT"}, {"temperature", "X"}, {"top_k", "N"}}},
      {"Inspection",
       {{"print_config", ""},
        {"plan_only", ""},
        {"trace", "FILE"},
        {"dump", "WHAT,..."},
        {"check_memory", ""}}},
  };
  return *groups;
}

absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments,
                                             const ModelDefinition& model) {
  CommandLine line;
  ASSIGN_OR_RETURN(const ParsedFlags parsed,
                   ParseFlags(arguments, TrainFlags(), Rest::kError,
                              [&model](absl::string_view name) { return FieldHint(name, model); }));
  line.help = parsed.help;
  line.version = parsed.version;
  if (line.help || line.version) {
    line.strategy = FindStrategy(arguments);
    return line;
  }
  std::vector<std::string> set_texts;
  std::vector<FieldSetting> field_flags;
  for (const GivenFlag& given : parsed.given) {
    if (given.name == "set") {  // it may be given more than once
      const std::vector<std::string> more = absl::StrSplit(given.value, ',', absl::SkipEmpty());
      set_texts.insert(set_texts.end(), more.begin(), more.end());
    }
    const std::string field = FieldOfFlag(given.name);
    if (!field.empty()) {
      field_flags.push_back({absl::StrCat("--", given.name), field, given.value});
    }
  }
  ASSIGN_OR_RETURN(line.settings, SplitSettings(set_texts));
  line.settings.insert(line.settings.end(), field_flags.begin(), field_flags.end());
  line.preset = absl::GetFlag(FLAGS_preset);
  line.config = absl::GetFlag(FLAGS_config);
  line.out = absl::GetFlag(FLAGS_out);
  line.resume = absl::GetFlag(FLAGS_resume);
  line.requeue = absl::GetFlag(FLAGS_requeue);
  line.allow_changed_data = absl::GetFlag(FLAGS_allow_changed_data);
  line.mode = absl::GetFlag(FLAGS_mode);
  line.predictions = absl::GetFlag(FLAGS_predictions);
  ASSIGN_OR_RETURN(line.epochs, ReadEpochs(parsed.given));
  line.log_every = absl::GetFlag(FLAGS_log_every);
  line.kernels = absl::GetFlag(FLAGS_kernels);
  line.trace = absl::GetFlag(FLAGS_trace);
  line.check_memory = absl::GetFlag(FLAGS_check_memory);
  line.print_config = absl::GetFlag(FLAGS_print_config);
  line.plan_only = absl::GetFlag(FLAGS_plan_only);
  RETURN_IF_ERROR(ReadRankFlags(parsed.given, &line));
  ASSIGN_OR_RETURN(line.dump, ParseDump(absl::GetFlag(FLAGS_dump)));
  RETURN_IF_ERROR(CheckCombination(line));
  return line;
}

}  // namespace tessera
