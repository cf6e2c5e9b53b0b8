#include "tools/train/flags/help.h"

#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/cost/best_rates.h"
#include "tools/command_line/command_line.h"
#include "tools/train/flags/config_sources.h"
#include "tools/train/flags/flag_fields.h"
#include "tools/train/flags/flags.h"

namespace tessera {
namespace {

constexpr char kExamples[] =
    "Trains a model ($model). Writes metrics, checkpoints and the configuration to a\n"
    "run folder.\n"
    "\n"
    "Examples\n"
    "  $program\n"
    "      trains the preset $preset on the King James Bible, then generates some text\n"
    "  $program --data=my.txt --set=$example --lr=5e-4 --steps=500 --out=my_run\n"
    "  $program --resume=my_run --steps=1000\n"
    "      continues from the newest checkpoint\n"
    "  $program --out=my_run --requeue\n"
    "      starts the run, or continues it if the same command has run before\n"
    "  $program --resume=my_run --mode=sample --prompt=\"In the beginning\"\n"
    "  $program --resume=my_run --mode=evaluate --predictions=rows.tsv\n"
    "      writes the loss of each held-out row, and what the model predicts of it\n"
    "  $program --batch=64 --recompute=block --plan_only\n"
    "      prints what the run would need: parameters, FLOPs, memory\n"
    "  $program --nproc=2 --strategy=fsdp --strategy_options=prefetch=2\n"
    "      trains on two ranks of this machine, as the strategy distributes the model\n"
    "  $program --strategy=fsdp --help\n"
    "      prints the options of a strategy\n"
    "  $program --nproc=2 --plan=docs/plans/tensor_parallel.textproto\n"
    "      the same by a Plan that was written or saved\n";

constexpr char kNotes[] =
    "\n"
    "Defaults are those of the preset $preset. --set sets every other field of the\n"
    "configuration; --print_config shows all of them. Ctrl-C saves the run and prints\n"
    "the command that resumes it.\n"
    "\n"
    "Ranks\n"
    "  A strategy makes a Plan, which says how the model is distributed over a mesh\n"
    "  of ranks; --plan runs one that was written by hand or saved. --nproc starts\n"
    "  the ranks on this machine; torchrun, srun and mpirun start one process of\n"
    "  this program for each. All ranks must see the run folder. Rank 0 prints and\n"
    "  writes. Ctrl-C, SIGTERM or SIGHUP to any rank stops all of them after the\n"
    "  step: the run is saved, every rank exits with 128 plus the signal's number,\n"
    "  and --max_restarts does not start the job again, as no rank has failed. A\n"
    "  rank that dies, that does not come within --timeout seconds, or whose\n"
    "  process is stopped (SIGSTOP) for as long, ends the job. --threads and\n"
    "  --memory_limit are those of one rank; without --threads, the ranks of a host\n"
    "  share its cores. A job that its launcher starts again continues its own run.\n"
    "\n"
    "A step line\n"
    "  MFU         model FLOPs utilization: the FLOPs of the model per second,\n"
    "              without recomputation, divided by the best rate of a matmul\n"
    "  % of limit  the least time that the step could take, divided by the time that\n"
    "              it took. In the least time, each operator runs at the best rate of\n"
    "              a matmul or of memory, whichever takes longer.\n"
    "  The best rates of all runs so far, by processor and threads, are kept in\n"
    "  $rates\n"
    "  Delete the file to measure them anew.\n";

// The defaults of flags that set a field, and what the model adds.
std::map<std::string, FlagNote> Notes(const ModelDefinition& model) {
  std::map<std::string, FlagNote> notes;
  for (const char* name : {"nproc", "ranks"}) notes[name].default_value = "";
  notes["backend"].more = "; fake runs ranks as threads of this process, for tests";
  std::vector<std::string> presets;
  for (const Preset& preset : model.presets) presets.push_back(preset.name);
  notes["preset"] = {absl::StrCat(": ", absl::StrJoin(presets, ", ")),
                     presets.empty() ? "" : presets.front()};
  const absl::StatusOr<ConfigEditor> config = PresetConfig(model, "");
  if (!config.ok()) return notes;  // a model without presets
  for (const FlagGroup& group : TrainFlags()) {
    for (const FlagEntry& flag : group.flags) {
      const std::string field = FieldOfFlag(flag.name);
      if (!field.empty()) notes[flag.name].default_value = config->Get(field);
    }
  }
  return notes;
}

}  // namespace

std::string HelpText(absl::string_view program, const ModelDefinition& model) {
  const std::string preset = model.presets.empty() ? "" : model.presets.front().name;
  const std::string rates = BestRatesPath();
  return absl::StrReplaceAll(absl::StrCat(kExamples, FlagsHelp(TrainFlags(), Notes(model)), kNotes),
                             {{"$program", program},
                              {"$model", model.name},
                              {"$preset", preset},
                              {"$example", model.example},
                              {"$rates", rates.empty() ? "~/.cache/tessera/machine.json" : rates}});
}

}  // namespace tessera
