// Models that train in milliseconds a step.
#ifndef TESSERA_STRATEGIES_CONFORMANCE_SMALL_MODELS_H_
#define TESSERA_STRATEGIES_CONFORMANCE_SMALL_MODELS_H_

#include <string>
#include <vector>

#include "strategies/conformance/rank_training.h"

namespace tessera {

struct GptSizes {
  int layers = 2, batch = 8, sequence = 6, heads = 4, head_dim = 2, vocabulary = 24;
  double clip_norm = 0;
  bool untied_head = false;
  std::string optimizer = "sgd";
  int micro_batches = 1;
};

// Sizes that the ranks do not divide: parts are padded, and some are empty.
GptSizes OddSizes();

TrainingRun SmallGpt(const GptSizes& sizes);
// Two hidden layers.
TrainingRun SmallMlp(int batch = 8);

// The names of the models on which strategies are checked. Dropout and ignored targets are in all
// of GPT's; parts are padded, or empty, in the odd ones. The accumulating ones are trained in
// several micro-batches; the last one is a GPT of these.
std::vector<std::string> ConformanceModels();
// `name` is one of them.
TrainingRun MakeConformanceModel(const std::string& name);

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_CONFORMANCE_SMALL_MODELS_H_
