// Checks that the bounds on the texts of checkpoints leave a margin above the largest preset.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "core/model/model.h"
#include "core/train/checkpoint/manifest.h"
#include "core/train/checkpoint/safetensors.h"
#include "core/train/config/config_editor.h"
#include "core/train/config/text_bounds.h"
#include "core/train/programs.h"
#include "gtest/gtest.h"
#include "models/models.h"

namespace tessera {
namespace {

// Returns the state of a preset, as a checkpoint names it.
std::vector<StateEntry> StateOf(const ModelDefinition& definition, const ConfigEditor& config) {
  const auto model = definition.create(config.model());
  EXPECT_TRUE(model.ok()) << model.status();
  const auto graph = RecordTrain(**model, config.config());
  EXPECT_TRUE(graph.ok()) << graph.status();
  std::vector<StateEntry> entries;
  for (const State& state : graph->states()) {
    entries.push_back(
        {state.path, state.role == Role::kParameter ? kParameterRole : kOptimizerRole, state.type});
  }
  return entries;
}

std::vector<std::pair<const ModelDefinition*, Preset>> AllPresets() {
  std::vector<std::pair<const ModelDefinition*, Preset>> all;
  for (const ModelDefinition* definition : AllModels()) {
    for (const Preset& preset : definition->presets) all.push_back({definition, preset});
  }
  return all;
}

TEST(PresetBoundsTest, TextsOfEveryPresetAreAThirtiethOfTheirBounds) {
  size_t manifest_bytes = 0, header_bytes = 0, config_bytes = 0;
  for (const auto& [definition, preset] : AllPresets()) {
    ConfigEditor config(RunConfig(), *definition->default_config);
    ASSERT_TRUE(config.MergeText(preset.text, preset.name).ok());
    Manifest manifest;
    manifest.state = StateOf(*definition, config);
    manifest.files = {{"parameters.safetensors", 0, ""}};
    for (const StateEntry& entry : manifest.state) {
      manifest.shards.push_back({FullShard(entry.type.shape)});
      manifest.shard_files.push_back({0});
    }
    std::vector<SafetensorsTensor> tensors;
    for (const StateEntry& entry : manifest.state) tensors.push_back({entry.path, entry.type});
    const auto header = MakeSafetensorsHeader(std::move(tensors));
    ASSERT_TRUE(header.ok()) << header.status();
    manifest_bytes = std::max(manifest_bytes, ManifestToText(manifest).size());
    header_bytes = std::max(header_bytes, header->bytes.size());
    config_bytes = std::max(config_bytes, config.ToText().size());
  }
  std::printf("manifest %zu, header %zu, config %zu bytes\n", manifest_bytes, header_bytes,
              config_bytes);
  EXPECT_LT(30 * manifest_bytes, kMaxTextBytes);
  EXPECT_LT(30 * header_bytes, kMaxTextBytes);
  EXPECT_LT(30 * config_bytes, kMaxConfigBytes);
}

}  // namespace
}  // namespace tessera
