// Programs whose values differ between ranks, for tests on both backends.
#ifndef TESSERA_CORE_RUNTIME_TESTING_PARTS_H_
#define TESSERA_CORE_RUNTIME_TESTING_PARTS_H_

#include <cmath>
#include <functional>
#include <memory>
#include <string>

#include "core/kernels/cpu/backend.h"
#include "core/kernels/reference/backend.h"
#include "core/ops/ops.h"
#include "core/program/ranks/rank_rule_table.h"
#include "core/runtime/memory_check.h"
#include "core/runtime/testing/ranks.h"

namespace tessera {

inline AxisLayout S(int dim, int64_t unit = 1) { return AxisLayout::Split(dim, unit); }
inline AxisLayout P(AxisLayout::Reduction reduction = AxisLayout::Reduction::kSum) {
  return AxisLayout::Partial(reduction);
}

// Element i of an input.
inline double Element(int64_t i) { return std::sin(0.7 * static_cast<double>(i) + 0.3); }

// A Program between lowering and the assignment of buffers, for `ranks` ranks along "data".
struct PartsProgram : TestProgram {
  PartsProgram(const Graph& graph, const Backend& backend, int ranks)
      : TestProgram(graph, backend), dtype(backend.Realize(DType::kF32)) {
    program.mesh = *Mesh::Create({{"data", ranks}});
  }

  PartRule Part(const Shape& global, AxisLayout layout) const {
    return {global, Shape(global.size(), 0), global, MeshLayout({layout})};
  }
  // Makes an existing value hold a part.
  void Hold(absl::string_view path, const Shape& global, AxisLayout layout) {
    program.values[Value(path)].part = RankRuleTable(&program).FindOrAdd(Part(global, layout));
  }
  // Adds each rank's slice of a value that all ranks hold.
  ProgramValueId AddSlice(absl::string_view path, ProgramValueId base, AxisLayout layout) {
    const PartRule part = Part(program.values[base].type.shape, layout);
    ProgramValue slice = program.values[base];
    slice.path = std::string(path);
    slice.type.shape = part.LocalShape(program.mesh);
    slice.within = program.TensorOf(base);
    slice.sliced_from = base;
    slice.part = RankRuleTable(&program).FindOrAdd(part);
    return program.values.push_back(std::move(slice));
  }
  // Reduces a value over all ranks at the end; the result is also an output.
  void Reduce(absl::string_view path, absl::string_view to, Reduction reduction) {
    const ProgramValueId from = Value(path);
    const TensorType type = program.values[from].type;
    const ProgramValueId sum = AddValue(to, type);
    InsertCollective(program.instructions.end_id(),
                     {.elements = NumElements(type.shape),
                      .dtype = type.dtype,
                      .reduction = reduction,
                      .mesh_axes = {"data"}},
                     from, sum, "communication");
    program.outputs.push_back({std::string(to), sum});
  }

  DType dtype;
};

class RankPartsTest : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Backend> Make() const {
    return GetParam() == "cpu" ? MakeCpuBackend(2) : MakeReferenceBackend();
  }
  double tolerance() const { return GetParam() == "cpu" ? 1e-5 : 1e-12; }
  void OnRanks(int ranks, const std::function<absl::Status(comm::World&)>& body) const {
    ExpectOk(comm::RunFake({.ranks = ranks, .seed = 11}, body));
  }
};

}  // namespace tessera

#endif  // TESSERA_CORE_RUNTIME_TESTING_PARTS_H_
