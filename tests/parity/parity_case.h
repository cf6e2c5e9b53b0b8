// A reference state of PyTorch, the engine's model for it, and training as PyTorch did.
#ifndef TESSERA_TESTS_PARITY_PARITY_CASE_H_
#define TESSERA_TESTS_PARITY_PARITY_CASE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/kernels/interface/backend.h"
#include "core/model/model.h"
#include "core/runtime/run_graph.h"
#include "core/train/config/run_config.pb.h"
#include "tests/parity/state_file.h"

namespace tessera {

// Returns the norm of a vector.
double Norm(const std::vector<double>& v);
// Returns the norm of a - b over that of b, or over `floor` if this is larger. They have one size.
double Distance(const std::vector<double>& a, const std::vector<double>& b, double floor = 0);

// The numbers that the engine computes with, and how close to PyTorch's float64 it must be.
enum class Arithmetic {
  kF64,   // the reference backend: closer than 1e-10
  kF32,   // twice as far as PyTorch's own float32, or 8 roundings
  kBf16,  // twice as far as PyTorch's own bfloat16, or 2 roundings
};

struct ParityCase {
  StateFile state;
  std::shared_ptr<const Model> model;
  int64_t batch = 0, sequence = 1;

  // Reads tests/parity/states/NAME.safetensors.
  static absl::StatusOr<ParityCase> Read(const std::string& name);

  // Returns the setting `optimizer`: "sgd" or "adamw".
  RunConfig Config(const std::string& optimizer) const;
  // Returns the batches from which SGD in bf16 is started; the first is 0.
  std::vector<int64_t> FirstBatches() const;
  // Returns an input of the batch of a step, counted from 0; after the last batch comes batch 0.
  std::vector<double> BatchOf(const std::string& input, int64_t step) const;
  // Returns the values of parameters and running statistics by path: those before the first step,
  // or with the prefix "sgd/" those after the last.
  std::map<std::string, std::vector<double>> States(const std::string& prefix = "") const;
  // Returns the inputs of a Graph over batch 0 and these states.
  std::map<std::string, HostTensor> Given(const std::string& prefix = "") const;
  // Returns the allowed distance, given the name of PyTorch's own without the prefix "fp32/".
  double Bound(Arithmetic arithmetic, const std::string& distance) const;
};

struct TrainedCase {
  std::vector<double> losses, grad_norms;  // by step
  std::map<std::string, std::vector<double>> states;
};

// Trains all steps. `kernels` is the seed by which kernels are drawn; 0: the default ones. The last
// batch is the one before `first_batch`.
absl::StatusOr<TrainedCase> TrainCase(const ParityCase& parity, const std::string& optimizer,
                                      Arithmetic arithmetic, Backend& backend, uint64_t kernels = 0,
                                      int64_t first_batch = 0);

// Expects the loss and each gradient of batch 0 to be those of PyTorch.
void ExpectSameGradients(const ParityCase& parity, Arithmetic arithmetic, Backend& backend);
// Expects losses, norms and states after all steps to be those of PyTorch. In bf16, the states
// alone: see below.
void ExpectSameTraining(const ParityCase& parity, const std::string& optimizer,
                        Arithmetic arithmetic, const TrainedCase& trained);
// Expects the losses of SGD in bf16, from each of FirstBatches(), to be as close as PyTorch's on
// average. Those of a single run are close or far by luck.
void ExpectSameLossesInBf16(const ParityCase& parity,
                            const std::vector<std::vector<double>>& losses);

}  // namespace tessera

#endif  // TESSERA_TESTS_PARITY_PARITY_CASE_H_
