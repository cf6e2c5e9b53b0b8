#include "collectives/rendezvous/field_count.h"

#include "core/status/status_macros.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"

namespace tessera::comm {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr int kMaxDepth = 8;  // messages of the rendezvous have 2

absl::Status Malformed() { return absl::InvalidArgumentError("a malformed message"); }

// Counts the fields from the stream's position to its limit.
absl::Status CountFields(CodedInputStream& stream, const Descriptor& type, int depth,
                         int64_t* fields_left) {
  if (depth > kMaxDepth) return Malformed();
  while (const uint32_t tag = stream.ReadTag()) {
    if (--*fields_left < 0) return absl::InvalidArgumentError("a message of too many fields");
    const auto wire_type = WireFormatLite::GetTagWireType(tag);
    const FieldDescriptor* field = type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    if (wire_type == WireFormatLite::WIRETYPE_START_GROUP ||
        wire_type == WireFormatLite::WIRETYPE_END_GROUP) {
      return Malformed();  // proto3 has none
    }
    if (wire_type == WireFormatLite::WIRETYPE_LENGTH_DELIMITED && field != nullptr &&
        field->type() == FieldDescriptor::TYPE_MESSAGE) {
      const CodedInputStream::Limit limit = stream.ReadLengthAndPushLimit();
      RETURN_IF_ERROR(CountFields(stream, *field->message_type(), depth + 1, fields_left));
      if (!stream.CheckEntireMessageConsumedAndPopLimit(limit)) return Malformed();
    } else if (!WireFormatLite::SkipField(&stream, tag)) {
      return Malformed();
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckFieldCount(absl::string_view message, const Descriptor& type,
                             int64_t max_fields) {
  CodedInputStream stream(reinterpret_cast<const uint8_t*>(message.data()),
                          static_cast<int>(message.size()));
  RETURN_IF_ERROR(CountFields(stream, type, /*depth=*/0, &max_fields));
  return stream.ConsumedEntireMessage() ? absl::OkStatus() : Malformed();
}

}  // namespace tessera::comm
