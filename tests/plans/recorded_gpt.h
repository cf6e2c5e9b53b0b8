// The Graphs of a GPT for benchmarks of compilation.
#ifndef TESSERA_TESTS_PLANS_RECORDED_GPT_H_
#define TESSERA_TESTS_PLANS_RECORDED_GPT_H_

#include <vector>

#include "core/status/check.h"
#include "core/train/programs.h"
#include "models/gpt/gpt.h"

namespace tessera {

// Returns the Graphs of a training with AdamW on `batch` sequences as long as the model's context.
inline std::vector<Graph> RecordedGpt(int layers, int heads, int channels, int vocabulary,
                                      int context, int batch) {
  GptConfig model;
  model.set_layers(layers);
  model.set_heads(heads);
  model.set_channels(channels);
  model.set_vocabulary(vocabulary);
  model.set_context(context);
  RunConfig config;
  config.set_batch(batch);
  config.set_sequence(context);
  config.mutable_optimizer()->set_kind("adamw");
  config.mutable_optimizer()->set_lr(1e-4);
  config.mutable_optimizer()->set_eps(1e-8);
  const auto created = CreateGpt(model);
  TESSERA_CHECK(created.ok()) << created.status();
  auto graphs = RecordRun(**created, config, RunGraphs::kAll);
  TESSERA_CHECK(graphs.ok()) << graphs.status();
  return *std::move(graphs);
}

}  // namespace tessera

#endif  // TESSERA_TESTS_PLANS_RECORDED_GPT_H_
