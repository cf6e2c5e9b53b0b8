// Checks that every preset of every model is complete and makes a model of the size that its name
// states.
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/graph/graph.h"
#include "core/model/language_model.h"
#include "core/model/model.h"
#include "core/train/config/run_config.pb.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "models/models.h"

namespace tessera {
namespace {

using ::testing::AnyOf;

struct NamedPreset {
  const ModelDefinition* model;
  Preset preset;
};

std::vector<NamedPreset> AllPresets() {
  std::vector<NamedPreset> all;
  for (const ModelDefinition* model : AllModels()) {
    for (const Preset& preset : model->presets) all.push_back({model, preset});
  }
  return all;
}

RunConfig Parse(const NamedPreset& named) {
  RunConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(named.preset.text, &config))
      << named.preset.name;
  return config;
}

std::unique_ptr<Model> Create(const NamedPreset& named, const RunConfig& run) {
  std::unique_ptr<google::protobuf::Message> config(named.model->default_config->New());
  EXPECT_TRUE(run.model().UnpackTo(config.get())) << run.model().type_url();
  auto model = named.model->create(*config);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

int64_t CountParameters(const Graph& graph) {
  int64_t count = 0;
  for (const State& state : graph.states()) {
    if (state.role == Role::kParameter) count += NumElements(state.type.shape);
  }
  return count;
}

class PresetTest : public ::testing::TestWithParam<NamedPreset> {};

TEST_P(PresetTest, SetsEveryFieldThatHasNoSensibleZero) {
  const RunConfig config = Parse(GetParam());
  EXPECT_GT(config.steps(), 0);
  EXPECT_GT(config.batch(), 0);
  EXPECT_GT(config.sequence(), 0);
  EXPECT_GT(config.micro_batches(), 0);
  EXPECT_EQ(config.batch() % config.micro_batches(), 0);
  EXPECT_GT(config.seed(), 0);
  EXPECT_EQ(config.device(), "cpu");
  EXPECT_THAT(config.recompute(), AnyOf("none", "block"));
  EXPECT_GT(config.save_every(), 0);
  EXPECT_GT(config.keep_checkpoints(), 0);
  EXPECT_GT(config.eval_every(), 0);
  if (Create(GetParam(), config)->AsLanguageModel() != nullptr) {
    EXPECT_GT(config.sample().temperature(), 0);
  }
  const OptimizerConfig& optimizer = config.optimizer();
  EXPECT_THAT(optimizer.kind(), AnyOf("adamw", "sgd"));
  EXPECT_GT(optimizer.lr(), 0);
  EXPECT_EQ(optimizer.schedule(), "cosine");
  EXPECT_GT(optimizer.warmup_steps(), 0);
  EXPECT_LT(optimizer.warmup_steps(), config.steps());
  EXPECT_GT(optimizer.min_lr(), 0);
  EXPECT_GT(optimizer.beta1(), 0);
  EXPECT_GT(optimizer.beta2(), 0);
  EXPECT_GT(optimizer.eps(), 0);
  EXPECT_GT(optimizer.weight_decay(), 0);
  EXPECT_GT(optimizer.clip_norm(), 0);
}

TEST_P(PresetTest, MakesAModelOfEveryGraph) {
  const RunConfig config = Parse(GetParam());
  const std::unique_ptr<Model> model = Create(GetParam(), config);
  for (bool training : {false, true}) {
    Graph graph("loss");
    model->RecordLoss(graph, config.batch(), config.sequence(), training);
    EXPECT_TRUE(graph.status().ok()) << graph.status();
  }
  const LanguageModel* const language = model->AsLanguageModel();
  if (language == nullptr) return;
  Graph logits("logits");
  language->RecordLogits(logits, config.batch(), config.sequence());
  EXPECT_TRUE(logits.status().ok()) << logits.status();
  Graph token("token");
  language->RecordNextToken(token, language->max_sequence());
  EXPECT_TRUE(token.status().ok()) << token.status();
}

INSTANTIATE_TEST_SUITE_P(Presets, PresetTest, ::testing::ValuesIn(AllPresets()),
                         [](const ::testing::TestParamInfo<NamedPreset>& info) {
                           std::string name =
                               absl::StrCat(info.param.model->name, "_", info.param.preset.name);
                           for (char& c : name) {
                             if (c == '.') c = '_';
                           }
                           return name;
                         });

int64_t ParametersOf(absl::string_view preset_name, absl::string_view model = "gpt") {
  for (const NamedPreset& named : AllPresets()) {
    if (named.model->name != model || named.preset.name != preset_name) continue;
    const RunConfig config = Parse(named);
    Graph graph("loss");
    Create(named, config)->RecordLoss(graph, 1, config.sequence(), false);
    return CountParameters(graph);
  }
  return 0;
}

TEST(PresetParametersTest, Gpt2HasTheKnownNumbers) {
  EXPECT_EQ(ParametersOf("124m"), 124'439'808);
  EXPECT_EQ(ParametersOf("355m"), 354'823'168);
  EXPECT_EQ(ParametersOf("774m"), 774'030'080);
  EXPECT_EQ(ParametersOf("1558m"), 1'557'611'200);
}

TEST(PresetParametersTest, Gpt3HasTheSizesOfItsTable) {
  const std::pair<absl::string_view, double> sizes[] = {
      {"gpt3_small", 125e6}, {"gpt3_medium", 350e6}, {"gpt3_large", 760e6}, {"gpt3_xl", 1.3e9},
      {"gpt3_2.7b", 2.7e9},  {"gpt3_6.7b", 6.7e9},   {"gpt3_13b", 13e9},    {"gpt3_175b", 175e9}};
  for (const auto& [name, size] : sizes) {
    EXPECT_NEAR(static_cast<double>(ParametersOf(name)) / size, 1, 0.03) << name;
  }
}

// Two products, 1024-4096-1024, with biases.
TEST(PresetParametersTest, PictureMlpHasTheShapesOfThePapers) {
  for (const char* preset : {"mlp_a", "mlp_b"}) {
    EXPECT_EQ(ParametersOf(preset, "picture_mlp"), 2 * 1024 * 4096 + 4096 + 1024);
  }
}

// Those of torchvision's models.
TEST(PresetParametersTest, VggHasTheKnownNumbers) {
  EXPECT_EQ(ParametersOf("vgg11", "vgg"), 132'863'336);
  EXPECT_EQ(ParametersOf("vgg13", "vgg"), 133'047'848);
  EXPECT_EQ(ParametersOf("vgg16", "vgg"), 138'357'544);
  EXPECT_EQ(ParametersOf("vgg19", "vgg"), 143'667'240);
}

// Those of torchvision's models, less the biases of the convolutions, which batch norm would
// take away again.
TEST(PresetParametersTest, VggWithBatchNormHasTheKnownNumbers) {
  EXPECT_EQ(ParametersOf("vgg11_bn", "vgg"), 132'868'840 - 2752);
  EXPECT_EQ(ParametersOf("vgg13_bn", "vgg"), 133'053'736 - 2944);
  EXPECT_EQ(ParametersOf("vgg16_bn", "vgg"), 138'365'992 - 4224);
  EXPECT_EQ(ParametersOf("vgg19_bn", "vgg"), 143'678'248 - 5504);
}

TEST(ModelNamesTest, AreThoseOfTheFoldersAndDiffer) {
  std::set<std::string> names;
  for (const ModelDefinition* model : AllModels()) {
    EXPECT_TRUE(names.insert(model->name).second) << model->name;
    const std::string package = model->default_config->GetDescriptor()->file()->name();
    EXPECT_EQ(package, absl::StrCat("models/", model->name, "/", model->name, ".proto"));
  }
}

TEST(PresetNamesTest, TheDefaultIsTiny) {
  for (const ModelDefinition* model : AllModels()) {
    ASSERT_FALSE(model->presets.empty()) << model->name;
    EXPECT_EQ(model->presets.front().name, "tiny") << model->name;
  }
}

}  // namespace
}  // namespace tessera
