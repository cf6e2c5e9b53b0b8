#include "tools/train/flags.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/status/status_macros.h"
#include "core/text/nearest_name.h"
#include "tools/command_line/command_line.h"

namespace tessera {

bool AbslParseFlag(absl::string_view text, Mode* mode, std::string* error);
std::string AbslUnparseFlag(Mode mode);

bool AbslParseFlag(absl::string_view text, Mode* mode, std::string* error) {
  for (Mode candidate : {Mode::kTrain, Mode::kEvaluate, Mode::kSample}) {
    if (text == AbslUnparseFlag(candidate)) {
      *mode = candidate;
      return true;
    }
  }
  *error = "none of train, evaluate and sample";
  return false;
}

std::string AbslUnparseFlag(Mode mode) {
  switch (mode) {
    case Mode::kTrain:
      return "train";
    case Mode::kEvaluate:
      return "evaluate";
    case Mode::kSample:
      return "sample";
  }
  return "";
}

}  // namespace tessera

ABSL_FLAG(std::string, preset, "", "a configuration that comes with the model");
ABSL_FLAG(std::string, config, "", "a configuration file, laid over the preset");
ABSL_FLAG(std::vector<std::string>, set, {},
          "fields of the configuration, laid over the file: "
          "model.layers=6,optimizer.lr=1e-3; a list is written [64;32]");
ABSL_FLAG(std::string, data, "", "a UTF-8 text, read by bytes, or \"synthetic\" for random tokens");

ABSL_FLAG(int64_t, steps, 0, "steps in all, those before a resume included");
ABSL_FLAG(int64_t, batch, 0, "sequences in a step");
ABSL_FLAG(int64_t, sequence, 0, "tokens in a sequence");
ABSL_FLAG(std::string, optimizer, "", "sgd or adamw");
ABSL_FLAG(double, lr, 0, "the highest learning rate");
ABSL_FLAG(double, clip_norm, 0, "the largest norm of all gradients together; 0: no clipping");
ABSL_FLAG(uint64_t, seed, 0, "of initial values, order of the data, dropout, samples");

ABSL_FLAG(std::string, device, "", "cpu, or reference: the plainest loops, in double");
ABSL_FLAG(int32_t, threads, 0, "0: OMP_NUM_THREADS, or all cores");
ABSL_FLAG(int64_t, micro_batches, 0, "turns that a batch is cut into, to save memory");
ABSL_FLAG(std::string, recompute, "",
          "none, or block: compute every block's activations again, to save memory");
ABSL_FLAG(std::string, memory_limit, "", "such as 2GiB: refuse a run that needs more");

ABSL_FLAG(std::string, out, "", "the run folder; a new one below runs/ if left out");
ABSL_FLAG(std::string, resume, "",
          "go on from a run folder's newest whole checkpoint, or from one checkpoint");
ABSL_FLAG(bool, allow_changed_data, false,
          "with --resume: train on although the data is not what it was");
ABSL_FLAG(int64_t, save_every, 0, "steps between checkpoints; 0: at the end only");
ABSL_FLAG(int64_t, eval_every, 0, "steps between evaluations; 0: at the end only");
ABSL_FLAG(tessera::Mode, mode, tessera::Mode::kTrain,
          "train; or, with --resume, evaluate or sample, which train nothing");

ABSL_FLAG(int64_t, sample_tokens, 0, "tokens to write after training; 0: none");
ABSL_FLAG(std::string, prompt, "", "what the sample goes on from");
ABSL_FLAG(double, temperature, 0, "0: always the most probable token");
ABSL_FLAG(int64_t, top_k, 0, "draw from the most probable tokens only; 0: from all");

ABSL_FLAG(bool, plan_only, false, "print what the run would take, and allocate none of it");
ABSL_FLAG(std::string, trace, "", "write one step to this file, for ui.perfetto.dev");
ABSL_FLAG(std::vector<std::string>, dump, {},
          "texts for the run folder: graph, plan, program, memory, with commas between");
ABSL_FLAG(bool, check_memory, false,
          "run a step in fenced memory, to prove the memory plan, before training");

namespace tessera {
namespace {

// Every flag stands here once, in the order of --help.
const std::vector<FlagGroup>& Groups() {
  static const auto* const groups = new std::vector<FlagGroup>{
      {"What to train",
       {{"preset", "NAME"}, {"config", "FILE"}, {"set", "FIELD=VALUE,..."}, {"data", "FILE"}}},
      {"How to train",
       {{"steps", "N"},
        {"batch", "N"},
        {"sequence", "N"},
        {"optimizer", "NAME"},
        {"lr", "X"},
        {"clip_norm", "X"},
        {"seed", "N"}}},
      {"The machine",
       {{"device", "NAME"},
        {"threads", "N"},
        {"micro_batches", "N"},
        {"recompute", "WHAT"},
        {"memory_limit", "SIZE"}}},
      {"The run",
       {{"out", "DIR"},
        {"resume", "DIR"},
        {"allow_changed_data", ""},
        {"save_every", "N"},
        {"eval_every", "N"},
        {"mode", "MODE"}}},
      {"Samples of text",
       {{"sample_tokens", "N"}, {"prompt", "TEXT"}, {"temperature", "X"}, {"top_k", "N"}}},
      {"Looking inside",
       {{"plan_only", ""}, {"trace", "FILE"}, {"dump", "WHAT,..."}, {"check_memory", ""}}},
  };
  return *groups;
}

// Flags that set a field of the configuration.
struct FlagField {
  const char* flag;
  const char* field;
};
constexpr FlagField kFields[] = {
    {"data", "data.file"},
    {"steps", "steps"},
    {"batch", "batch"},
    {"sequence", "sequence"},
    {"optimizer", "optimizer.kind"},
    {"lr", "optimizer.lr"},
    {"clip_norm", "optimizer.clip_norm"},
    {"seed", "seed"},
    {"device", "device"},
    {"threads", "threads"},
    {"micro_batches", "micro_batches"},
    {"recompute", "recompute"},
    {"memory_limit", "memory_limit"},
    {"save_every", "save_every"},
    {"eval_every", "eval_every"},
    {"sample_tokens", "sample.tokens"},
    {"prompt", "sample.prompt"},
    {"temperature", "sample.temperature"},
    {"top_k", "sample.top_k"},
};

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

absl::StatusOr<std::set<std::string>> CheckDump(const std::vector<std::string>& names) {
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

absl::Status CheckCombination(const CommandLine& line) {
  if (line.mode != Mode::kTrain && line.resume.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--mode=", AbslUnparseFlag(line.mode),
                     " needs --resume=DIR: the run whose model is to be used"));
  }
  if (!line.resume.empty() && !line.preset.empty()) {
    return absl::InvalidArgumentError(
        "--preset and --resume exclude each other: a run that is resumed has its configuration");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments) {
  CommandLine line;
  ASSIGN_OR_RETURN(const ParsedFlags parsed, ParseFlags(arguments, Groups(), Rest::kError));
  line.help = parsed.help;
  if (line.help) return line;
  std::vector<std::string> set_texts;
  std::vector<FieldSetting> field_flags;
  for (const GivenFlag& given : parsed.given) {
    if (given.name == "set") {  // it may be given more than once
      const std::vector<std::string> more = absl::StrSplit(given.value, ',', absl::SkipEmpty());
      set_texts.insert(set_texts.end(), more.begin(), more.end());
    }
    for (const FlagField& field : kFields) {
      if (given.name != field.flag) continue;
      field_flags.push_back({absl::StrCat("--", given.name), field.field, given.value});
    }
  }
  ASSIGN_OR_RETURN(line.settings, SplitSettings(set_texts));
  line.settings.insert(line.settings.end(), field_flags.begin(), field_flags.end());
  line.preset = absl::GetFlag(FLAGS_preset);
  line.config = absl::GetFlag(FLAGS_config);
  line.out = absl::GetFlag(FLAGS_out);
  line.resume = absl::GetFlag(FLAGS_resume);
  line.allow_changed_data = absl::GetFlag(FLAGS_allow_changed_data);
  line.mode = absl::GetFlag(FLAGS_mode);
  line.trace = absl::GetFlag(FLAGS_trace);
  line.check_memory = absl::GetFlag(FLAGS_check_memory);
  line.plan_only = absl::GetFlag(FLAGS_plan_only);
  ASSIGN_OR_RETURN(line.dump, CheckDump(absl::GetFlag(FLAGS_dump)));
  RETURN_IF_ERROR(CheckCombination(line));
  return line;
}

std::string HelpText(absl::string_view program, const ModelDefinition& model) {
  std::vector<std::string> presets;
  for (const Preset& preset : model.presets) presets.push_back(preset.name);
  std::string text = absl::StrReplaceAll(
      "Trains a model ($model) and writes a run folder: metrics, checkpoints, configuration.\n"
      "\n"
      "Examples\n"
      "  $program\n"
      "      trains the preset $preset on the King James Bible and writes some text\n"
      "  $program --data=my.txt --set=$field --lr=5e-4 --steps=500 --out=my_run\n"
      "  $program --resume=my_run --steps=1000\n"
      "      goes on from its newest checkpoint\n"
      "  $program --resume=my_run --mode=sample --prompt=\"In the beginning\"\n"
      "  $program --batch=64 --recompute=block --plan_only\n"
      "      what it would take: parameters, FLOPs, memory; runs nothing\n",
      {{"$program", program},
       {"$model", model.name},
       {"$preset", presets.empty() ? "" : presets.front()},
       {"$field",
        absl::StrCat("model.", model.default_config->GetDescriptor()->field(0)->name(), "=6")}});
  text += FlagsHelp(Groups(), "preset", absl::StrCat(": ", absl::StrJoin(presets, ", ")));
  absl::StrAppend(&text,
                  "\nEvery other field of the configuration is set by --set; a run folder's "
                  "config.textproto\nshows all of them. Ctrl-C saves, and says how to go on.\n");
  return text;
}

}  // namespace tessera
