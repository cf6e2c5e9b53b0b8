#include "core/train/ranks/ranks.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "collectives/rendezvous/rendezvous.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// The payload that marks an error as agreed.
constexpr char kAgreed[] = "tessera/agreed";

// A status as text: "" if it is OK, else the code's character and the message.
std::string ToText(const absl::Status& status) {
  if (status.ok()) return "";
  const char code = static_cast<char>('a' + static_cast<int>(status.code()));
  return absl::StrCat(absl::string_view(&code, 1), status.message());
}

absl::StatusCode CodeOf(const std::string& text) {
  return static_cast<absl::StatusCode>(text[0] - 'a');
}

}  // namespace

absl::StatusOr<std::unique_ptr<Ranks>> Ranks::Create(comm::World* world) {
  auto ranks = std::make_unique<Ranks>();
  if (world->size() == 1) return ranks;
  ranks->world_ = world;
  const std::vector<int> together(world->size(), 0);
  comm::Communicator& all = world->cpu_communicator();
  ASSIGN_OR_RETURN(ranks->agreement_, all.Split("agreement", together, comm::Contents::kControl));
  ranks->agreement_->set_grace_period(std::numeric_limits<double>::infinity());
  ASSIGN_OR_RETURN(ranks->steps_, all.Split("steps", together, comm::Contents::kControl));
  return ranks;
}

absl::Status Ranks::Barrier() {
  return agreement_ == nullptr ? absl::OkStatus() : agreement_->Wait(agreement_->Barrier());
}

absl::StatusOr<std::vector<std::string>> Ranks::AllGather(absl::string_view mine) {
  if (agreement_ == nullptr) return std::vector<std::string>{std::string(mine)};
  const int64_t length = static_cast<int64_t>(mine.size());
  std::vector<int64_t> lengths(size());
  RETURN_IF_ERROR(
      agreement_->Wait(agreement_->AllGather(&length, lengths.data(), size(), 1, DType::kI64)));
  const int64_t part = *std::max_element(lengths.begin(), lengths.end());
  std::vector<std::string> texts(size());
  if (part == 0) return texts;
  std::string padded(mine), all(part * size(), '\0');
  padded.resize(part);
  RETURN_IF_ERROR(agreement_->Wait(
      agreement_->AllGather(padded.data(), all.data(), part * size(), part, DType::kU8)));
  for (int rank = 0; rank < size(); ++rank) texts[rank] = all.substr(rank * part, lengths[rank]);
  return texts;
}

absl::StatusOr<std::string> Ranks::BroadcastFromFirst(
    const std::function<absl::StatusOr<std::string>()>& make) {
  if (agreement_ == nullptr) return make();
  std::string text;
  int64_t header[] = {0, 0};  // the status's code, and the length of the text or the message
  if (is_first()) {
    absl::StatusOr<std::string> made = make();
    header[0] = static_cast<int64_t>(made.status().code());
    text = made.ok() ? *std::move(made) : std::string(made.status().message());
    header[1] = static_cast<int64_t>(text.size());
  }
  RETURN_IF_ERROR(
      agreement_->Wait(agreement_->Broadcast(header, header, 2, DType::kI64, /*root=*/0)));
  text.resize(header[1]);
  if (!text.empty()) {
    RETURN_IF_ERROR(agreement_->Wait(
        agreement_->Broadcast(text.data(), text.data(), header[1], DType::kU8, /*root=*/0)));
  }
  if (header[0] == 0) return text;
  return AgreedError(absl::Status(static_cast<absl::StatusCode>(header[0]), text));
}

absl::Status Ranks::Agree(const absl::Status& mine) {
  if (agreement_ == nullptr) return mine;
  const absl::StatusOr<std::vector<std::string>> texts = AllGather(ToText(mine));
  // A rank that has aborted reports the cause: often it is this error, which it already has.
  if (!texts.ok()) return mine.ok() || IsOfAnotherRank(texts.status()) ? texts.status() : mine;
  const auto failed = [](const std::string& text) { return !text.empty(); };
  const auto first = std::find_if(texts->begin(), texts->end(), failed);
  if (first == texts->end()) return absl::OkStatus();
  std::vector<int> same;
  for (int rank = 0; rank < size(); ++rank) {
    if ((*texts)[rank] == *first) same.push_back(rank);
  }
  const std::string message = first->substr(1);
  if (static_cast<int>(same.size()) == size())
    return AgreedError(absl::Status(CodeOf(*first), message));
  return AgreedError(
      absl::Status(CodeOf(*first), absl::StrCat(comm::FormatRanks(same), ": ", message)));
}

absl::Status Ranks::Max(absl::Span<int64_t> values) {
  if (steps_ == nullptr) return absl::OkStatus();
  return steps_->Wait(steps_->AllReduce(values.data(), values.data(),
                                        static_cast<int64_t>(values.size()), DType::kI64,
                                        Reduction::kMax));
}

absl::StatusOr<Collectives*> Ranks::CollectivesOn(const Mesh& mesh) {
  if (world_ == nullptr) return nullptr;
  ASSIGN_OR_RETURN(std::unique_ptr<MeshCollectives> collectives,
                   MeshCollectives::Create(mesh, &world_->communicator()));
  meshes_.push_back(std::move(collectives));
  return meshes_.back().get();
}

// The barrier never completes, because rank 0 does not enter it: rank 0's abort ends it with an
// error.
void Ranks::WaitForAbortOfFirst() { Barrier().IgnoreError(); }

void Ranks::Abort(const absl::Status& why) {
  if (world_ == nullptr) return;
  // Rank 0 reports an agreed error. It must not learn of another rank's abort before it has the
  // error itself, so its abort comes first.
  if (IsAgreed(why) && !is_first()) WaitForAbortOfFirst();
  for (const auto& mesh : meshes_) mesh->Abort(why);
  agreement_->Abort(why);
  steps_->Abort(why);
  world_->communicator().Abort(why);
  if (&world_->cpu_communicator() != &world_->communicator()) {
    world_->cpu_communicator().Abort(why);
  }
}

absl::Status AgreedError(const absl::Status& error) {
  absl::Status agreed = error;
  agreed.SetPayload(kAgreed, absl::Cord());
  return agreed;
}

bool IsAgreed(const absl::Status& error) { return error.GetPayload(kAgreed).has_value(); }

// The communicators return this code, and no other, if a peer has aborted.
bool IsOfAnotherRank(const absl::Status& error) { return absl::IsAborted(error); }

}  // namespace tessera
