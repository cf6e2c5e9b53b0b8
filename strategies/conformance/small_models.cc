#include "strategies/conformance/small_models.h"

#include <utility>

#include "core/status/check.h"
#include "models/gpt/gpt.h"
#include "models/mlp/mlp.h"
#include "models/picture_mlp/picture_mlp.h"
#include "models/ratings/ratings.h"
#include "models/vgg/vgg.h"
#include "strategies/conformance/partly_trained_model.h"

namespace tessera {
namespace {

RunConfig SmallRun(int batch, int sequence, int micro_batches = 1) {
  RunConfig config;
  config.set_batch(batch);
  config.set_sequence(sequence);
  config.set_micro_batches(micro_batches);
  config.mutable_optimizer()->set_kind("sgd");
  config.mutable_optimizer()->set_lr(0.1);
  return config;
}

struct KitModel {
  const char* name;
  TrainingRun (*make)();
};

GptSizes Adamw(GptSizes sizes) {
  sizes.optimizer = "adamw";
  return sizes;
}

// Three rows in each micro-batch.
GptSizes Accumulating(GptSizes sizes) {
  sizes.batch = 12;
  sizes.micro_batches = 4;
  return sizes;
}

// More than 200 states and 100,000 parameters.
GptSizes Large() {
  return {.layers = 18, .batch = 8, .sequence = 4, .heads = 4, .head_dim = 6, .vocabulary = 24};
}

// Two inputs; odd sizes.
TrainingRun SmallRatings() {
  RatingsConfig model;
  model.set_users(19);
  model.set_items(11);
  model.set_channels(5);
  model.set_hidden(9);
  model.set_stars(3);
  auto created = CreateRatings(model);
  TESSERA_CHECK(created.ok()) << created.status();
  return RecordTraining(*std::move(created), SmallRun(7, 1));
}

TrainingRun PartlyTrained(int batch, int micro_batches) {
  return RecordTraining(MakePartlyTrainedModel(), SmallRun(batch, 6, micro_batches));
}

const std::vector<KitModel>& Models() {
  static const auto* const models = new std::vector<KitModel>{
      {"gpt", [] { return SmallGpt({}); }},
      {"mlp", [] { return SmallMlp(); }},
      {"ratings", [] { return SmallRatings(); }},
      {"vgg", [] { return SmallVgg(); }},
      {"vgg_norm", [] { return SmallVgg({.batch = 5, .groups = 1}); }},
      {"vgg_norm_accumulating",
       [] { return SmallVgg({.batch = 12, .micro_batches = 2, .groups = 4}); }},
      {"gpt_odd", [] { return SmallGpt(OddSizes()); }},
      {"partly_trained", [] { return PartlyTrained(5, 1); }},
      {"gpt_untied", [] { return SmallGpt({.clip_norm = 0.5, .untied_head = true}); }},
      {"gpt_adamw", [] { return SmallGpt(Adamw(OddSizes())); }},
      {"partly_trained_accumulating", [] { return PartlyTrained(6, 2); }},
      {"gpt_large", [] { return SmallGpt(Large()); }},
      {"picture_mlp", [] { return SmallPictureMlp(); }},
      // Every set of options is checked on the last model: it accumulates gradients, and its blocks
      // suit options that name scopes within them.
      {"gpt_accumulating", [] { return SmallGpt(Accumulating(OddSizes())); }},
  };
  return *models;
}

}  // namespace

GptSizes OddSizes() {
  return {.batch = 5, .sequence = 7, .heads = 3, .head_dim = 5, .vocabulary = 23, .clip_norm = 0.5};
}

TrainingRun SmallGpt(const GptSizes& sizes) {
  GptConfig model;
  model.set_layers(sizes.layers);
  model.set_heads(sizes.heads);
  model.set_channels(sizes.heads * sizes.head_dim);
  model.set_vocabulary(sizes.vocabulary);
  model.set_context(8);
  model.set_dropout(0.1);
  model.set_untied_head(sizes.untied_head);
  RunConfig config = SmallRun(sizes.batch, sizes.sequence, sizes.micro_batches);
  config.mutable_optimizer()->set_kind(sizes.optimizer);
  config.mutable_optimizer()->set_clip_norm(sizes.clip_norm);
  if (sizes.optimizer == "adamw") {
    config.mutable_optimizer()->set_lr(0.01);
    config.mutable_optimizer()->set_beta1(0.9);
    config.mutable_optimizer()->set_beta2(0.95);
    config.mutable_optimizer()->set_eps(1e-8);
    config.mutable_optimizer()->set_weight_decay(0.1);
  }
  auto created = CreateGpt(model);
  TESSERA_CHECK(created.ok()) << created.status();
  return RecordTraining(*std::move(created), config);
}

TrainingRun SmallMlp(int batch) {
  MlpConfig model;
  model.set_window(4);
  model.set_channels(6);
  model.add_hidden(16);
  model.add_hidden(12);
  model.set_vocabulary(24);
  auto created = CreateMlp(model);
  TESSERA_CHECK(created.ok()) << created.status();
  return RecordTraining(*std::move(created), SmallRun(batch, 4));
}

TrainingRun SmallPictureMlp(int batch) {
  PictureMlpConfig model;
  model.set_height(4);
  model.set_width(3);
  model.set_channels(2);
  model.add_hidden(11);
  model.add_hidden(9);
  model.set_classes(7);
  model.set_activation("gelu_tanh");
  model.set_dropout(0.1);
  auto created = CreatePictureMlp(model);
  TESSERA_CHECK(created.ok()) << created.status();
  return RecordTraining(*std::move(created), SmallRun(batch, 1));
}

TrainingRun SmallVgg(const VggSizes& sizes) {
  VggConfig model;
  model.set_height(6);
  model.set_width(5);
  model.set_channels(3);
  for (const int64_t channels : {5, 0, 7, 6, 0}) model.add_layers(channels);
  model.add_hidden(9);
  model.add_hidden(10);
  model.set_classes(7);
  model.set_dropout(0.1);
  model.set_label_smoothing(0.1);
  model.set_crop_padding(2);
  model.set_flips(true);
  model.set_batch_norm(sizes.groups > 0);
  model.set_batch_norm_groups(sizes.groups);
  auto created = CreateVgg(model);
  TESSERA_CHECK(created.ok()) << created.status();
  return RecordTraining(*std::move(created), SmallRun(sizes.batch, 1, sizes.micro_batches));
}

std::vector<std::string> ConformanceModels() {
  std::vector<std::string> names;
  for (const KitModel& model : Models()) names.push_back(model.name);
  return names;
}

TrainingRun MakeConformanceModel(const std::string& name) {
  for (const KitModel& model : Models()) {
    if (name != model.name) continue;
    TrainingRun run = model.make();
    AddOtherPrograms(run);
    return run;
  }
  TESSERA_CHECK(false) << "there is no model " << name;
  return TrainingRun();
}

}  // namespace tessera
