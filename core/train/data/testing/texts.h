// Texts to train on, for tests.
#ifndef TESSERA_CORE_TRAIN_DATA_TESTING_TEXTS_H_
#define TESSERA_CORE_TRAIN_DATA_TESTING_TEXTS_H_

#include <cstdint>
#include <fstream>
#include <string>

#include "core/tensor/random.h"
#include "gtest/gtest.h"

namespace tessera {

// Writes a file of this name in the test's folder, and returns its path.
inline std::string WriteText(const std::string& name, const std::string& text) {
  std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

// Returns random bytes from 32 to 126 in which every window of 6 bytes occurs only once.
inline std::string MixedText(int64_t bytes) {
  std::string text;
  const RandomStream stream = MakeStream(5, "text");
  for (int64_t i = 0; i < bytes; ++i) {
    text += static_cast<char>(32 + RandomWord(stream, 0, i) % 95);
  }
  return text;
}

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_DATA_TESTING_TEXTS_H_
