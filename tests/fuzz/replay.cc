// Runs a fuzz target without a fuzzer: on the files of its arguments, and on mutations of them,
// which are the same each time.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "core/status/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr int kMutations = 3000;
// Under a sanitizer, or on a busy machine, fewer mutations fit into this time.
constexpr auto kAtMost = std::chrono::seconds(4);

std::string current;       // the input
std::string current_file;  // the input is saved here if it fails

void SaveCurrent() {
  const int file = open(current_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  (void)!write(file, current.data(), current.size());
  close(file);
}

void Run(std::string input) {
  current = std::move(input);
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(current.data()), current.size());
}

std::string Mutated(std::string input, const std::vector<std::string>& corpus,
                    std::mt19937_64& random) {
  constexpr unsigned char kBytes[] = {0, 1, 2, 4, 8, 16, 32, 64, 127, 128, 192, 255};
  const auto below = [&random](size_t end) { return end == 0 ? 0 : random() % end; };
  for (size_t changes = 1 + below(4); changes > 0; --changes) {
    const size_t at = below(input.size());
    const char byte = static_cast<char>(kBytes[below(std::size(kBytes))]);
    switch (below(input.empty() ? 1 : 6)) {
      case 0:
        input.insert(at, 1 + below(4), byte);
        break;
      case 1:
        input.erase(at, 1 + below(4));
        break;
      case 2:
        input[at] = byte;
        break;
      case 3:
        input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
        break;
      case 4:
        input.resize(at);
        break;
      default: {
        const std::string& other = corpus[below(corpus.size())];
        input.insert(at, other, below(other.size() + 1), below(80));
      }
    }
  }
  return input;
}

}  // namespace

// Called by a sanitizer before it ends the process.
extern "C" void __asan_on_error() { SaveCurrent(); }  // NOLINT(bugprone-reserved-identifier)

int main(int argc, char** argv) {
  const char* const outputs = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR");
  current_file = std::string(outputs == nullptr ? "." : outputs) + "/failing_input";
  for (int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM}) {
    // A sanitizer's own handler prints its report, so it is not replaced.
    struct sigaction action = {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_DFL) continue;
    action.sa_handler = [](int number) {
      SaveCurrent();
      raise(number);
    };
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
    sigaction(signal, &action, nullptr);
  }
  std::vector<std::string> corpus = {""};
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    TESSERA_CHECK(file.good()) << argv[i];
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  for (const std::string& input : corpus) {
    alarm(20);
    Run(input);
  }
  std::mt19937_64 random(1);
  const auto end = std::chrono::steady_clock::now() + kAtMost;
  int mutations = 0;
  for (; mutations < kMutations && std::chrono::steady_clock::now() < end; ++mutations) {
    alarm(20);
    Run(Mutated(corpus[random() % corpus.size()], corpus, random));
  }
  std::printf("%zu inputs and %d mutations\n", corpus.size(), mutations);
  return 0;
}
