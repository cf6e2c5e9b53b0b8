// The GPT-2 family (Radford et al. 2019, "Language Models are Unsupervised Multitask Learners"),
// with parameters at the paths and in the shapes of tests/parity:
//
//   wte.weight [vocabulary, C], wpe.weight [context, C]
//   blocks.{i}.ln1.{weight,bias} [C]
//   blocks.{i}.attn.qkv.weight [heads, 3, head_dim, C], .bias [heads, 3, head_dim]
//   blocks.{i}.attn.proj.weight [C, C], .bias [C]
//   blocks.{i}.ln2.{weight,bias} [C]
//   blocks.{i}.mlp.fc.weight [4C, C], .bias [4C]
//   blocks.{i}.mlp.proj.weight [C, 4C], .bias [C]
//   ln_f.{weight,bias} [C]
//   head.weight [vocabulary, C], if untied
//
// Each "blocks.{i}" is a block that a strategy may treat as one unit.
#ifndef TESSERA_MODELS_GPT_GPT_H_
#define TESSERA_MODELS_GPT_GPT_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/model/language_model.h"
#include "core/model/model.h"
#include "models/gpt/gpt.pb.h"

namespace tessera {

// Returns InvalidArgument, with the name of the invalid field ("model.heads: ...").
absl::StatusOr<std::unique_ptr<LanguageModel>> CreateGpt(const GptConfig& config);

// Returns the files of presets/, "tiny" first.
std::vector<Preset> GptPresets();

const ModelDefinition& GptDefinition();

}  // namespace tessera

#endif  // TESSERA_MODELS_GPT_GPT_H_
