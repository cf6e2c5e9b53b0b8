// Reads elements of a dataset, for tests.
#ifndef TESSERA_CORE_TRAIN_DATA_TESTING_READ_ROWS_H_
#define TESSERA_CORE_TRAIN_DATA_TESTING_READ_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/train/data/dataset.h"
#include "gtest/gtest.h"

namespace tessera {

// Reads a box of a field whose elements are of type T.
template <typename T = int32_t>
absl::StatusOr<std::vector<T>> ReadElements(const Dataset& dataset, DataSplit split, size_t field,
                                            const Box& box) {
  std::vector<T> elements(NumElements(box.extent));
  const absl::Status status = dataset.Read(
      split, field, box,
      absl::MakeSpan(reinterpret_cast<char*>(elements.data()), elements.size() * sizeof(T)));
  if (!status.ok()) return status;
  return elements;
}

// Rows of a dataset whose fields are tokens and targets.
struct TokenRows {
  std::vector<int32_t> tokens, targets;
};

inline TokenRows ReadTokens(const Dataset& dataset, DataSplit split, const Box& box) {
  TokenRows rows;
  for (const size_t field : {0, 1}) {
    auto elements = ReadElements(dataset, split, field, box);
    EXPECT_TRUE(elements.ok()) << elements.status();
    if (elements.ok()) (field == 0 ? rows.tokens : rows.targets) = *std::move(elements);
  }
  return rows;
}

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_DATA_TESTING_READ_ROWS_H_
