// Types and attributes as messages (core/proto/tensor.proto).
//
// Reading a message gives InvalidArgument, in one line, for what is out of range.
// Thread safety: pure functions.
#ifndef TESSERA_CORE_GRAPH_ATTRIBUTES_PROTO_H_
#define TESSERA_CORE_GRAPH_ATTRIBUTES_PROTO_H_

#include "absl/status/statusor.h"
#include "core/graph/attributes.h"
#include "core/proto/tensor.pb.h"
#include "core/tensor/shape.h"
#include "google/protobuf/repeated_field.h"

namespace tessera {

// A tensor from outside has at most so many dimensions, and its bytes are at most so many.
inline constexpr int kMaxProtoRank = 64;
inline constexpr int64_t kMaxProtoBytes = int64_t{1} << 50;

TypeProto ToProto(const TensorType& type);
absl::StatusOr<TensorType> FromProto(const TypeProto& message);

google::protobuf::RepeatedPtrField<AttributeProto> ToProto(const Attributes& attributes);
absl::StatusOr<Attributes> FromProto(
    const google::protobuf::RepeatedPtrField<AttributeProto>& messages);

absl::StatusOr<DType> FromProto(TypeProto::DType dtype);

}  // namespace tessera

#endif  // TESSERA_CORE_GRAPH_ATTRIBUTES_PROTO_H_
