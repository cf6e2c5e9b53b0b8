// Runs hand-made Programs on ranks that are threads of this process, for tests.
#ifndef TESSERA_CORE_RUNTIME_TESTING_RANKS_H_
#define TESSERA_CORE_RUNTIME_TESTING_RANKS_H_

#include <cmath>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/fake/fake.h"
#include "core/program/testing/test_program.h"
#include "core/runtime/engine.h"
#include "core/runtime/mesh_collectives.h"
#include "core/runtime/world_memory.h"
#include "core/status/status_macros.h"
#include "gtest/gtest.h"

namespace tessera {

// Returns Internal, with the first element that differs from the expected one by more than
// `tolerance` times its magnitude.
inline absl::Status ExpectValues(absl::string_view what, absl::Span<const double> values,
                                 const std::function<double(int64_t)>& expected,
                                 double tolerance = 1e-12) {
  for (size_t i = 0; i < values.size(); ++i) {
    const double wanted = expected(static_cast<int64_t>(i));
    if (values[i] == wanted) continue;
    if (!(std::abs(values[i] - wanted) <= tolerance * std::max(1e-3, std::abs(wanted)))) {
      return absl::InternalError(absl::StrCat(what, "[", i, "] is ", values[i], ", not ", wanted));
    }
  }
  return absl::OkStatus();
}

inline void ExpectOk(const std::vector<absl::Status>& statuses) {
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
}

// A rank with its backend, collectives and engine.
struct RankRun {
  explicit RankRun(std::unique_ptr<Backend> used) : backend(std::move(used)) {}

  std::unique_ptr<Backend> backend;
  std::unique_ptr<MeshCollectives> collectives;
  std::unique_ptr<Engine> engine;

  // Plans and verifies the Program, which is named "test", and makes an engine for it. Memory is
  // first filled with NaN.
  absl::Status Prepare(comm::World& rank, const Mesh& mesh, TestProgram& made) {
    made.program.mesh = mesh;
    RETURN_IF_ERROR(made.Finish());
    return Start(rank, made.program);
  }
  // Makes an engine for a Program that is already planned.
  absl::Status Start(comm::World& rank, const Program& program) {
    ASSIGN_OR_RETURN(collectives, MeshCollectives::Create(program.mesh, &rank.communicator()));
    CompiledRun compiled;
    compiled.arenas = program.arenas;
    compiled.programs.push_back(program);
    EngineOptions options;
    options.rank = {rank.rank(), collectives.get()};
    options.allocate = ArenasOf(&rank, backend.get());
    options.fill = 0xFF;
    ASSIGN_OR_RETURN(engine, Engine::Create(std::move(compiled), backend.get(), options));
    return absl::OkStatus();
  }

  // Sets the elements of an input that the rank holds: element i, in row-major order, is value(i).
  // Padding is NaN.
  absl::Status Set(Engine& to, absl::string_view input,
                   const std::function<double(int64_t)>& value) {
    const Executor& executor = to.executor("test");
    const ProgramValueId id = executor.program().FindInput(input);
    const TensorType& padded = executor.program().value(id).type;
    std::vector<double> values(NumElements(padded.shape), std::nan(""));
    ForEachHeld(executor, id, [&](int64_t i, int64_t at) { values[at] = value(i); });
    return to.SetInput("test", input, values);
  }
  absl::Status Set(absl::string_view input, const std::function<double(int64_t)>& value) {
    return Set(*engine, input, value);
  }
  absl::Status Expect(absl::string_view output, const std::function<double(int64_t)>& expected,
                      double tolerance = 1e-12) {
    const Executor& executor = engine->executor("test");
    const ProgramValueId id = executor.program().FindOutput(output);
    const ProgramValue& value = executor.program().value(id);
    std::vector<double> padded(value.flat == kNone ? NumElements(value.type.shape) : Elements(id));
    RETURN_IF_ERROR(engine->ReadOutput("test", output, absl::MakeSpan(padded)));
    std::vector<double> values(Elements(id));
    ForEachHeld(executor, id, [&](int64_t i, int64_t at) { values[i] = padded[at]; });
    return ExpectValues(output, values, expected, tolerance);
  }
  // Calls visit(i, at) for each element i that the rank holds of a value, which is element `at` of
  // the padded part.
  template <typename Visit>
  static void ForEachHeld(const Executor& executor, ProgramValueId value, const Visit& visit) {
    const TensorView view = executor.ViewOf(value);
    for (int64_t i = 0; i < view.elements(); ++i) {
      int64_t rest = i, at = 0;
      for (size_t d = view.shape.size(); d-- > 0;) {
        at += rest % view.shape[d] * view.strides[d];
        rest /= view.shape[d];
      }
      visit(i, at);
    }
  }
  // Returns the number of elements that the rank holds of a value.
  int64_t Elements(ProgramValueId value) const {
    return engine->executor("test").ViewOf(value).elements();
  }
};

// Runs a planned Program "test" once, and returns the padded elements of each output. `x` are those
// of the input "x".
inline absl::StatusOr<std::vector<std::vector<double>>> RunOnce(comm::World& rank,
                                                                const Program& program,
                                                                absl::Span<const double> x) {
  RankRun run(MakeReferenceBackend());
  RETURN_IF_ERROR(run.Start(rank, program));
  RETURN_IF_ERROR(run.engine->SetInput("test", "x", x));
  RETURN_IF_ERROR(run.engine->Run("test"));
  std::vector<std::vector<double>> outputs;
  for (const auto& [name, value] : program.outputs) {
    outputs.emplace_back(NumElements(program.value(value).type.shape));
    RETURN_IF_ERROR(run.engine->ReadOutput("test", name, absl::MakeSpan(outputs.back())));
  }
  return outputs;
}

}  // namespace tessera

#endif  // TESSERA_CORE_RUNTIME_TESTING_RANKS_H_
