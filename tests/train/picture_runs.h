// Small runs of the training program of networks on pictures, and the files of their data.
#ifndef TESSERA_TESTS_TRAIN_PICTURE_RUNS_H_
#define TESSERA_TESTS_TRAIN_PICTURE_RUNS_H_

#include <string>
#include <vector>

namespace tessera {

// Makes a folder with the files of a data set: 24 pictures of 6 x 6 to train on and 25 to evaluate,
// each of one of ten classes, which its pixels show somewhat.
std::string PictureFolder();

// Returns flags of a network of some hundred parameters on these pictures, in batches of 12, which
// takes four steps; and more flags.
std::vector<std::string> TinyPictures(const std::string& folder,
                                      const std::vector<std::string>& more);

}  // namespace tessera

#endif  // TESSERA_TESTS_TRAIN_PICTURE_RUNS_H_
