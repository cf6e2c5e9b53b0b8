// Helpers of tests that kill processes while they save.
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_TESTING_KILL_AT_MOMENTS_H_
#define TESSERA_CORE_TRAIN_CHECKPOINT_TESTING_KILL_AT_MOMENTS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace tessera {

// Forks; the child process runs `body` and ends. The caller must wait for it.
pid_t Child(const std::function<void()>& body);

// Replaces the folder `to` by a copy of `from`. Copying is faster than saving again for each moment
// if the disk is slow.
void Copy(const std::string& from, const std::string& to);

// Expects that the newest complete checkpoint is of one of these steps, and that every folder with
// a checkpoint's name is complete.
void ExpectNewest(const std::string& run, int64_t at_least, int64_t at_most);

// Expects `count` checkpoints and nothing else, as after a save that was not killed.
void ExpectClean(const std::string& run, size_t count);

// Runs `attempt(moment)` in child processes that die before change 0, 1, 2, ... until one
// completes. Returns the number of moments.
int DieAtEveryMoment(const std::function<void()>& prepare, const std::function<void(int)>& attempt,
                     const std::function<void()>& check);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_TESTING_KILL_AT_MOMENTS_H_
