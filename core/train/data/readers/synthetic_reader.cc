// Draws random rows of the inputs that a model declares, whatever they are.
#include <utility>

#include "core/model/token_fields.h"
#include "core/train/data/readers/readers.h"
#include "core/train/data/synthetic_dataset.h"
#include "core/train/data/synthetic_tokens.h"

namespace tessera {
namespace {

constexpr char kSynthetic[] = "synthetic";
constexpr int64_t kEvaluationBatches = 8;

// Returns whether rows are tokens and the targets that follow them.
bool AreTokens(const DataRequest& request) {
  const BatchField* const tokens = FindField(request.read, kTokens);
  const BatchField* const targets = FindField(request.read, kTargets);
  const TensorType type = {DType::kI32, {request.sequence}};
  return request.read.size() == 2 && tokens != nullptr && targets != nullptr &&
         tokens->type == type && targets->type == type && tokens->limit == targets->limit;
}

absl::StatusOr<std::unique_ptr<Dataset>> Draw(const DataRequest& request) {
  if (AreTokens(request)) {
    return SyntheticTokens::Create(request.read[0].limit, request.sequence, request.batch,
                                   request.seed);
  }
  return SyntheticDataset::Create(request.read, kEvaluationBatches * request.batch, request.seed);
}

absl::StatusOr<UnreadData> Open(const DataRequest& request) {
  UnreadData data;
  data.read = [request](std::unique_ptr<DataFile> /*file*/, const std::string& /*checked*/) {
    return Draw(request);
  };
  return data;
}

}  // namespace

const Reader& SyntheticReader() {
  static const auto* const reader = new Reader{.name = "synthetic data",
                                               .takes = "synthetic, for random rows",
                                               .names = {kSynthetic},
                                               .open = Open,
                                               .open_to_predict = Draw,
                                               .takes_to_predict = "synthetic, for random rows"};
  return *reader;
}

}  // namespace tessera
