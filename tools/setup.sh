#!/bin/sh
# Makes sure that the Debian packages of a job are there: installs what is missing when it may, otherwise
# prints the one command to type and exits 1.
#
# usage: setup.sh [build|bench|lint]
set -eu
cd "$(dirname "$0")/.."

job=${1:-build}
packages='g++ cmake ninja-build ccache libfmt-dev libyaml-cpp-dev nlohmann-json3-dev libcli11-dev libpcre2-dev libgtest-dev python3'
case $job in
  build) ;;
  bench) packages="$packages libbenchmark-dev" ;;
  lint) packages="$packages clang-format-14 clang-tidy-14" ;;
  *) echo "setup.sh: unknown job '$job'; allowed: build, bench, lint" >&2; exit 2 ;;
esac

# What a package gives: a command, or a header for libraries. Looking for these instead of asking dpkg lets
# other distributions and self-built tools pass.
present() {
  case $1 in
    ninja-build) command -v ninja ;;
    libfmt-dev) header fmt/core.h ;;
    libyaml-cpp-dev) header yaml-cpp/yaml.h ;;
    nlohmann-json3-dev) header nlohmann/json.hpp ;;
    libcli11-dev) header CLI/CLI.hpp ;;
    libpcre2-dev) header pcre2.h ;;
    libgtest-dev) header gtest/gtest.h ;;
    libbenchmark-dev) header benchmark/benchmark.h ;;
    *) command -v "$1" ;;
  esac >/dev/null
}
header() { [ -e "/usr/include/$1" ] || [ -e "/usr/local/include/$1" ]; }

missing=
for package in $packages; do
  present "$package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
  echo "setup.sh: not found:$missing (Debian's names); install them, or run make SETUP=true to go on without" >&2
  exit 1
fi

if [ "$(id -u)" = 0 ]; then
  as_root=
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
  as_root='sudo -n'
else
  echo "setup.sh: packages are missing; type this, then try again:" >&2
  echo "  sudo apt-get update && sudo apt-get install -y$missing" >&2
  exit 1
fi

# The first attempt serves machines whose package lists are fresh; a bare container has none.
echo "setup.sh: installing$missing" >&2
install_missing() {
  # shellcheck disable=SC2086  # the lists are words on purpose
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing </dev/null
}
install_missing >/dev/null 2>&1 || { $as_root apt-get update -q </dev/null && install_missing; } >&2 || {
  echo "setup.sh: apt-get failed, see above; to try by hand: apt-get update && apt-get install -y$missing" >&2
  exit 1
}
