#include "tools/train/train_main.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/cost/best_rates.h"
#include "core/cost/limits.h"
#include "core/posix/available_cores.h"
#include "core/posix/available_memory.h"
#include "core/posix/user_folder.h"
#include "core/runtime/engine.h"
#include "core/runtime/memory_check.h"
#include "core/status/status_macros.h"
#include "core/text/human_units.h"
#include "core/text/version.h"
#include "core/train/programs.h"
#include "core/train/ranks/ranks.h"
#include "core/train/trainer.h"
#include "google/protobuf/text_format.h"
#include "tools/train/flags/flags.h"
#include "tools/train/flags/help.h"
#include "tools/train/flags/shell_word.h"
#include "tools/train/folder/job_folder.h"
#include "tools/train/folder/run_folder.h"
#include "tools/train/rank/interrupt.h"
#include "tools/train/rank/job.h"
#include "tools/train/rank/rank_program.h"
#include "tools/train/rank/standard_output.h"
#include "tools/train/report/cost_report.h"
#include "tools/train/report/process_memory.h"
#include "tools/train/report/report.h"
#include "tools/train/run_engine.h"
#include "tools/train/setup/configure.h"
#include "tools/train/setup/find_cluster.h"
#include "tools/train/setup/machine_rates.h"
#include "tools/train/setup/memory_checks.h"
#include "tools/train/setup/open_folder.h"
#include "tools/train/setup/prepare.h"
#include "tools/train/setup/priced_cluster.h"
#include "tools/train/setup/strategy_session.h"
#include "tools/train/train_loop.h"
#include "tools/train/use_model.h"

namespace tessera {
namespace {

// Returns the command by which the user starts this program.
std::string TrainCommand(const std::string& name, const ModelDefinition& definition) {
  return ProgramCommand(name, absl::StrCat("//models/", definition.name, ":train"));
}

absl::Status WriteDumps(const std::set<std::string>& dump, const PreparedRun& prepared, int ranks,
                        RunFolder* folder) {
  const CompiledRun& run = prepared.compiled;
  if (dump.count("graph") > 0) {
    for (const Graph& graph : prepared.dumped_graphs) {
      RETURN_IF_ERROR(
          folder->WriteText(absl::StrCat("dump/graph-", graph.name(), ".txt"), graph.ToString()));
    }
  }
  if (dump.count("program") > 0) {
    for (const Program& program : run.programs) {
      RETURN_IF_ERROR(folder->WriteText(absl::StrCat("dump/program-", program.name, ".txt"),
                                        program.ToString()));
    }
  }
  if (dump.count("plan") > 0) {
    std::string text;
    google::protobuf::TextFormat::PrintToString(run.plan, &text);
    RETURN_IF_ERROR(folder->WriteText("dump/plan.textproto", text));
  }
  if (dump.count("memory") > 0) {
    RETURN_IF_ERROR(folder->WriteText("dump/memory.txt", MemoryTable(run, ranks)));
  }
  return absl::OkStatus();
}

// Sets the state at which the run begins: a new one, or that of its checkpoint.
absl::Status InitialiseOrLoad(const ConfiguredRun& configured, Trainer* trainer) {
  return configured.checkpoint == nullptr ? trainer->Initialise()
                                          : LoadCheckpoint(configured, Extra::kRefuse, trainer);
}

// Runs a step in guarded memory. Afterwards the state has its former value.
absl::Status CheckMemoryOfStep(const ConfiguredRun& configured, Engine* engine, Trainer* trainer) {
  RETURN_IF_ERROR(configured.ranks.ranks->Agree(CheckMemory(
      *engine, kTrain, [trainer](Engine& each) { return trainer->SetTrainInputs(each); })));
  PrintLine(absl::StrCat(
      "memory checked: every kernel of a step stays within its buffers, and the peak is ",
      FormatBytes(engine->run().arena_bytes()), " as planned"));
  return InitialiseOrLoad(configured, trainer);
}

// Measures the machine on rank 0, which reports the speed.
absl::StatusOr<MachineRates> MeasureAndReport(const ConfiguredRun& configured,
                                              const CompiledRun& compiled) {
  Ranks& ranks = *configured.ranks.ranks;
  const DType dtype = MatmulDType(*compiled.FindProgram(kTrain));
  MeasuredRates rates;
  RETURN_IF_ERROR(ranks
                      .BroadcastFromFirst([&]() -> absl::StatusOr<std::string> {
                        ASSIGN_OR_RETURN(rates, MeasureRates(*configured.backend, dtype,
                                                             compiled.arena_bytes()));
                        return "";
                      })
                      .status());
  ResetPeakMemory();
  if (ranks.is_first()) PrintLine(RatesLine(*configured.backend, rates));
  return rates.best;
}

// Trains with an engine of the run. Closes the checkpoint of the run when it is loaded.
absl::StatusOr<int> TrainSteps(const CommandLine& line, ConfiguredRun& configured,
                               const MachineRates& rates, LoopOptions options, Engine& engine,
                               Trainer& trainer) {
  RETURN_IF_ERROR(InitialiseOrLoad(configured, &trainer));
  if (options.folder != nullptr) {
    RETURN_IF_ERROR(options.folder->WriteText("config.textproto", configured.config_text));
  }
  if (configured.checkpoint != nullptr) {
    PrintLine(
        absl::StrCat("going on from step ", trainer.step(), ", ", configured.checkpoint->folder()));
  }
  if (line.check_memory) {
    RETURN_IF_ERROR(CheckMemoryOfStep(configured, &engine, &trainer));
    ResetPeakMemory();
  }
  if (configured.checkpoint != nullptr) {
    options.start_step = configured.checkpoint->step();
    options.start_folder = configured.checkpoint->folder();
    // Files that stay open keep their space on the disk when the checkpoint is removed.
    configured.checkpoint.reset();
  }
  TrainLoop loop(configured, rates, options, &engine, &trainer);
  return loop.Run();
}

// Returns the estimated cost of a step, and the communication of several ranks.
std::string CostReport(const PreparedRun& prepared, const std::string& cluster, int ranks) {
  if (ranks == 1) return StepTimeLine(prepared.estimated, cluster);
  return absl::StrCat(PlanTable(prepared.compiled.plan, *prepared.compiled.FindProgram(kTrain)),
                      EstimateTable(prepared.estimated, cluster));
}

// `folder` is the folder of the resumed run, nullptr for a new run and on other ranks than rank 0.
absl::StatusOr<int> Train(const CommandLine& line, const std::string& command, const Job& job,
                          const JobAttempt& attempt, ConfiguredRun configured, PreparedRun prepared,
                          std::unique_ptr<RunFolder> folder, std::vector<std::string> notes) {
  const CompiledRun& compiled = prepared.compiled;
  const RunRanks& ranks = configured.ranks;
  if (configured.checkpoint != nullptr &&
      configured.checkpoint->step() >= configured.config.steps()) {
    PrintNotes(notes);
    PrintLine(absl::StrFormat("nothing is left to do: step %d of %d is done; --steps=N goes on",
                              configured.checkpoint->step(), configured.config.steps()));
    return 0;
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> lacks,
                   CheckMemoryOfHosts(compiled.arena_bytes(), ranks));
  PrintNotes(lacks);
  const absl::StatusOr<OpenedFolder> opened =
      OpenFolder(line, attempt, configured, compiled, std::move(folder), &notes);
  // Some of them may say what was renamed.
  if (!opened.ok()) PrintNotes(notes);
  RETURN_IF_ERROR(opened.status());
  PrintLine(absl::StrCat("run folder: ", opened->path));
  PrintLine(ModelLine(configured.definition->name, configured.config, configured.unit(), compiled,
                      job.Description()));
  PrintNotes(notes);
  if (opened->folder != nullptr) {
    RETURN_IF_ERROR(WriteDumps(line.dump, prepared, ranks.size, opened->folder.get()));
  }
  ASSIGN_OR_RETURN(const MachineRates rates, MeasureAndReport(configured, compiled));
  PrintText(MemoryTable(compiled, ranks.size));
  if (ranks.size > 1) {
    PrintText(CostReport(prepared, configured.priced.cluster.name(), ranks.size));
  }
  const LoopOptions options = {
      .run_folder = opened->path,
      .folder = opened->folder.get(),
      .trace = UserPath(line.trace),
      .command = absl::StrCat(command, job.LaunchFlags(), line.repeated_flags),
      .log_every = line.log_every,
      .estimated = prepared.estimated,
      .plugin = prepared.plugin};
  return WithEngine(configured, std::move(prepared.compiled),
                    [&](Engine& engine, Trainer& trainer) {
                      return TrainSteps(line, configured, rates, options, engine, trainer);
                    });
}

// Returns where the rates come from with which --plan_only prices a run.
std::string OriginOfRates(const CommandLine& line, const Backend& backend) {
  if (!line.cluster.empty()) return FindCluster(line.cluster).value_or(line.cluster);
  const std::string path = BestRatesPath();
  const bool is_kept = KeepBestRates(path, MachineName(backend), {}).flops_per_second > 0;
  return is_kept ? absl::StrCat("the best of this machine so far, ", path) : "measured now";
}

// "26.4K tokens/s, MFU 65.1%".
std::string RateLine(const ConfiguredRun& configured, const PreparedRun& prepared) {
  const SampleUnit unit = configured.unit();
  const auto units = static_cast<double>(configured.config.batch() * unit.per_row);
  return absl::StrFormat("%s %s, MFU %.1f%%\n",
                         FormatCount(units / prepared.estimated.step_seconds()), unit.Rate(),
                         100 * EstimatedMfu(configured, prepared));
}

// Runs --plan_only for `size` ranks. Returns the exit code.
absl::StatusOr<int> ShowPlan(const CommandLine& line, const ModelDefinition& definition, int size) {
  Ranks alone;
  RunRanks ranks = {.ranks = &alone, .size = size};
  ASSIGN_OR_RETURN(ranks.of_host, PlannedRanksOfHost(line, size));
  ranks.cores = std::max(1, AvailableCores() / ranks.of_host);
  std::vector<std::string> notes;
  ASSIGN_OR_RETURN(ConfiguredRun configured, ConfigureRun(line, definition, ranks, &notes));
  ASSIGN_OR_RETURN(const PreparedRun prepared, PrepareRun(line, configured, &notes));
  const CompiledRun& compiled = prepared.compiled;
  PrintNotes(notes);
  const Cluster& described = configured.priced.cluster;
  const SampleUnit unit = configured.unit();
  PrintText(
      line.cluster.empty()
          ? PlanReport(definition.name, configured.config, unit, compiled, size, AvailableMemory())
          : PlanReport(definition.name, configured.config, unit, compiled, size,
                       described.memory_bytes(), absl::StrCat("a device of ", described.name())));
  if (line.mode == Mode::kTrain) {
    const auto& [cluster, site] = configured.priced;
    PrintText(absl::StrCat(
        "\n", CostReport(prepared, cluster.name(), size), RateLine(configured, prepared),
        ClusterRatesLine(cluster, site, OriginOfRates(line, *configured.backend))));
  }
  PrintText(configured.kernels->Line(compiled));
  if (!line.dump.empty()) {
    ASSIGN_OR_RETURN(std::unique_ptr<RunFolder> folder, OpenResumedFolder(line));
    if (folder == nullptr) {
      ASSIGN_OR_RETURN(folder, OpenNewFolder(line, definition.name, JobAttempt()));
    }
    RETURN_IF_ERROR(WriteDumps(line.dump, prepared, size, folder.get()));
    PrintLine(absl::StrCat("dumped to ", folder->path(), "/dump"));
  }
  RETURN_IF_ERROR(CheckMemoryLimit(line, configured, compiled));
  return 0;
}

// If this job was started again, changes its command line so that it resumes its run. Collective.
absl::Status ResumeJob(const std::string& model, const JobAttempt& attempt, Ranks& ranks,
                       CommandLine* line) {
  ASSIGN_OR_RETURN(const std::string folder,
                   ranks.BroadcastFromFirst([&] { return FolderToResume(*line, model, attempt); }));
  if (folder.empty()) return absl::OkStatus();
  PrintNotes({absl::StrCat(line->requeue ? "--requeue: the run goes on in "
                                         : "this job was started again, and goes on in ",
                           folder)});
  line->resume = folder;
  line->preset.clear();
  return absl::OkStatus();
}

// Runs the command line on this rank of the job.
absl::StatusOr<int> RunRank(CommandLine line, const std::string& name,
                            const ModelDefinition& definition, Job& job) {
  Ranks& ranks = job.ranks();
  if (!ranks.is_first()) DiscardOutput();
  if (PrintsRows(line)) PrintNotesToStandardError();
  PrintNotes(job.notes());
  const JobAttempt attempt = ReadJobAttempt(std::getenv);
  RETURN_IF_ERROR(CheckPredictionsFile(line, ranks));
  std::unique_ptr<RunFolder> folder;
  if (line.mode == Mode::kTrain) {
    RETURN_IF_ERROR(ResumeJob(definition.name, attempt, ranks, &line));
    RETURN_IF_ERROR(ranks
                        .BroadcastFromFirst([&]() -> absl::StatusOr<std::string> {
                          ASSIGN_OR_RETURN(folder, OpenResumedFolder(line));
                          return "";
                        })
                        .status());
  }
  RunRanks run_ranks = {&ranks,      ranks.size(), job.ranks_of_host(),
                        job.cores(), {},           RanksAreThreads(line)};
  ASSIGN_OR_RETURN(run_ranks.site, SiteOfRanks(job.backend(), job.hosts()));
  std::vector<std::string> notes;
  ASSIGN_OR_RETURN(ConfiguredRun configured, ConfigureRun(line, definition, run_ranks, &notes));
  ASSIGN_OR_RETURN(PreparedRun prepared, PrepareRun(line, configured, &notes));
  RETURN_IF_ERROR(CheckMemoryLimit(line, configured, prepared.compiled));
  StopOnInterrupts(/*one_rank=*/ranks.size() == 1);
  if (line.mode == Mode::kTrain) {
    return Train(line, TrainCommand(name, definition), job, attempt, std::move(configured),
                 std::move(prepared), std::move(folder), std::move(notes));
  }
  PrintNotes(notes);
  return UseModel(line, configured, std::move(prepared.compiled));
}

absl::StatusOr<int> Run(const std::string& name, const std::vector<std::string>& arguments,
                        const ModelDefinition& definition) {
  const absl::StatusOr<CommandLine> parsed = ParseCommandLine(arguments, definition);
  if (!parsed.ok()) {
    LetFirstRankReport();
    return parsed.status();
  }
  const CommandLine& line = *parsed;
  if (line.version) {
    absl::PrintF("%s", VersionLine());
    return 0;
  }
  if (line.help && !line.strategy.empty()) {
    ASSIGN_OR_RETURN(const std::string help, StrategyHelp(line.strategy));
    PrintText(help);
    return 0;
  }
  if (line.help) {
    absl::PrintF("%s", HelpText(TrainCommand(name, definition), definition));
    return 0;
  }
  if (line.print_config) {
    ASSIGN_OR_RETURN(const std::string config, EffectiveConfigText(line, definition));
    absl::PrintF("%s", config);
    return 0;
  }
  if (line.plan_only) {
    return ShowPlan(line, definition, std::max({1, line.ranks, line.launch.nproc}));
  }
  const int threads = RanksAreThreads(line) ? line.launch.nproc : 0;
  return RunAsRank(line.world, threads,
                   [&](Job& job) { return RunRank(line, name, definition, job); });
}

// Returns the launcher's command line if it is to start the ranks; nothing if Run() serves the
// arguments in this process, and reports what is wrong with them. The ranks inherit the launch
// flags, for the command that they show to the user.
std::optional<comm::LaunchCommandLine> LauncherFor(const std::vector<std::string>& arguments,
                                                   const ModelDefinition& definition) {
  absl::StatusOr<CommandLine> line = ParseCommandLine(arguments, definition);
  if (!line.ok() || !StartsRankProcesses(*line)) return std::nullopt;
  setenv(kLaunchFlagsVariable, line->launch_flags.c_str(), /*overwrite=*/1);
  return std::move(line->launch);
}

}  // namespace

int TrainMain(int argc, char** argv, const ModelDefinition& definition) {
  return RankMain(
      argc, argv,
      {.launch = [&](const auto& arguments) { return LauncherFor(arguments, definition); },
       .run = [&](const auto& name,
                  const auto& arguments) { return Run(name, arguments, definition); }});
}

}  // namespace tessera
