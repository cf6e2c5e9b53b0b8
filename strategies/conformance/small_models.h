// Models whose training steps take milliseconds.
#ifndef TESSERA_STRATEGIES_CONFORMANCE_SMALL_MODELS_H_
#define TESSERA_STRATEGIES_CONFORMANCE_SMALL_MODELS_H_

#include <cstdint>
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

// Returns sizes that are not multiples of the number of ranks: shards are padded, and some are
// empty.
GptSizes OddSizes();

TrainingRun SmallGpt(const GptSizes& sizes);
// Records an MLP with two hidden layers.
TrainingRun SmallMlp(int batch = 8);

// Records an MLP on pictures of 4 x 3, with two hidden layers.
TrainingRun SmallPictureMlp(int batch = 7);

struct VggSizes {
  int batch = 5;
  int micro_batches = 1;
  int64_t groups = 0;  // of batch norm; 0: it has none
};
// Records a VGG with three convolutions and two hidden layers, of pictures of 6 x 5.
TrainingRun SmallVgg(const VggSizes& sizes = {});

// Returns the names of the models on which strategies are checked. All GPT models have dropout and
// ignored targets; the odd ones have padded or empty shards. The large one has more than 200 states
// and 100,000 parameters. Those with batch norm ("norm") have running statistics, and rows that do
// not count in them. The accumulating ones are trained in several micro-batches; the last
// model is an accumulating GPT, with 4 of them.
std::vector<std::string> ConformanceModels();
// `name` is one of them. The run has all Programs that the model can have.
TrainingRun MakeConformanceModel(const std::string& name);

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_CONFORMANCE_SMALL_MODELS_H_
