#include "core/program/collective_request.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tessera {

bool HasInput(CollectiveOperation operation) {
  return operation != CollectiveOperation::kBarrier && operation != CollectiveOperation::kReceive;
}

bool HasOutput(CollectiveOperation operation) {
  return operation != CollectiveOperation::kBarrier && operation != CollectiveOperation::kSend;
}

bool Reduces(CollectiveOperation operation) {
  return operation == CollectiveOperation::kAllReduce ||
         operation == CollectiveOperation::kReduceScatter;
}

std::string CollectiveRequest::ToString() const {
  std::string text = std::string(CollectiveOperationName(operation));
  if (operation != CollectiveOperation::kBarrier) {
    absl::StrAppend(&text, " of ", elements, " ", DTypeName(dtype));
  }
  if (Reduces(operation)) absl::StrAppend(&text, " (", ReductionName(reduction), ")");
  absl::StrAppend(&text, " over ", absl::StrJoin(mesh_axes, ", "));
  if (shift != 0) absl::StrAppend(&text, " shift ", shift);
  return text;
}

}  // namespace tessera
