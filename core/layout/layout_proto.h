// Layouts as messages (core/proto/layout.proto).
//
// Reading a message that may come from outside gives InvalidArgument, in one line, for what is out
// of range; whether a layout fits a shape is CheckLayout's question.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_LAYOUT_LAYOUT_PROTO_H_
#define TESSERA_CORE_LAYOUT_LAYOUT_PROTO_H_

#include <vector>

#include "absl/status/statusor.h"
#include "core/layout/layout.h"
#include "core/layout/mesh.h"
#include "core/layout/mesh_layout.h"
#include "core/proto/layout.pb.h"
#include "google/protobuf/repeated_field.h"

namespace tessera {

AxisLayoutProto ToProto(const AxisLayout& layout);
absl::StatusOr<AxisLayout> FromProto(const AxisLayoutProto& message);

SignatureProto ToProto(const Signature& signature);
absl::StatusOr<Signature> FromProto(const SignatureProto& message);

// Axes of the mesh that are B are left out.
LayoutProto ToProto(const MeshLayout& layout, const Mesh& mesh);
absl::StatusOr<MeshLayout> FromProto(const LayoutProto& message, const Mesh& mesh);

// The axes of a mesh with all sizes.
google::protobuf::RepeatedPtrField<MeshAxis> ToProto(const Mesh& mesh);
// The axes of a mesh, one of which may have size 0: for Mesh::Create and Mesh::ForRanks, which
// check them.
std::vector<Mesh::Axis> AxesFromProto(const google::protobuf::RepeatedPtrField<MeshAxis>& axes);

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_LAYOUT_PROTO_H_
