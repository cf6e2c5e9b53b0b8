#include "core/train/data/synthetic_dataset.h"

#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/status/status_macros.h"
#include "core/tensor/convert.h"
#include "core/tensor/element_type.h"
#include "core/train/checkpoint/state_shard.h"

namespace tessera {
namespace {

// Returns the number of values that words of 32 bits are scaled to, at most: those of the dtype.
int64_t MostValues(DType dtype) {
  if (dtype == DType::kU8) return 256;
  return dtype == DType::kI32 ? int64_t{std::numeric_limits<int32_t>::max()} : int64_t{1} << 32;
}

// Writes the elements of a box.
template <typename T>
void Draw(const BatchField& field, const RandomStream& stream, const Box& box, T* out) {
  // Rows are counted from the first one of the box.
  Shape global = field.type.shape;
  global.insert(global.begin(), box.extent[0]);
  Box drawn = box;
  drawn.start[0] = 0;
  const auto scaled = [&field](uint64_t word) {
    if (IsFloating(field.type.dtype)) return Convert<T>(static_cast<double>(word) * 0x1p-32);
    return Convert<T>(static_cast<int64_t>((word * static_cast<uint64_t>(field.limit)) >> 32));
  };
  SharedRuns runs((StateShard(drawn)), FullShard(global));
  while (const std::optional<SharedRun> run = runs.Next()) {
    int64_t row = run->second / field.elements(), element = run->second % field.elements();
    PhiloxBlock block = RandomBlock(stream, box.start[0] + row, element / 4);
    for (int64_t i = 0; i < run->count; ++i) {
      *out++ = scaled(block[element % 4]);
      if (++element == field.elements()) ++row, element = 0;
      if (element % 4 == 0) block = RandomBlock(stream, box.start[0] + row, element / 4);
    }
  }
}

}  // namespace

SyntheticDataset::SyntheticDataset(std::vector<BatchField> fields, int64_t evaluation_rows,
                                   uint64_t seed)
    : fields_(std::move(fields)), evaluation_rows_(evaluation_rows) {
  for (const BatchField& field : fields_) {
    training_.push_back(MakeStream(seed, absl::StrCat("data.synthetic.train.", field.name)));
    evaluation_.push_back(MakeStream(seed, absl::StrCat("data.synthetic.evaluate.", field.name)));
  }
}

absl::StatusOr<std::unique_ptr<SyntheticDataset>> SyntheticDataset::Create(
    std::vector<BatchField> fields, int64_t evaluation_rows, uint64_t seed) {
  for (BatchField& field : fields) {
    field.limited_by.clear();
    if (IsFloating(field.type.dtype)) continue;
    const int64_t most = MostValues(field.type.dtype);
    if (field.limit == 0 && field.type.dtype == DType::kU8) field.limit = most;
    if (field.limit >= 1 && field.limit <= most) continue;
    return absl::InvalidArgumentError(absl::StrCat("cannot draw ", field.name, " from ",
                                                   field.limit, " values: 1 to ", most,
                                                   " would be right"));
  }
  return std::unique_ptr<SyntheticDataset>(
      new SyntheticDataset(std::move(fields), evaluation_rows, seed));
}

std::string SyntheticDataset::Fingerprint() const {
  const auto text = [](std::string* out, const BatchField& field) {
    absl::StrAppend(out, field.name);
    if (field.limit > 0) absl::StrAppend(out, " below ", field.limit);
  };
  return absl::StrCat("random ", absl::StrJoin(fields_, ", ", text));
}

absl::Status SyntheticDataset::Read(DataSplit split, size_t field, const Box& box,
                                    absl::Span<char> bytes) const {
  RETURN_IF_ERROR(CheckRead(split, field, box, bytes));
  if (bytes.empty()) return absl::OkStatus();
  const BatchField& read = fields_[field];
  const RandomStream stream = (split == DataSplit::kTrain ? training_ : evaluation_)[field];
  WithElementType(read.type.dtype, [&](auto element) {
    Draw(read, stream, box, reinterpret_cast<decltype(element)*>(bytes.data()));
  });
  return absl::OkStatus();
}

}  // namespace tessera
