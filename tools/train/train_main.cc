#include "tools/train/train_main.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "collectives/host_identity.h"
#include "core/cost/best_rates.h"
#include "core/cost/limits.h"
#include "core/posix/available_cores.h"
#include "core/posix/available_memory.h"
#include "core/posix/user_folder.h"
#include "core/runtime/engine.h"
#include "core/runtime/memory_check.h"
#include "core/status/status_macros.h"
#include "core/text/counted.h"
#include "core/text/human_units.h"
#include "core/text/version.h"
#include "core/train/programs.h"
#include "core/train/ranks/rank_engine.h"
#include "core/train/ranks/ranks.h"
#include "core/train/trainer.h"
#include "google/protobuf/text_format.h"
#include "tools/train/agree_on_data.h"
#include "tools/train/flags/flags.h"
#include "tools/train/flags/help.h"
#include "tools/train/flags/shell_word.h"
#include "tools/train/folder/own_run.h"
#include "tools/train/folder/run_folder.h"
#include "tools/train/job/interrupt.h"
#include "tools/train/job/job.h"
#include "tools/train/job/job_program.h"
#include "tools/train/job/standard_output.h"
#include "tools/train/job/stop_request.h"
#include "tools/train/report/cost_report.h"
#include "tools/train/report/process_memory.h"
#include "tools/train/report/report.h"
#include "tools/train/sample.h"
#include "tools/train/setup/machine_rates.h"
#include "tools/train/setup/open_run.h"
#include "tools/train/setup/run_cluster.h"
#include "tools/train/setup/run_strategy.h"
#include "tools/train/setup/setup.h"
#include "tools/train/train_loop.h"

namespace tessera {
namespace {

void PrintNotes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) PrintLine(absl::StrCat("note: ", note));
}

// Returns the command that starts this program as the user did, by this name, as a shell reads it.
// `bazel run` sets the variable.
std::string ProgramCommand(const std::string& name, const ModelDefinition& definition) {
  if (std::getenv("BUILD_WORKING_DIRECTORY") == nullptr) return ShellWord(name);
  return absl::StrCat("./bazelw run //models/", definition.name, ":train --");
}

absl::Status WriteDumps(const std::set<std::string>& dump, const Setup& setup, RunFolder* folder) {
  const CompiledRun& run = setup.compiled;
  if (dump.count("graph") > 0) {
    for (const Graph& graph : setup.dumped_graphs) {
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
    RETURN_IF_ERROR(folder->WriteText("dump/memory.txt", MemoryTable(run, setup.ranks.size)));
  }
  return absl::OkStatus();
}

absl::Status LoadCheckpoint(const Setup& setup, Extra extra, Trainer* trainer) {
  ASSIGN_OR_RETURN(const std::vector<std::string> notes,
                   trainer->Load(*setup.checkpoint, extra, setup.first_row));
  PrintNotes(notes);
  return absl::OkStatus();
}

absl::Status Begin(const Setup& setup, Trainer* trainer) {
  return setup.checkpoint == nullptr ? trainer->Initialise()
                                     : LoadCheckpoint(setup, Extra::kRefuse, trainer);
}

// Runs a step in guarded memory. Afterwards the state has its former value.
absl::Status ProveMemory(const Setup& setup, Engine* engine, Trainer* trainer) {
  RETURN_IF_ERROR(setup.ranks.ranks->Agree(CheckMemory(
      *engine, kTrain, [trainer](Engine& each) { return trainer->SetTrainInputs(each); })));
  PrintLine(absl::StrCat(
      "memory checked: every kernel of a step stays within its buffers, and the peak is ",
      FormatBytes(engine->run().arena_bytes()), " as planned"));
  return Begin(setup, trainer);
}

// Returns whether the ranks of a host have their arenas in shared memory.
bool SharesMemory(Ranks& ranks) {
  if (ranks.world() == nullptr) return false;
  const std::string& backend = ranks.world()->backend();
  return backend == "shm" || backend == "hierarchical";
}

// Notes hosts that lack memory for their ranks. If the ranks share memory, a lack is an agreed
// error: each reserves its memory when it begins and might find enough, and later the system would
// kill one. If memory is too small even for one rank, the reservation reports that rank.
absl::Status CheckMemoryOfHosts(const Setup& setup) {
  const int64_t bytes = setup.compiled.arena_bytes();
  const int64_t needed = bytes * setup.ranks.of_host;
  const int64_t available = AvailableMemory();
  std::string note;
  if (available > 0 && needed > available && setup.ranks.size == 1) {
    note = absl::StrCat("the run needs ", FormatBytes(needed), " of memory, and only ",
                        FormatBytes(available), " are available");
  } else if (available > 0 && needed > available) {
    note = absl::StrCat("on ", comm::HostName(), ", ", Counted(setup.ranks.of_host, "rank"), " of ",
                        FormatBytes(bytes), " need ", FormatBytes(needed), " of memory, and only ",
                        FormatBytes(available), " are available");
  }
  Ranks& ranks = *setup.ranks.ranks;
  const bool fails = !note.empty() && bytes <= available && SharesMemory(ranks);
  RETURN_IF_ERROR(ranks.Agree(fails ? absl::ResourceExhaustedError(note) : absl::OkStatus()));
  ASSIGN_OR_RETURN(std::vector<std::string> notes, ranks.Gather(note));
  std::sort(notes.begin(), notes.end());
  notes.erase(std::unique(notes.begin(), notes.end()), notes.end());
  if (notes.front().empty()) notes.erase(notes.begin());
  PrintNotes(notes);
  return absl::OkStatus();
}

// Makes the engine and the trainer of this rank, and calls `use`. If that fails, reports it to the
// other ranks before the engine's memory is freed, because freeing is collective.
absl::StatusOr<int> OnEngine(
    Setup& setup, const std::function<absl::StatusOr<int>(Engine& engine, Trainer& trainer)>& use) {
  Ranks& ranks = *setup.ranks.ranks;
  ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                   MakeRankEngine(std::move(setup.compiled), setup.backend.get(), ranks));
  Trainer trainer(setup.config, setup.model.get(), engine.get(), setup.dataset.get(), &ranks);
  absl::StatusOr<int> code = use(*engine, trainer);
  if (!code.ok()) ranks.Abort(code.status());
  return code;
}

// Measures the machine on rank 0, which reports the speed.
absl::StatusOr<MachineRates> MeasureAndReport(const Setup& setup) {
  Ranks& ranks = *setup.ranks.ranks;
  const DType dtype = MatmulDType(*setup.compiled.FindProgram(kTrain));
  MeasuredRates rates;
  RETURN_IF_ERROR(ranks
                      .FromFirst([&]() -> absl::StatusOr<std::string> {
                        ASSIGN_OR_RETURN(rates, MeasureRates(*setup.backend, dtype,
                                                             setup.compiled.arena_bytes()));
                        return "";
                      })
                      .status());
  ResetPeakMemory();
  if (ranks.is_first()) PrintLine(RatesLine(*setup.backend, rates));
  return rates.best;
}

absl::StatusOr<int> TrainSteps(const CommandLine& line, Setup& setup, const MachineRates& rates,
                               LoopOptions options, RunFolder* folder, Engine& engine,
                               Trainer& trainer) {
  RETURN_IF_ERROR(Begin(setup, &trainer));
  if (folder != nullptr) {
    RETURN_IF_ERROR(folder->WriteText("config.textproto", setup.config_text));
  }
  if (setup.checkpoint != nullptr) {
    PrintLine(
        absl::StrCat("going on from step ", trainer.step(), ", ", setup.checkpoint->folder()));
  }
  if (line.check_memory) {
    RETURN_IF_ERROR(ProveMemory(setup, &engine, &trainer));
    ResetPeakMemory();
  }
  if (setup.checkpoint != nullptr) {
    options.start_step = setup.checkpoint->step();
    options.start_folder = setup.checkpoint->folder();
    // Files that stay open keep their space on the disk when the checkpoint is removed.
    setup.checkpoint.reset();
  }
  TrainLoop loop(setup, rates, options, &engine, &trainer);
  return loop.Run();
}

// Returns the estimated cost of a step, and the communication of several ranks.
std::string CostReport(const Setup& setup) {
  if (setup.ranks.size == 1) return StepTimeLine(setup.estimated, setup.cluster.name());
  const Program& train = *setup.compiled.FindProgram(kTrain);
  return absl::StrCat(PlanTable(setup.compiled.plan, train),
                      EstimateTable(setup.estimated, setup.cluster.name()));
}

// `folder` is the folder of the resumed run, nullptr for a new run and on other ranks than rank 0.
absl::StatusOr<int> Train(const CommandLine& line, const std::string& name, Job& job,
                          const StartOfJob& start, Setup setup, std::unique_ptr<RunFolder> folder) {
  if (setup.checkpoint != nullptr && setup.checkpoint->step() >= setup.config.steps()) {
    PrintNotes(setup.notes);
    PrintLine(absl::StrFormat("nothing is left to do: step %d of %d is done; --steps=N goes on",
                              setup.checkpoint->step(), setup.config.steps()));
    return 0;
  }
  RETURN_IF_ERROR(CheckMemoryOfHosts(setup));
  LoopOptions options;
  absl::StatusOr<std::string> opened = OpenFolder(line, start, &setup, &folder);
  // Some of them may say what was renamed.
  if (!opened.ok()) PrintNotes(setup.notes);
  RETURN_IF_ERROR(opened.status());
  options.run_folder = *std::move(opened);
  options.folder = folder.get();
  options.trace = UserPath(line.trace);
  options.command =
      absl::StrCat(ProgramCommand(name, *setup.definition), job.LaunchFlags(), line.repeated_flags);
  options.log_every = line.log_every;
  PrintLine(absl::StrCat("run folder: ", options.run_folder));
  PrintLine(ModelLine(setup.definition->name, setup.config, setup.compiled, job.Description()));
  PrintNotes(setup.notes);
  if (folder != nullptr) {
    RETURN_IF_ERROR(WriteDumps(line.dump, setup, folder.get()));
  }
  ASSIGN_OR_RETURN(const MachineRates rates, MeasureAndReport(setup));
  PrintText(MemoryTable(setup.compiled, setup.ranks.size));
  if (setup.ranks.size > 1) PrintText(CostReport(setup));
  return OnEngine(setup, [&](Engine& engine, Trainer& trainer) {
    return TrainSteps(line, setup, rates, options, folder.get(), engine, trainer);
  });
}

// Evaluates or samples.
absl::StatusOr<int> UseModel(const CommandLine& line, Setup setup) {
  PrintNotes(setup.notes);
  RETURN_IF_ERROR(CheckMemoryOfHosts(setup));
  Ranks& ranks = *setup.ranks.ranks;
  StopRequest stop(&ranks);
  return OnEngine(setup, [&](Engine& engine, Trainer& trainer) -> absl::StatusOr<int> {
    RETURN_IF_ERROR(LoadCheckpoint(setup, Extra::kLeaveOptimizer, &trainer));
    if (line.mode == Mode::kSample) {
      RETURN_IF_ERROR(PrintSample(setup, engine, stop));
    } else {
      ASSIGN_OR_RETURN(const EvaluationResult result,
                       trainer.Evaluate([&](const absl::Status& read) -> absl::StatusOr<bool> {
                         absl::Status data = read;
                         ASSIGN_OR_RETURN(const StopRequest::Report agreed,
                                          AgreeOnData({.compares_data = trainer.MustCompareData()},
                                                      trainer, ranks, stop, &data));
                         if (agreed.data_failed) RETURN_IF_ERROR(ranks.Agree(data));
                         return stop.signal() != 0;
                       }));
      if (result.complete) {
        PrintLine(absl::StrCat("step ", trainer.step(), ": ", EvaluationText(result)));
      }
    }
    return stop.signal() != 0 ? 128 + stop.signal() : 0;
  });
}

// Returns where the rates come from with which --plan_only prices a run.
std::string OriginOfRates(const CommandLine& line) {
  if (!line.cluster.empty()) return UserPath(line.cluster);
  const std::string kept = BestRatesPath();
  return kept.empty() ? "measured now" : absl::StrCat("the best of this machine so far, ", kept);
}

absl::StatusOr<int> ShowPlan(const CommandLine& line, const ModelDefinition& definition, int size) {
  Ranks alone;
  RunRanks ranks = {.ranks = &alone, .size = size};
  ASSIGN_OR_RETURN(ranks.of_host, PlannedRanksOfHost(line, size));
  ranks.cores = std::max(1, AvailableCores() / ranks.of_host);
  ASSIGN_OR_RETURN(const Setup setup, PrepareRun(line, definition, ranks));
  PrintNotes(setup.notes);
  PrintText(PlanReport(definition.name, setup.config, setup.compiled, size, AvailableMemory()));
  if (line.mode == Mode::kTrain) {
    PrintText(absl::StrCat("\n", CostReport(setup),
                           ClusterRatesLine(setup.cluster, setup.site, OriginOfRates(line))));
  }
  if (!line.dump.empty()) {
    ASSIGN_OR_RETURN(std::unique_ptr<RunFolder> folder, OpenResumedFolder(line));
    if (folder == nullptr) {
      ASSIGN_OR_RETURN(folder, OpenNewFolder(line, setup, StartOfJob()));
    }
    RETURN_IF_ERROR(WriteDumps(line.dump, setup, folder.get()));
    PrintLine(absl::StrCat("dumped to ", folder->path(), "/dump"));
  }
  RETURN_IF_ERROR(CheckMemoryLimit(setup, line));
  return 0;
}

// Runs the command line on this rank of the job.
absl::StatusOr<int> RunRank(CommandLine line, const std::string& name,
                            const ModelDefinition& definition, Job& job) {
  Ranks& ranks = job.ranks();
  if (!ranks.is_first()) DiscardOutput();
  PrintNotes(job.notes());
  const bool train = line.mode == Mode::kTrain;
  const StartOfJob start = ReadStartOfJob(std::getenv);
  std::unique_ptr<RunFolder> folder;
  if (train) {
    ASSIGN_OR_RETURN(const std::string own,
                     ranks.FromFirst([&] { return OwnRunToResume(line, definition.name, start); }));
    if (!own.empty()) {
      PrintNotes({absl::StrCat(line.requeue ? "--requeue: the run goes on in "
                                            : "this job was started again, and goes on in ",
                               own)});
      line.resume = own;
      line.preset.clear();
    }
    RETURN_IF_ERROR(ranks
                        .FromFirst([&]() -> absl::StatusOr<std::string> {
                          ASSIGN_OR_RETURN(folder, OpenResumedFolder(line));
                          return "";
                        })
                        .status());
  }
  RunRanks run_ranks = {&ranks, ranks.size(), job.ranks_of_host(), job.cores(), {}};
  ASSIGN_OR_RETURN(run_ranks.site, SiteOfJob(job.backend(), job.hosts()));
  ASSIGN_OR_RETURN(Setup setup, PrepareRun(line, definition, run_ranks));
  RETURN_IF_ERROR(CheckMemoryLimit(setup, line));
  StopOnInterrupts(/*one_rank=*/ranks.size() == 1);
  return train ? Train(line, name, job, start, std::move(setup), std::move(folder))
               : UseModel(line, std::move(setup));
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
    absl::PrintF("%s", HelpText(ProgramCommand(name, definition), definition));
    return 0;
  }
  if (line.print_config) {
    ASSIGN_OR_RETURN(const std::string config, EffectiveConfig(line, definition));
    absl::PrintF("%s", config);
    return 0;
  }
  if (line.plan_only) {
    return ShowPlan(line, definition, std::max({1, line.ranks, line.launch.nproc}));
  }
  const int threads = RanksAreThreads(line) ? line.launch.nproc : 0;
  return RunInJob(line.job, threads,
                  [&](Job& job) { return RunRank(line, name, definition, job); });
}

std::optional<comm::LaunchCommandLine> RanksToLaunch(const std::vector<std::string>& arguments,
                                                     const ModelDefinition& definition) {
  absl::StatusOr<CommandLine> line = ParseCommandLine(arguments, definition);
  if (!line.ok() || line->help || line->version || line->print_config || line->plan_only ||
      line->launch.nproc == 0 || RanksAreThreads(*line)) {
    return std::nullopt;
  }
  setenv(kLaunchFlagsVariable, line->launch_flags.c_str(), /*overwrite=*/1);
  return std::move(line->launch);
}

}  // namespace

int TrainMain(int argc, char** argv, const ModelDefinition& definition) {
  return JobMain(
      argc, argv,
      {.launch = [&](const auto& arguments) { return RanksToLaunch(arguments, definition); },
       .run = [&](const auto& name,
                  const auto& arguments) { return Run(name, arguments, definition); }});
}

}  // namespace tessera
