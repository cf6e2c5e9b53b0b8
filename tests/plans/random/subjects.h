// What the choices of a Plan may name in a model.
#ifndef TESSERA_TESTS_PLANS_RANDOM_SUBJECTS_H_
#define TESSERA_TESTS_PLANS_RANDOM_SUBJECTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/tensor/shape.h"

namespace tessera {

struct Subjects {
  struct Parameter {
    std::string path;
    Shape shape;
    std::vector<std::string> states;  // optimizer state of its shape
  };
  struct Operator {
    std::string path;
    bool update = false;                  // it belongs to the optimizer
    std::vector<std::string> signatures;  // along one axis, as the operator declares them
  };

  std::vector<Parameter> parameters;
  std::vector<Operator> operators;
  std::vector<std::string> batch_inputs;
  int64_t batch = 0, sequence = 0;  // their shape
  std::vector<std::string> blocks;
  // Patterns of scopes and parameters, some with "*", that groups may name.
  std::vector<std::string> scopes;
  // Patterns of operators of the forward pass, and of the scopes around them.
  std::vector<std::string> forward_scopes;
};

Subjects SubjectsOf(const Graph& train);

}  // namespace tessera

#endif  // TESSERA_TESTS_PLANS_RANDOM_SUBJECTS_H_
