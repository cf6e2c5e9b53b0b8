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
  struct Input {
    std::string path;
    Shape shape;
  };
  struct Operator {
    std::string path;
    bool update = false;                  // it belongs to the optimizer
    std::vector<std::string> signatures;  // along one axis, as the operator declares them
  };

  std::vector<Parameter> parameters;
  std::vector<Parameter> statistics;  // running statistics
  std::vector<Operator> operators;
  std::vector<Input> batch_inputs;
  int64_t batch = 0;             // their rows
  bool may_keep_logits = false;  // the loss has logits that the backward pass reads
  std::vector<std::string> blocks;
  // Patterns of scopes and parameters, some with "*", that groups may name.
  std::vector<std::string> scopes;
  // Patterns of operators of the forward pass, and of the scopes around them.
  std::vector<std::string> forward_scopes;
};

Subjects SubjectsOf(const Graph& train);

}  // namespace tessera

#endif  // TESSERA_TESTS_PLANS_RANDOM_SUBJECTS_H_
