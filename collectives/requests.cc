#include "collectives/requests.h"

#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tessera::comm {

bool IsWish(const Wish& wish) {
  return static_cast<int>(wish.operation) < kOperations &&
         static_cast<size_t>(wish.dtype) < std::size(kAllDTypes) &&
         wish.reduction <= Reduction::kMax && wish.partial <= 1;
}

Wish WishOf(const Request& request) {
  Wish wish;
  wish.operation = request.operation;
  wish.dtype = request.dtype;
  wish.reduction = request.reduction;
  wish.partial = request.partial ? 1 : 0;
  wish.peer = request.peer;
  wish.count = request.count;
  wish.part = request.part;
  return wish;
}

Request RequestOf(const Wish& wish) {
  Request request;
  request.operation = wish.operation;
  request.dtype = wish.dtype;
  request.reduction = wish.reduction;
  request.partial = wish.partial != 0;
  request.peer = wish.peer;
  request.count = wish.count;
  request.part = wish.part;
  return request;
}

absl::Status Disagreement(absl::string_view group, uint64_t number, absl::Span<const int> ranks,
                          absl::Span<const Wish> wishes) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < ranks.size(); ++i) {
    texts.push_back(
        absl::StrCat("rank ", ranks[i], " wants ",
                     IsWish(wishes[i]) ? Describe(RequestOf(wishes[i])) : "what is no operation"));
  }
  const std::string place = number == 0 ? "" : absl::StrCat(" on operation ", number);
  return absl::InvalidArgumentError(absl::StrCat("the ranks of group '", group, "' disagree", place,
                                                 ": ", absl::StrJoin(texts, ", ")));
}

}  // namespace tessera::comm
