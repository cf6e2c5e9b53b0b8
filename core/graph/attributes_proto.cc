#include "core/graph/attributes_proto.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// The enumerators of both enumerations must be in the same order.
static_assert(static_cast<int>(DType::kF32) == TypeProto::F32);
static_assert(static_cast<int>(DType::kU8) == TypeProto::U8);

struct SetValue {
  AttributeProto& message;

  void operator()(bool value) const { message.set_bool_value(value); }
  void operator()(int64_t value) const { message.set_int_value(value); }
  void operator()(double value) const { message.set_double_value(value); }
  void operator()(const std::string& value) const { message.set_string_value(value); }
  void operator()(DType value) const { message.set_dtype_value(ToProto(value)); }
  void operator()(const std::vector<int64_t>& values) const {
    message.mutable_ints_value()->mutable_values()->Add(values.begin(), values.end());
  }
};

absl::StatusOr<AttributeValue> ValueOf(const AttributeProto& message) {
  switch (message.value_case()) {
    case AttributeProto::kBoolValue:
      return AttributeValue(message.bool_value());
    case AttributeProto::kIntValue:
      return AttributeValue(int64_t{message.int_value()});
    case AttributeProto::kDoubleValue:
      return AttributeValue(message.double_value());
    case AttributeProto::kStringValue:
      return AttributeValue(message.string_value());
    case AttributeProto::kIntsValue: {
      const auto& values = message.ints_value().values();
      return AttributeValue(std::vector<int64_t>(values.begin(), values.end()));
    }
    case AttributeProto::kDtypeValue: {
      ASSIGN_OR_RETURN(const DType dtype, FromProto(message.dtype_value()));
      return AttributeValue(dtype);
    }
    case AttributeProto::VALUE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(absl::StrCat("attribute '", message.name(), "' has no value"));
}

}  // namespace

TypeProto::DType ToProto(DType dtype) { return static_cast<TypeProto::DType>(dtype); }

absl::StatusOr<DType> FromProto(TypeProto::DType dtype) {
  if (TypeProto::DType_IsValid(dtype)) return static_cast<DType>(dtype);
  return absl::InvalidArgumentError(
      absl::StrCat("dtype ", static_cast<int>(dtype), ", which this version does not know"));
}

TypeProto ToProto(const TensorType& type) {
  TypeProto message;
  message.set_dtype(ToProto(type.dtype));
  message.mutable_shape()->Add(type.shape.begin(), type.shape.end());
  return message;
}

absl::StatusOr<TensorType> FromProto(const TypeProto& message) {
  TensorType type;
  ASSIGN_OR_RETURN(type.dtype, FromProto(message.dtype()));
  if (message.shape_size() > kMaxProtoRank) {
    return absl::InvalidArgumentError(absl::StrCat("a tensor of ", message.shape_size(),
                                                   " dimensions; at most ", kMaxProtoRank,
                                                   " are possible"));
  }
  // Other dimensions are checked even if one is 0.
  int64_t remaining = kMaxProtoBytes / SizeOf(type.dtype);
  for (const int64_t size : message.shape()) {
    if (size < 0 || size > remaining) {
      return absl::InvalidArgumentError(absl::StrCat("a tensor with a dimension of ", size,
                                                     " elements, or of more than 2^50 bytes"));
    }
    if (size > 0) remaining /= size;
    type.shape.push_back(size);
  }
  return type;
}

google::protobuf::RepeatedPtrField<AttributeProto> ToProto(const Attributes& attributes) {
  google::protobuf::RepeatedPtrField<AttributeProto> messages;
  for (const auto& [name, value] : attributes.entries()) {
    AttributeProto& message = *messages.Add();
    message.set_name(name);
    std::visit(SetValue{message}, value);
  }
  return messages;
}

absl::StatusOr<Attributes> FromProto(
    const google::protobuf::RepeatedPtrField<AttributeProto>& messages) {
  Attributes attributes;
  for (const AttributeProto& message : messages) {
    ASSIGN_OR_RETURN(AttributeValue value, ValueOf(message));
    attributes.Set(message.name(), std::move(value));
  }
  return attributes;
}

}  // namespace tessera
