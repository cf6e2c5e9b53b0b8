#include "tools/train/train_main.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "core/posix/available_memory.h"
#include "core/runtime/engine.h"
#include "core/runtime/memory_check.h"
#include "core/status/status_macros.h"
#include "core/text/human_units.h"
#include "core/train/programs.h"
#include "core/train/trainer.h"
#include "google/protobuf/text_format.h"
#include "tools/train/flags.h"
#include "tools/train/help.h"
#include "tools/train/interrupt.h"
#include "tools/train/machine_rates.h"
#include "tools/train/process_memory.h"
#include "tools/train/report.h"
#include "tools/train/run_folder.h"
#include "tools/train/sample.h"
#include "tools/train/setup.h"
#include "tools/train/shell_word.h"
#include "tools/train/standard_output.h"
#include "tools/train/train_loop.h"

namespace tessera {
namespace {

void PrintNotes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) PrintLine(absl::StrCat("note: ", note));
}

// Returns the command that starts this program as the user did, as a shell reads it. `bazel run`
// sets the variable.
std::string ProgramCommand(const std::string& argv0, const ModelDefinition& definition) {
  if (std::getenv("BUILD_WORKING_DIRECTORY") == nullptr) return ShellWord(argv0);
  return absl::StrCat("./bazelw run //models/", definition.name, ":train --");
}

// Returns the folder of the resumed run if this run continues in it, else nullptr. The folder is
// locked before a checkpoint is chosen: no other process can save or remove one meanwhile.
absl::StatusOr<std::unique_ptr<RunFolder>> OpenResumedFolder(const CommandLine& line) {
  if (line.resume.empty()) return nullptr;
  const RunPath resumed = RunOf(UserPath(line.resume));
  // A single checkpoint begins a new run, so that later checkpoints of its run are kept.
  if (line.out.empty() ? resumed.is_checkpoint : !SameFolder(UserPath(line.out), resumed.run)) {
    return nullptr;
  }
  // If the path is no folder, opening a checkpoint there reports it.
  if (!SameFolder(resumed.run, absl::StrCat(resumed.run, "/."))) return nullptr;
  return RunFolder::Open(resumed.run, /*resuming=*/true);
}

// Refuses to resume from a checkpoint in a folder that has newer ones.
absl::Status CheckNewest(const RunFolder& folder, const Checkpoint& checkpoint) {
  const auto newest = OpenCheckpoint(folder.path());
  if (!newest.ok() || newest->checkpoint->step() <= checkpoint.step()) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat(folder.path(), " holds a newer checkpoint, of step ", newest->checkpoint->step(),
                   ": choose another --out, or none for a new run folder"));
}

absl::StatusOr<std::unique_ptr<RunFolder>> OpenNewFolder(const CommandLine& line,
                                                         const Setup& setup) {
  const std::string path = line.out.empty() ? NewRunPath(setup.definition->name, std::time(nullptr))
                                            : UserPath(line.out);
  return RunFolder::Open(path, /*resuming=*/false);
}

absl::Status WriteDumps(const std::set<std::string>& dump, const CompiledRun& run,
                        RunFolder* folder) {
  if (dump.count("graph") > 0) {
    for (const Graph& graph : run.graphs) {
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
    RETURN_IF_ERROR(folder->WriteText("dump/memory.txt", MemoryTable(run)));
  }
  return absl::OkStatus();
}

absl::Status LoadCheckpoint(const Setup& setup, Extra extra, Trainer* trainer) {
  ASSIGN_OR_RETURN(const std::vector<std::string> notes, trainer->Load(*setup.checkpoint, extra));
  PrintNotes(notes);
  return absl::OkStatus();
}

absl::Status Begin(const Setup& setup, Trainer* trainer) {
  return setup.checkpoint == nullptr ? trainer->Initialise()
                                     : LoadCheckpoint(setup, Extra::kRefuse, trainer);
}

// Runs a step in guarded memory. Afterwards the state is what it was.
absl::Status ProveMemory(const Setup& setup, Engine* engine, Trainer* trainer) {
  RETURN_IF_ERROR(CheckMemory(*engine, kTrain,
                              [trainer](Engine& each) { return trainer->SetTrainInputs(each); }));
  PrintLine(absl::StrCat(
      "memory checked: every kernel of a step stays within its buffers, and the peak is ",
      FormatBytes(engine->run().arena_bytes()), " as planned"));
  return Begin(setup, trainer);
}

// Checks before a run begins that a file can be written. Makes the file if it does not exist.
absl::Status CheckWritable(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "ab");
  if (file == nullptr) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
  std::fclose(file);
  return absl::OkStatus();
}

void WarnOfMemory(int64_t needed) {
  const int64_t available = AvailableMemory();
  if (available == 0 || needed <= available) return;
  PrintNotes({absl::StrCat("the run needs ", FormatBytes(needed), " of memory, and only ",
                           FormatBytes(available), " are available")});
}

// `folder` is the folder of the resumed run, nullptr for a new run.
absl::StatusOr<int> Train(const CommandLine& line, const std::string& argv0, Setup setup,
                          std::unique_ptr<RunFolder> folder) {
  if (setup.checkpoint != nullptr && setup.checkpoint->step() >= setup.config.steps()) {
    PrintNotes(setup.notes);
    PrintLine(absl::StrFormat("nothing is left to do: step %d of %d is done; --steps=N goes on",
                              setup.checkpoint->step(), setup.config.steps()));
    return 0;
  }
  if (!line.trace.empty()) RETURN_IF_ERROR(CheckWritable(UserPath(line.trace)));
  if (folder != nullptr) {
    RETURN_IF_ERROR(CheckNewest(*folder, *setup.checkpoint));
  } else {
    ASSIGN_OR_RETURN(folder, OpenNewFolder(line, setup));
  }
  PrintLine(absl::StrCat("run folder: ", folder->path()));
  PrintLine(ModelLine(setup.definition->name, setup.config, setup.compiled));
  PrintNotes(setup.notes);
  WarnOfMemory(setup.compiled.arena_bytes());
  RETURN_IF_ERROR(WriteDumps(line.dump, setup.compiled, folder.get()));
  ASSIGN_OR_RETURN(const MeasuredRates rates,
                   MeasureRates(*setup.backend, setup.compiled.arena_bytes()));
  ResetPeakMemory();
  PrintLine(RatesLine(*setup.backend, rates));
  absl::PrintF("%s", MemoryTable(setup.compiled));

  ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                   Engine::Create(std::move(setup.compiled), setup.backend.get()));
  Trainer trainer(setup.config, setup.model.get(), engine.get(), setup.dataset.get());
  RETURN_IF_ERROR(Begin(setup, &trainer));
  RETURN_IF_ERROR(folder->WriteText("config.textproto", setup.config_text));
  if (setup.checkpoint != nullptr) {
    PrintLine(
        absl::StrCat("going on from step ", trainer.step(), ", ", setup.checkpoint->folder()));
  }
  if (line.check_memory) RETURN_IF_ERROR(ProveMemory(setup, engine.get(), &trainer));
  LoopOptions options;
  options.trace = UserPath(line.trace);
  options.command = ProgramCommand(argv0, *setup.definition);
  options.log_every = line.log_every;
  if (setup.checkpoint != nullptr) {
    options.start_step = setup.checkpoint->step();
    options.start_folder = setup.checkpoint->folder();
    // Files that stay open keep their space on the disk when the checkpoint is removed.
    setup.checkpoint.reset();
  }
  TrainLoop loop(setup, rates.best, options, engine.get(), &trainer, folder.get());
  return loop.Run();
}

// Evaluates or samples.
absl::StatusOr<int> UseModel(const CommandLine& line, Setup setup) {
  PrintNotes(setup.notes);
  ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                   Engine::Create(std::move(setup.compiled), setup.backend.get()));
  Trainer trainer(setup.config, setup.model.get(), engine.get(), setup.dataset.get());
  RETURN_IF_ERROR(LoadCheckpoint(setup, Extra::kLeaveOptimizer, &trainer));
  if (line.mode == Mode::kSample) {
    RETURN_IF_ERROR(PrintSample(setup, *engine));
  } else {
    ASSIGN_OR_RETURN(const EvaluationResult result,
                     trainer.Evaluate([] { return Interrupted() != 0; }));
    if (result.complete) {
      PrintLine(absl::StrCat("step ", trainer.step(), ": ", EvaluationText(result)));
    }
  }
  return Interrupted() ? 128 + Interrupted() : 0;
}

absl::StatusOr<int> ShowPlan(const CommandLine& line, const Setup& setup) {
  PrintNotes(setup.notes);
  absl::PrintF("%s",
               PlanReport(setup.definition->name, setup.config, setup.compiled, AvailableMemory()));
  if (!line.dump.empty()) {
    ASSIGN_OR_RETURN(std::unique_ptr<RunFolder> folder, OpenResumedFolder(line));
    if (folder == nullptr) {
      ASSIGN_OR_RETURN(folder, OpenNewFolder(line, setup));
    }
    RETURN_IF_ERROR(WriteDumps(line.dump, setup.compiled, folder.get()));
    PrintLine(absl::StrCat("dumped to ", folder->path(), "/dump"));
  }
  RETURN_IF_ERROR(CheckMemoryLimit(setup, line.mode));
  return 0;
}

absl::StatusOr<int> Run(const std::string& argv0, const std::vector<std::string>& arguments,
                        const ModelDefinition& definition) {
  ASSIGN_OR_RETURN(const CommandLine line, ParseCommandLine(arguments, definition));
  if (line.help) {
    absl::PrintF("%s", HelpText(ProgramCommand(argv0, definition), definition));
    return 0;
  }
  if (line.print_config) {
    ASSIGN_OR_RETURN(const std::string config, EffectiveConfig(line, definition));
    absl::PrintF("%s", config);
    return 0;
  }
  const bool train = line.mode == Mode::kTrain && !line.plan_only;
  std::unique_ptr<RunFolder> folder;
  if (train) {
    ASSIGN_OR_RETURN(folder, OpenResumedFolder(line));
  }
  ASSIGN_OR_RETURN(Setup setup, PrepareRun(line, definition, argv0));
  if (line.plan_only) return ShowPlan(line, setup);
  RETURN_IF_ERROR(CheckMemoryLimit(setup, line.mode));
  StopOnInterrupts();
  return train ? Train(line, argv0, std::move(setup), std::move(folder))
               : UseModel(line, std::move(setup));
}

}  // namespace

int TrainMain(const std::string& argv0, const std::vector<std::string>& arguments,
              const ModelDefinition& definition) {
  absl::StatusOr<int> code = Run(argv0, arguments, definition);
  const absl::Status written = OutputStatus();
  if (code.ok() && !written.ok()) code = written;
  if (code.ok()) return *code;
  // One line, even if a library's message has several.
  const std::string message(code.status().message());
  absl::FPrintF(stderr, "error: %s\n", absl::StrReplaceAll(message, {{"\n", " "}}));
  return 1;
}

}  // namespace tessera
