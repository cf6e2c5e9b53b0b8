#ifdef TESSERA_CUDA

#include "collectives/nccl/mirrored.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/nccl/comm.h"
#include "collectives/requests.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"

namespace tessera::comm::nccl {
namespace {

constexpr int64_t kEdge = 256;  // bytes before and after a buffer that no operation may write
constexpr char kEdgeByte = 0x3c;

// Memory of the GPU, allocated round robin.
class Ring {
 public:
  Ring(char* memory, int64_t bytes) : memory_(memory), bytes_(bytes) {}

  absl::StatusOr<char*> Take(int64_t bytes) {
    bytes = (bytes + kEdge - 1) / kEdge * kEdge;
    if (memory_ == nullptr) {
      void* data = nullptr;
      RETURN_IF_ERROR(CudaStatus(cudaMalloc(&data, bytes), "no memory"));
      return static_cast<char*>(data);
    }
    TESSERA_CHECK(bytes <= bytes_) << bytes;
    if (next_ + bytes > bytes_) next_ = 0;
    char* const data = memory_ + next_;
    next_ += bytes;
    return data;
  }

  void Return(char* data) {
    if (memory_ == nullptr) cudaFree(data);
  }

 private:
  char* const memory_;
  const int64_t bytes_;
  int64_t next_ = 0;
};

class MirroredGroup : public Communicator {
 public:
  MirroredGroup(std::unique_ptr<Communicator> group, std::shared_ptr<Ring> ring)
      : Communicator(group->name(), group->rank(), group->size()),
        group_(std::move(group)),
        ring_(std::move(ring)) {}

  absl::Status Wait(Ticket ticket) override {
    RETURN_IF_ERROR(group_->Wait(ticket));
    const auto found = copies_.find({ticket.channel, ticket.number});
    if (found == copies_.end()) return absl::OkStatus();
    const Copies copies = std::move(found->second);
    copies_.erase(found);
    for (const Copy& copy : copies.copies) RETURN_IF_ERROR(CopyBack(copies.what, copy));
    return absl::OkStatus();
  }

  bool Test(Ticket ticket) override { return group_->Test(ticket); }
  bool HasEnded(Ticket ticket) const override { return group_->HasEnded(ticket); }
  Exchange SplitExchange() override { return group_->SplitExchange(); }
  CompletionSource* SourceOf(Ticket ticket) override { return group_->SourceOf(ticket); }

 protected:
  Ticket Start(const Request& request, const absl::Status& status) override {
    Request on_gpu = request;
    Copies copies;
    copies.what = Describe(request);
    absl::Status done = status;
    if (done.ok()) done = CopyInputs(&on_gpu, &copies);
    if (!done.ok()) {
      group_->Abort(done);
      return kFailureTicket;
    }
    const Ticket ticket = group_->Issue(on_gpu);
    copies_[{ticket.channel, ticket.number}] = std::move(copies);
    return ticket;
  }

  absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(absl::string_view name,
                                                          absl::Span<const int> colors,
                                                          Contents contents) override {
    ASSIGN_OR_RETURN(std::unique_ptr<Communicator> group, group_->Split(name, colors, contents));
    if (group == nullptr) return nullptr;
    return std::make_unique<MirroredGroup>(std::move(group), ring_);
  }

 private:
  struct Copy {
    char* gpu = nullptr;  // begins with the edge
    const char* from = nullptr;
    char* to = nullptr;  // null: nothing is written
    int64_t bytes = 0;
    int64_t offset = 0, written = 0;  // of the output, within the copy
  };
  struct Copies {
    std::string what;
    std::vector<Copy> copies;
  };

  absl::Status CopyInputs(Request* request, Copies* copies) {
    const int64_t size = SizeOf(request->dtype);
    const int64_t read = InputElements(*request, rank()) * size;
    const int64_t written = OutputElements(*request, rank()) * size;
    const char* const input = static_cast<const char*>(request->input);
    char* const output = static_cast<char*>(request->output);
    const bool in_place =
        read > 0 && written > 0 && input < output + written && output < input + read;
    if (in_place) {
      const char* const begin = std::min<const char*>(input, output);
      const char* const end = std::max<const char*>(input + read, output + written);
      ASSIGN_OR_RETURN(char* const gpu, CopyToGpu({.from = begin,
                                                   .to = output,
                                                   .bytes = end - begin,
                                                   .offset = output - begin,
                                                   .written = written},
                                                  copies));
      request->input = gpu + (input - begin);
      request->output = gpu + (output - begin);
      return absl::OkStatus();
    }
    request->input = request->output = nullptr;
    if (read > 0) {
      ASSIGN_OR_RETURN(request->input, CopyToGpu({.from = input, .bytes = read}, copies));
    }
    if (written > 0) {
      ASSIGN_OR_RETURN(
          request->output,
          CopyToGpu({.from = output, .to = output, .bytes = written, .written = written}, copies));
    }
    return absl::OkStatus();
  }

  // Returns the address of the copy on the GPU.
  absl::StatusOr<char*> CopyToGpu(Copy copy, Copies* copies) {
    ASSIGN_OR_RETURN(copy.gpu, ring_->Take(copy.bytes + 2 * kEdge));
    std::string all(copy.bytes + 2 * kEdge, kEdgeByte);
    std::copy_n(copy.from, copy.bytes, all.data() + kEdge);
    RETURN_IF_ERROR(
        CudaStatus(cudaMemcpy(copy.gpu, all.data(), all.size(), cudaMemcpyDefault), "copy"));
    copies->copies.push_back(copy);
    return copy.gpu + kEdge;
  }

  absl::Status CopyBack(const std::string& what, const Copy& copy) {
    std::string all(copy.bytes + 2 * kEdge, '\0');
    RETURN_IF_ERROR(
        CudaStatus(cudaMemcpy(all.data(), copy.gpu, all.size(), cudaMemcpyDefault), "copy"));
    ring_->Return(copy.gpu);
    const std::string edge(kEdge, kEdgeByte);
    if (all.substr(0, kEdge) != edge || all.substr(kEdge + copy.bytes) != edge) {
      return absl::InternalError(absl::StrCat(what, ": wrote outside its buffers"));
    }
    if (copy.to != nullptr) std::copy_n(all.data() + kEdge + copy.offset, copy.written, copy.to);
    return absl::OkStatus();
  }

  const std::unique_ptr<Communicator> group_;
  const std::shared_ptr<Ring> ring_;
  std::map<std::pair<int, uint64_t>, Copies> copies_;
};

}  // namespace

std::unique_ptr<Communicator> Mirror(std::unique_ptr<Communicator> group, char* memory,
                                     int64_t bytes) {
  return std::make_unique<MirroredGroup>(std::move(group), std::make_shared<Ring>(memory, bytes));
}

}  // namespace tessera::comm::nccl

#endif  // TESSERA_CUDA
