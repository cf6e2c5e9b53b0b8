// A bound on the memory that parsing a message takes, checked before it is parsed.
//
// Thread safety: a pure function.
#ifndef TESSERA_COLLECTIVES_RENDEZVOUS_FIELD_COUNT_H_
#define TESSERA_COLLECTIVES_RENDEZVOUS_FIELD_COUNT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"

namespace tessera::comm {

// InvalidArgument if a serialized message of type `type` has more than `max_fields` fields, those
// of the messages in it included, or is malformed.
absl::Status CheckFieldCount(absl::string_view message, const google::protobuf::Descriptor& type,
                             int64_t max_fields);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_RENDEZVOUS_FIELD_COUNT_H_
