// Converts layouts to messages (core/proto/layout.proto) and back.
//
// Messages need not be trusted: reading one returns InvalidArgument, in one line, if something is
// out of range. CheckLayout checks whether a layout fits a shape.
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

// Axes of the mesh that are B are not listed.
LayoutProto ToProto(const MeshLayout& layout, const Mesh& mesh);
absl::StatusOr<MeshLayout> FromProto(const LayoutProto& message, const Mesh& mesh);

// Converts the axes of a mesh, with all sizes.
google::protobuf::RepeatedPtrField<MeshAxis> ToProto(const Mesh& mesh);
// Returns the axes of a mesh for Mesh::Create or Mesh::ForRanks, which check them. One of them may
// have size 0.
std::vector<Mesh::Axis> AxesFromProto(const google::protobuf::RepeatedPtrField<MeshAxis>& axes);

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_LAYOUT_PROTO_H_
