# The packages of Debian or Ubuntu that the build needs, and how to install them. Sourced by bazelw,
# .ci/run and other scripts.

# Each line is a file that a package installs, and the package. Looking for files takes a millisecond;
# asking apt takes a second.
readonly BUILD_PACKAGES=(
  "/usr/bin/g++ g++"
  "/usr/bin/protoc protobuf-compiler"
  "/usr/bin/bible bible-kjv"
  "/usr/include/absl/base/config.h libabsl-dev"
  "/usr/include/google/protobuf/any.proto libprotobuf-dev"
  "/usr/include/gtest/gtest.h libgtest-dev"
  "/usr/include/gmock/gmock.h libgmock-dev"
  "/usr/include/benchmark/benchmark.h libbenchmark-dev"
  "/usr/include/dnnl_version.h libdnnl-dev"
  "/usr/include/hwy/highway.h libhwy-dev"
  "/usr/include/nlohmann/json.hpp nlohmann-json3-dev"
  "/usr/include/xxhash.h libxxhash-dev"
  "/usr/include/utf8.h libutfcpp-dev"
  "/usr/include/openssl/opensslv.h libssl-dev"
  "/usr/include/gperftools/tcmalloc.h libgoogle-perftools-dev"
  "/usr/include/libelf.h libelf-dev"
  "/usr/include/zlib.h zlib1g-dev"
)
# Data sets to train on. Nothing is built from them: if they cannot be installed, bazelw goes on.
readonly DATA_PACKAGES=(
  "/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz dataset-fashion-mnist"
)
# Debian's own Bazel, used if there is no other, and the rules that it would otherwise download.
readonly BAZEL_PACKAGES=(
  "/usr/bin/bazel-4 bazel-bootstrap"
  "/usr/share/bazel/tools/platforms/WORKSPACE bazel-platforms"
  "/usr/share/bazel/tools/skylib/WORKSPACE bazel-skylib"
  "/usr/share/bazel/rules/java/WORKSPACE bazel-rules-java"
)
# The libraries that tests/rivals compares with.
readonly RIVAL_PACKAGES=(
  "/usr/include/gloo/config.h libgloo-dev"
  "/usr/bin/mpirun openmpi-bin"
  "/usr/include/$(uname -m)-linux-gnu/mpi/mpi.h libopenmpi-dev"
)
readonly LINT_PACKAGES=(
  "/usr/bin/clang-format clang-format"
  "/usr/bin/clang-tidy clang-tidy"
  "/usr/bin/clang++-14 clang-14"
  "/usr/bin/git git"
)
readonly FUZZ_PACKAGES=(
  "/usr/bin/clang-14 clang-14"
  "/usr/lib/clang/14/lib/linux libclang-rt-14-dev"
  "/usr/bin/llvm-symbolizer llvm"
)

# missing_packages LINE...: prints the packages of those "FILE PACKAGE" lines whose file is missing.
missing_packages() {
  local line
  for line in "$@"; do
    [[ -e ${line% *} ]] || echo "${line#* }"
  done
}

# install_packages WHY PACKAGE...: installs the packages if it may, or prints the command and fails.
install_packages() {
  local why=$1 as_root=()
  shift
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=600)
  if [[ ! -x /usr/bin/apt-get ]]; then
    echo "$why needs the libraries of these Debian packages: $*. Please install them." >&2
    return 1
  fi
  if ((EUID != 0)); then as_root=(sudo -n); fi
  if [[ -n ${TESSERA_NO_INSTALL:-} ]] ||
    { ((EUID != 0)) && ! sudo -n true 2>/dev/null; }; then
    echo "$why needs packages that are not installed. Please run:" >&2
    local command="apt-get update && apt-get install -y --no-install-recommends $*"
    if ((EUID == 0)); then echo "  $command" >&2; else echo "  sudo sh -c '$command'" >&2; fi
    return 1
  fi
  echo "$why needs packages that are not installed. Installing them (about half a minute): $*" >&2
  local log
  log=$(mktemp)
  if ! { "${as_root[@]}" "${apt[@]}" update &&
    "${as_root[@]}" "${apt[@]}" install -y --no-install-recommends "$@"; } >"$log" 2>&1 </dev/null; then
    cat "$log" >&2
    return 1
  fi
  rm -f "$log"
}
