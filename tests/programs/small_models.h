// Small models of every kind, for tests of their Graphs and Programs.
#ifndef TESSERA_TESTS_PROGRAMS_SMALL_MODELS_H_
#define TESSERA_TESTS_PROGRAMS_SMALL_MODELS_H_

#include <memory>
#include <string>

#include "core/model/model.h"

namespace tessera {

// `name` is "mlp", "gpt", "gpt_untied" (with a head of its own) or "gpt_dropout".
std::unique_ptr<Model> MakeModel(const std::string& name);

}  // namespace tessera

#endif  // TESSERA_TESTS_PROGRAMS_SMALL_MODELS_H_
