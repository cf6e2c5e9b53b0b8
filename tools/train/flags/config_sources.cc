#include "tools/train/flags/config_sources.h"

#include <cerrno>
#include <cmath>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/status/status_macros.h"
#include "core/text/human_units.h"
#include "core/text/nearest_name.h"
#include "core/text/path_pattern.h"
#include "core/train/checkpoint/manifest.h"
#include "core/train/config/text_bounds.h"
#include "core/train/optimizer.h"
#include "core/train/schedule.h"
#include "tools/backends/backends.h"

namespace tessera {
namespace {

absl::Status AtLeast(absl::string_view field, int64_t value, int64_t least) {
  if (value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, ": it must be ", least, " or more"));
}

absl::Status AtMost(absl::string_view field, int64_t value, int64_t most) {
  if (value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, ": it must be at most ", most));
}

absl::Status OneOf(absl::string_view field, const std::string& value,
                   const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (name == value) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(field, " is '", value, "': it must be one of ",
                                                 absl::StrJoin(names, ", "),
                                                 DidYouMean(value, names)));
}

// Checks the sizes of a step's batch: batch, sequence and micro_batches.
absl::Status CheckBatchSizes(const RunConfig& config) {
  RETURN_IF_ERROR(AtLeast("batch", config.batch(), 1));
  RETURN_IF_ERROR(AtLeast("sequence", config.sequence(), 1));
  RETURN_IF_ERROR(AtLeast("micro_batches", config.micro_batches(), 1));
  // The number of tokens of a step must fit into the integers with which kernels count them.
  // Divides instead of multiplying: the product may not fit even into 64 bits.
  constexpr int64_t kMostTokens = (int64_t{1} << 31) - 1;
  if (config.sequence() > kMostTokens / config.batch()) {
    return absl::InvalidArgumentError(absl::StrCat("batch times sequence is ", config.batch(),
                                                   " times ", config.sequence(),
                                                   ": it must be below 2^31 tokens"));
  }
  // A searched batch is one that they divide.
  if (!config.search_batch() && config.batch() % config.micro_batches() != 0) {
    return absl::InvalidArgumentError(absl::StrCat("micro_batches is ", config.micro_batches(),
                                                   ": it must divide batch, which is ",
                                                   config.batch()));
  }
  return absl::OkStatus();
}

// Checks the form; whether the model has such paths is known with its Graph.
absl::Status CheckRecompute(const std::string& recompute) {
  absl::Status status = PathPattern::Parse(recompute).status();
  if (status.ok()) return status;
  return absl::InvalidArgumentError(absl::StrCat(
      "recompute is '", recompute, "': it must be none, block, or a path: ", status.message()));
}

absl::Status CheckSample(const SampleConfig& sample) {
  RETURN_IF_ERROR(AtLeast("sample.tokens", sample.tokens(), 0));
  RETURN_IF_ERROR(AtLeast("sample.top_k", sample.top_k(), 0));
  if (!std::isfinite(sample.temperature()) || sample.temperature() < 0) {
    return absl::InvalidArgumentError(absl::StrCat("sample.temperature is ", sample.temperature(),
                                                   ": it must be a finite number, 0 or more"));
  }
  return absl::OkStatus();
}

}  // namespace

RunConfig DefaultRunConfig() {
  RunConfig config;
  OptimizerConfig& optimizer = *config.mutable_optimizer();
  optimizer.set_kind("adamw");
  optimizer.set_lr(1e-3);
  optimizer.set_schedule("constant");
  optimizer.set_momentum(0.9);
  optimizer.set_beta1(0.9);
  optimizer.set_beta2(0.95);
  optimizer.set_eps(1e-8);
  optimizer.set_weight_decay(0.1);
  optimizer.set_clip_norm(1);
  config.mutable_data();
  config.mutable_sample()->set_temperature(0.8);
  config.set_steps(100);
  config.set_batch(8);
  config.set_sequence(64);
  config.set_micro_batches(1);
  config.set_seed(1);
  config.set_device(BackendNames().front());
  config.set_recompute("none");
  config.set_dtype("f32");
  config.set_keep_checkpoints(2);
  config.set_eval_batches(20);
  return config;
}

absl::StatusOr<ConfigEditor> PresetConfig(const ModelDefinition& model, absl::string_view preset) {
  ConfigEditor config(DefaultRunConfig(), *model.default_config);
  std::vector<std::string> names;
  for (const Preset& candidate : model.presets) {
    if (preset.empty() || candidate.name == preset) {
      RETURN_IF_ERROR(config.MergeText(candidate.text, absl::StrCat("preset ", candidate.name)));
      return config;
    }
    names.push_back(candidate.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no preset '", preset, "' of ", model.name, ": presets are ",
                   absl::StrJoin(names, ", "), DidYouMean(preset, names)));
}

absl::StatusOr<ConfigEditor> SavedConfig(const ModelDefinition& model, absl::string_view text,
                                         absl::string_view source) {
  ConfigEditor config(DefaultRunConfig(), *model.default_config);
  RETURN_IF_ERROR(config.MergeText(text, source));
  return config;
}

absl::Status MergeFile(const std::string& path, ConfigEditor* config) {
  std::ifstream file(path, std::ios::binary);
  // One byte more shows that there are too many.
  std::string text(kMaxConfigBytes + 1, '\0');
  file.read(&text[0], static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot read the config ", path));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  return config->MergeText(text, path);
}

absl::Status ApplySettings(const std::vector<FieldSetting>& settings, ConfigEditor* config) {
  for (const FieldSetting& setting : settings) {
    const bool is_batch = setting.path == "batch", searches = is_batch && setting.value == kSearch;
    if (is_batch) RETURN_IF_ERROR(config->Set("search_batch", searches ? "true" : "false"));
    if (searches) continue;
    const absl::Status status = config->Set(setting.path, setting.value);
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrCat(setting.source, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

std::vector<ConfigChange> ChangesBetween(const ConfigEditor& before, const ConfigEditor& after) {
  std::vector<ConfigChange> changes;
  for (const std::string& path : before.FieldPaths()) {
    const std::string old_value = before.Get(path);
    const std::string new_value = after.Get(path);
    if (old_value != new_value) changes.push_back({path, old_value, new_value});
  }
  return changes;
}

absl::Status CheckRunConfig(const RunConfig& config) {
  RETURN_IF_ERROR(AtLeast("steps", config.steps(), 1));
  // A checkpoint of a later step could not be saved.
  RETURN_IF_ERROR(AtMost("steps", config.steps(), kMaxSteps));
  RETURN_IF_ERROR(CheckBatchSizes(config));
  RETURN_IF_ERROR(OneOf("device", config.device(), BackendNames()));
  RETURN_IF_ERROR(CheckRecompute(config.recompute()));
  RETURN_IF_ERROR(OneOf("dtype", config.dtype(), {"f32", "bf16", "f16"}));
  if (!config.memory_limit().empty()) {
    const absl::StatusOr<int64_t> limit = ParseBytes(config.memory_limit());
    if (!limit.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("memory_limit: ", limit.status().message()));
    }
    if (*limit == 0) {
      return absl::InvalidArgumentError("memory_limit is 0: leave it out for no limit");
    }
  }
  RETURN_IF_ERROR(AtLeast("save_every", config.save_every(), 0));
  RETURN_IF_ERROR(AtLeast("keep_checkpoints", config.keep_checkpoints(), 1));
  RETURN_IF_ERROR(AtLeast("eval_every", config.eval_every(), 0));
  RETURN_IF_ERROR(AtLeast("eval_batches", config.eval_batches(), 0));
  RETURN_IF_ERROR(AtLeast("threads", config.threads(), 0));
  RETURN_IF_ERROR(CheckSample(config.sample()));
  RETURN_IF_ERROR(CheckOptimizer(config.optimizer()));
  return CheckSchedule(config.optimizer());
}

int64_t MemoryLimit(const RunConfig& config) {
  return config.memory_limit().empty() ? 0 : *ParseBytes(config.memory_limit());
}

}  // namespace tessera
