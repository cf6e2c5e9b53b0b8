#include "tests/programs/small_models.h"

#include "models/gpt/gpt.h"
#include "models/mlp/mlp.h"

namespace tessera {

std::unique_ptr<Model> MakeModel(const std::string& name) {
  if (name == "mlp") {
    MlpConfig config;
    config.set_window(12);
    config.set_channels(10);
    config.add_hidden(33);
    config.set_vocabulary(61);
    return *CreateMlp(config);
  }
  GptConfig config;
  config.set_layers(2);
  config.set_heads(2);
  config.set_channels(18);
  config.set_vocabulary(61);
  config.set_context(12);
  config.set_untied_head(name == "gpt_untied");
  config.set_dropout(name == "gpt_dropout" ? 0.1 : 0);
  return *CreateGpt(config);
}

}  // namespace tessera
