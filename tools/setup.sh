#!/usr/bin/env bash
# Installs what is missing on Debian 12; does nothing when nothing is missing.
set -euo pipefail

packages=(
  # MLIR 22: libraries, mlir-opt and mlir-tblgen, lit and FileCheck, headers for the bindings.
  libmlir-22-dev mlir-22-tools llvm-22-dev llvm-22-tools libclang-22-dev libpolly-22-dev
  # What LLVM's static libraries link.
  libzstd-dev zlib1g-dev libxml2-dev libz3-dev
  # C++ of the dialects, and the language of lit.
  g++ make python3
)

fail() {
  echo "setup: $1" >&2
  exit 1
}

rust=1.95
command -v cargo > /dev/null && command -v rustc > /dev/null ||
  fail "cargo and rustc are not in PATH; install Rust $rust or newer with rustup, then run this again"
version=$(rustc --version | cut -d ' ' -f 2)
printf '%s\n%s\n' "$rust" "$version" | sort -V -C ||
  fail "rustc is $version, $rust or newer is needed; rustup update installs it"

command -v dpkg-query > /dev/null || fail "this is not Debian; install the equivalents of: ${packages[*]}"
missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2> /dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done

if [ ${#missing[@]} -gt 0 ]; then
  install=(apt-get install -y --no-install-recommends "${missing[@]}")
  [ "$(id -u)" = 0 ] || fail "not root, and packages are missing; as root: apt-get update && ${install[*]}"
  export DEBIAN_FRONTEND=noninteractive
  echo "setup: installing ${missing[*]}"
  apt-get update -q < /dev/null
  "${install[@]}" -q < /dev/null ||
    fail "apt-get could not install the packages; MLIR 22 is in Debian 12's security updates, which must be enabled"
fi
echo "setup: all ${#packages[@]} packages installed, rustc $version"
