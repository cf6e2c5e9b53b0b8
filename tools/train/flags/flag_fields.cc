#include "tools/train/flags/flag_fields.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/train/config/config_editor.h"
#include "tools/train/flags/config_sources.h"

namespace tessera {
namespace {

// The flags that set a field of the configuration.
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
    {"dtype", "dtype"},
    {"memory_limit", "memory_limit"},
    {"save_every", "save_every"},
    {"eval_every", "eval_every"},
    {"sample_tokens", "sample.tokens"},
    {"prompt", "sample.prompt"},
    {"temperature", "sample.temperature"},
    {"top_k", "sample.top_k"},
};

// Names that other training programs have for fields of a model or an optimizer.
constexpr std::pair<absl::string_view, absl::string_view> kOtherNames[] = {
    {"n_layer", "layers"},         {"n_layers", "layers"},  {"num_layers", "layers"},
    {"n_head", "heads"},           {"n_heads", "heads"},    {"num_heads", "heads"},
    {"n_embd", "channels"},        {"d_model", "channels"}, {"hidden_size", "channels"},
    {"vocab_size", "vocabulary"},  {"n_ctx", "context"},    {"warmup_iters", "warmup_steps"},
    {"lr_warmup", "warmup_steps"},
};

}  // namespace

std::string FieldOfFlag(absl::string_view flag) {
  for (const FlagField& each : kFields) {
    if (each.flag == flag) return each.field;
  }
  return "";
}

std::string FieldHint(absl::string_view name, const ModelDefinition& model) {
  for (const auto& [other, own] : kOtherNames) {
    if (name == other) return FieldHint(own, model);
  }
  if (name == "gradient_accumulation_steps" || name == "grad_accum_steps") {
    return ": --micro_batches=N splits the --batch sequences of a step into N micro-batches";
  }
  for (const std::string& path :
       ConfigEditor(DefaultRunConfig(), *model.default_config).FieldPaths()) {
    if (path == name || absl::EndsWith(path, absl::StrCat(".", name))) {
      return absl::StrCat(": it is a field of the configuration, --set=", path, "=VALUE");
    }
  }
  return "";
}

}  // namespace tessera
