// Draws meshes, layouts and signatures, as text of a Plan.
#ifndef TESSERA_TESTS_PLANS_RANDOM_DRAW_LAYOUTS_H_
#define TESSERA_TESTS_PLANS_RANDOM_DRAW_LAYOUTS_H_

#include <string>
#include <vector>

#include "core/proto/plan.pb.h"
#include "core/tensor/shape.h"
#include "tests/plans/random/random.h"
#include "tests/plans/random/subjects.h"

namespace tessera {

// The names of a mesh's axes.
using Axes = std::vector<std::string>;

// Adds a mesh of 1 to 4 axes to the stage. Returns the number of ranks: 1 to 12.
int DrawMesh(Random& random, Stage& stage);

// Returns some of the axes, at least one, in any order.
Axes SomeOf(Axes axes, Random& random);

// Returns a layout of splits along some of the axes, in whole or in units, as the outer split any
// of them.
std::string DrawLayout(const Shape& shape, const Axes& axes, Random& random);

// Returns a signature along some of the axes: declared ones, and B. `flat_axes` are those of the
// group of the operator's parameter; then it may also be "flat".
std::string DrawSignature(const Subjects::Operator& op, const Axes& axes, const Axes& flat_axes,
                          Random& random);

// Returns a signature with other layouts than the operator declares.
std::string DrawInvalidSignature(const Subjects::Operator& op, const Axes& axes, Random& random);

}  // namespace tessera

#endif  // TESSERA_TESTS_PLANS_RANDOM_DRAW_LAYOUTS_H_
