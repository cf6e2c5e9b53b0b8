// Times every kernel of the cpu backend that can run a matrix product of a training step, and
// prints one JSON object. Takes the flags of the training tool, and --rounds=N (5). The products
// are those of the step's Program: its matmuls, with what was fused into them, and
// linear_log_sum_exp with its gradient.
//
//   product_rates --preset=124m --batch=4 --sequence=256 --data=synthetic --dtype=bf16
//
// A round runs each product by each kernel, one after the other, so that other work on the machine
// slows all of them. Operands come from memory: since a run last used their bytes, others have used
// more than the last-level cache holds.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/kernels/interface/backend.h"
#include "core/program/program.h"
#include "core/status/status_macros.h"
#include "core/tensor/half.h"
#include "core/tensor/tensor_view.h"
#include "core/train/programs.h"
#include "models/gpt/gpt.h"
#include "tools/train/flags/flags.h"
#include "tools/train/rank/job.h"
#include "tools/train/rank/rank_program.h"
#include "tools/train/rank/standard_output.h"
#include "tools/train/setup/configure.h"
#include "tools/train/setup/prepare.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

// The last-level cache, if the system reports a smaller one or none.
constexpr int64_t kLeastCacheBytes = 64 << 20;
// In a round, a kernel repeats a short product for so long, but not more often than this.
constexpr double kSecondsOfRound = 0.2;
constexpr int kMostRunsOfRound = 7;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int64_t Aligned(int64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

bool IsProduct(const KernelRequest& request) {
  return request.op == "matmul" || absl::StartsWith(request.op, "linear_log_sum_exp");
}

// One operand: what a view of it needs besides its address.
struct Operand {
  TensorType type;
  Strides strides;

  int64_t elements() const { return ExtentInElements(type.shape, strides); }
  int64_t bytes() const { return Aligned(elements() * SizeOf(type.dtype)); }
};

// A product of the step, which one or more of its instructions compute.
struct Product {
  const PlannedKernel* planned = nullptr;
  std::vector<std::string> paths;  // of the instructions
  std::vector<Operand> inputs, outputs;
};

std::vector<Operand> OperandsOf(const Program& program, const std::vector<ProgramValueId>& values) {
  std::vector<Operand> operands;
  for (const ProgramValueId value : values) {
    operands.push_back({program.value(value).type, program.value(value).strides});
  }
  return operands;
}

// Returns the products in the order of their first instruction.
std::vector<Product> ProductsOf(const Program& program) {
  std::vector<Product> products;
  std::map<KernelId, size_t> indices;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.kind != InstructionKind::kKernel) continue;
    const PlannedKernel& planned = program.KernelOf(instruction);
    if (!IsProduct(planned.request)) continue;
    const auto [index, is_new] = indices.try_emplace(instruction.kernel, products.size());
    if (is_new) {
      products.push_back({&planned,
                          {},
                          OperandsOf(program, instruction.inputs),
                          OperandsOf(program, instruction.outputs)});
    }
    products[index->second].paths.push_back(instruction.path);
  }
  return products;
}

// Values between -0.03 and 0.03, of which products neither overflow nor become subnormal.
float ValueAt(int64_t i) { return static_cast<float>(i * 7 % 61 - 30) / 1024; }

void Fill(DType dtype, int64_t bytes, void* data) {
  const int64_t elements = bytes / SizeOf(dtype);
  if (dtype == DType::kF32) {
    for (int64_t i = 0; i < elements; ++i) static_cast<float*>(data)[i] = ValueAt(i);
  } else if (dtype == DType::kBF16) {
    for (int64_t i = 0; i < elements; ++i) {
      static_cast<BFloat16*>(data)[i] = BFloat16(ValueAt(i));
    }
  } else {
    std::memset(data, 0, bytes);  // indices of targets
  }
}

// Memory that is used from its beginning to its end and then again. It serves the operands of runs,
// each of which is then read from memory, or written to bytes that no cache holds.
class Ring {
 public:
  static absl::StatusOr<Ring> Create(Backend& backend, DType dtype, int64_t bytes) {
    Ring ring;
    ASSIGN_OR_RETURN(ring.memory_, backend.Allocate(bytes, /*guarded=*/false));
    Fill(dtype, bytes, ring.memory_->data());
    return ring;
  }

  TensorView Next(const Operand& operand) {
    if (position_ + operand.bytes() > memory_->bytes()) position_ = 0;
    char* const data = static_cast<char*>(memory_->data()) + position_;
    position_ += operand.bytes();
    return {data, operand.type.dtype, operand.type.shape, operand.strides};
  }

 private:
  std::unique_ptr<DeviceMemory> memory_;
  int64_t position_ = 0;
};

// The memory of all runs: a ring for the inputs of each dtype, and one for all outputs, which are
// never read.
class Memory {
 public:
  static absl::StatusOr<Memory> Create(Backend& backend, const std::vector<Product>& products,
                                       int64_t workspace_bytes) {
    std::map<DType, int64_t> inputs;
    int64_t outputs = 0;
    for (const Product& product : products) {
      std::map<DType, int64_t> of_product;
      for (const Operand& operand : product.inputs) {
        of_product[operand.type.dtype] += operand.bytes();
      }
      for (const auto& [dtype, bytes] : of_product) {
        inputs[dtype] = std::max(inputs[dtype], bytes);
      }
      int64_t written = 0;
      for (const Operand& operand : product.outputs) written += operand.bytes();
      outputs = std::max(outputs, written);
    }
    Memory memory;
    for (const auto& [dtype, bytes] : inputs) {
      ASSIGN_OR_RETURN(Ring ring, Ring::Create(backend, dtype, bytes + RingBytes()));
      memory.inputs_.emplace(dtype, std::move(ring));
    }
    ASSIGN_OR_RETURN(memory.outputs_, Ring::Create(backend, DType::kF32, outputs + RingBytes()));
    ASSIGN_OR_RETURN(memory.workspace_, backend.Allocate(workspace_bytes, /*guarded=*/false));
    std::memset(memory.workspace_->data(), 0, workspace_bytes);
    return memory;
  }

  std::vector<TensorView> NextInputs(const Product& product) {
    std::vector<TensorView> views;
    for (const Operand& operand : product.inputs) {
      views.push_back(inputs_.at(operand.type.dtype).Next(operand));
    }
    return views;
  }
  std::vector<TensorView> NextOutputs(const Product& product) {
    std::vector<TensorView> views;
    for (const Operand& operand : product.outputs) views.push_back(outputs_->Next(operand));
    return views;
  }
  void* workspace() const { return workspace_->data(); }

 private:
  static int64_t RingBytes() {
    return 2 * std::max<int64_t>(sysconf(_SC_LEVEL3_CACHE_SIZE), kLeastCacheBytes);
  }

  std::map<DType, Ring> inputs_;
  std::optional<Ring> outputs_;
  std::unique_ptr<DeviceMemory> workspace_;
};

// A product, one of its kernels, and the times of its runs.
struct Candidate {
  const Product* product = nullptr;
  const Kernel* kernel = nullptr;
  std::unique_ptr<BoundKernel> bound;
  int64_t workspace_bytes = 0;
  int runs_of_round = 1;
  std::vector<double> seconds;
};

absl::StatusOr<double> SecondsOfRun(Candidate& candidate, Memory& memory) {
  const std::vector<TensorView> inputs = memory.NextInputs(*candidate.product);
  const std::vector<TensorView> outputs = memory.NextOutputs(*candidate.product);
  const double begin = Now();
  RETURN_IF_ERROR(candidate.bound->Run({candidate.product->planned->request, inputs, outputs,
                                        memory.workspace(), candidate.workspace_bytes}));
  return Now() - begin;
}

absl::StatusOr<std::vector<Candidate>> CandidatesOf(const std::vector<Product>& products,
                                                    const Backend& backend) {
  std::vector<Candidate> candidates;
  for (const Product& product : products) {
    const KernelRequest& request = product.planned->request;
    for (const Kernel* kernel : CandidateKernels(backend, request)) {
      Candidate candidate;
      candidate.product = &product;
      candidate.kernel = kernel;
      candidate.workspace_bytes = kernel->WorkspaceBytes(request, backend.processor());
      ASSIGN_OR_RETURN(candidate.bound, kernel->Bind(request));
      candidates.push_back(std::move(candidate));
    }
  }
  return candidates;
}

absl::Status TimeRounds(int rounds, Memory& memory, std::vector<Candidate>& candidates) {
  for (Candidate& candidate : candidates) {  // untimed: libraries compile at the first run
    RETURN_IF_ERROR(SecondsOfRun(candidate, memory).status());
    ASSIGN_OR_RETURN(const double seconds, SecondsOfRun(candidate, memory));
    const double runs = kSecondsOfRound / std::max(seconds, 1e-6);
    candidate.runs_of_round = static_cast<int>(std::clamp<double>(runs, 1, kMostRunsOfRound));
  }
  for (int round = 0; round < rounds; ++round) {
    for (Candidate& candidate : candidates) {
      for (int run = 0; run < candidate.runs_of_round; ++run) {
        ASSIGN_OR_RETURN(const double seconds, SecondsOfRun(candidate, memory));
        candidate.seconds.push_back(seconds);
      }
    }
  }
  return absl::OkStatus();
}

Json ToJson(const std::vector<Product>& products, std::vector<Candidate>& candidates) {
  Json result = Json::array();
  for (const Product& product : products) {
    Json kernels = Json::object();
    for (Candidate& candidate : candidates) {
      if (candidate.product != &product) continue;
      std::vector<double>& seconds = candidate.seconds;
      std::sort(seconds.begin(), seconds.end());
      kernels[std::string(candidate.kernel->name())] = {
          {"median_seconds", seconds[seconds.size() / 2]},
          {"min_seconds", seconds.front()},
          {"runs", seconds.size()}};
    }
    result.push_back({{"request", product.planned->key},
                      {"chosen", std::string(product.planned->kernel->name())},
                      {"paths", product.paths},
                      {"kernels", std::move(kernels)}});
  }
  return result;
}

absl::StatusOr<int> TimeProducts(const CommandLine& line, int rounds, Job& job) {
  RunRanks ranks = {&job.ranks(), job.ranks().size(), job.ranks_of_host(), job.cores(), {}};
  std::vector<std::string> unused_notes;
  ASSIGN_OR_RETURN(const ConfiguredRun configured,
                   ConfigureRun(line, GptDefinition(), ranks, &unused_notes));
  if (configured.backend->name() != "cpu") {
    return absl::InvalidArgumentError("the products are timed on --device=cpu only");
  }
  ASSIGN_OR_RETURN(const PreparedRun prepared, PrepareRun(line, configured, &unused_notes));
  const Program* const program = prepared.compiled.FindProgram(kTrain);
  if (program == nullptr) return absl::InvalidArgumentError("this run does not train");
  const std::vector<Product> products = ProductsOf(*program);
  Backend& backend = *configured.backend;
  ASSIGN_OR_RETURN(std::vector<Candidate> candidates, CandidatesOf(products, backend));
  int64_t workspace_bytes = 0;
  for (const Candidate& candidate : candidates) {
    workspace_bytes = std::max(workspace_bytes, candidate.workspace_bytes);
  }
  ASSIGN_OR_RETURN(Memory memory, Memory::Create(backend, products, workspace_bytes));
  RETURN_IF_ERROR(TimeRounds(rounds, memory, candidates));
  const Json result = {{"processor", backend.processor().name},
                       {"threads", backend.processor().threads},
                       {"products", ToJson(products, candidates)}};
  PrintLine(result.dump(1));
  return 0;
}

// Removes --rounds=N, which the training tool does not have, from the arguments, and returns N.
absl::StatusOr<int> TakeRounds(std::vector<std::string>& arguments) {
  constexpr absl::string_view kFlag = "--rounds=";
  int rounds = 5;
  for (const std::string& argument : arguments) {
    if (!absl::StartsWith(argument, kFlag)) continue;
    if (!absl::SimpleAtoi(argument.substr(kFlag.size()), &rounds) || rounds < 1) {
      return absl::InvalidArgumentError(absl::StrCat(argument, ": expected 1 or more rounds"));
    }
  }
  arguments.erase(
      std::remove_if(arguments.begin(), arguments.end(),
                     [&](const std::string& text) { return absl::StartsWith(text, kFlag); }),
      arguments.end());
  return rounds;
}

absl::StatusOr<int> Run(const std::string& /*name*/, const std::vector<std::string>& arguments) {
  std::vector<std::string> of_training = arguments;
  ASSIGN_OR_RETURN(const int rounds, TakeRounds(of_training));
  ASSIGN_OR_RETURN(const CommandLine line, ParseCommandLine(of_training, GptDefinition()));
  if (line.launch.nproc > 1) {
    return absl::InvalidArgumentError("--nproc: the products are those of one process");
  }
  return RunAsRank(line.world, /*threads=*/0,
                   [&](Job& job) { return TimeProducts(line, rounds, job); });
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  return tessera::RankMain(argc, argv,
                           {.launch = [](const std::vector<std::string>&) { return std::nullopt; },
                            .run = tessera::Run});
}
