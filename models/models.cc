#include "models/models.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/text/nearest_name.h"
#include "models/gpt/gpt.h"
#include "models/mlp/mlp.h"
#include "models/picture_mlp/picture_mlp.h"
#include "models/ratings/ratings.h"
#include "models/vgg/vgg.h"

namespace tessera {

absl::Span<const ModelDefinition* const> AllModels() {
  static const auto* const models = new std::vector<const ModelDefinition*>{
      &GptDefinition(), &MlpDefinition(), &PictureMlpDefinition(), &RatingsDefinition(),
      &VggDefinition()};
  return *models;
}

std::vector<std::string> ModelNames() {
  std::vector<std::string> names;
  for (const ModelDefinition* model : AllModels()) names.push_back(model->name);
  return names;
}

absl::StatusOr<const ModelDefinition*> FindModel(const std::string& name) {
  for (const ModelDefinition* model : AllModels()) {
    if (model->name == name) return model;
  }
  const std::vector<std::string> names = ModelNames();
  return absl::InvalidArgumentError(absl::StrCat("--model: there is no model '", name, "': it is ",
                                                 absl::StrJoin(names, " or "),
                                                 DidYouMean(name, names)));
}

}  // namespace tessera
