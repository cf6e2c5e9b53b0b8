// Converts types and attributes to messages (core/proto/tensor.proto) and back.
//
// Reading a message returns InvalidArgument, in one line, if something is out of range. Thread
// safety: pure functions.
#ifndef TESSERA_CORE_GRAPH_ATTRIBUTES_PROTO_H_
#define TESSERA_CORE_GRAPH_ATTRIBUTES_PROTO_H_

#include "absl/status/statusor.h"
#include "core/graph/attributes.h"
#include "core/proto/tensor.pb.h"
#include "core/tensor/shape.h"
#include "google/protobuf/repeated_field.h"

namespace tessera {

// The largest number of dimensions and of bytes of a tensor in a message.
inline constexpr int kMaxProtoRank = 64;
inline constexpr int64_t kMaxProtoBytes = int64_t{1} << 50;

TypeProto ToProto(const TensorType& type);
absl::StatusOr<TensorType> FromProto(const TypeProto& message);

google::protobuf::RepeatedPtrField<AttributeProto> ToProto(const Attributes& attributes);
absl::StatusOr<Attributes> FromProto(
    const google::protobuf::RepeatedPtrField<AttributeProto>& messages);

TypeProto::DType ToProto(DType dtype);
absl::StatusOr<DType> FromProto(TypeProto::DType dtype);

}  // namespace tessera

#endif  // TESSERA_CORE_GRAPH_ATTRIBUTES_PROTO_H_
