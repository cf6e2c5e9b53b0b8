#include "tests/train/picture_runs.h"

#include <cstdint>

#include "core/train/data/testing/idx_files.h"
#include "tests/train/program.h"

namespace tessera {
namespace {

constexpr uint32_t kSide = 6, kClasses = 10;

void WritePictures(const std::string& folder, const std::string& name, uint32_t count) {
  std::string pixels, labels;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t label = i * 7 % kClasses;
    labels += static_cast<char>(label);
    for (uint32_t j = 0; j < kSide * kSide; ++j) {
      const uint32_t noise = (i * 31 + j * j * 17) % 60;
      pixels += static_cast<char>((j % kClasses == label ? 180 : 0) + noise);
    }
  }
  WriteFile(folder + "/" + name + "-images-idx3-ubyte",
            IdxContents({count, kSide, kSide}, pixels));
  WriteFile(folder + "/" + name + "-labels-idx1-ubyte", IdxContents({count}, labels));
}

}  // namespace

std::string PictureFolder() {
  std::string folder = NewFolder();
  WritePictures(folder, "train", 24);
  WritePictures(folder, "t10k", 25);
  return folder;
}

std::vector<std::string> TinyPictures(const std::string& folder,
                                      const std::vector<std::string>& more) {
  std::vector<std::string> flags = {
      "--set=model.height=6,model.width=6,model.layers=[4;0],model.hidden=[8],model.dropout=0",
      "--set=optimizer.schedule=constant,optimizer.warmup_steps=0",
      "--lr=0.01",
      "--batch=12",
      "--threads=1",
      "--kernels=default",
      "--save_every=0",
      "--eval_every=0",
      "--data=" + folder};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

}  // namespace tessera
