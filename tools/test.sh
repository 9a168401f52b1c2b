#!/usr/bin/env bash
# make test: every check, one summary. Later checks run even when an earlier one fails, except that
# nothing runs when the workspace does not build.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT
summary=()
failed=0

# check NAME COUNTER COMMAND...: runs it; COUNTER makes one line of its output.
check() {
  local name=$1 counter=$2 start=$SECONDS verdict=ok
  shift 2
  echo "== $name"
  "$@" < /dev/null 2>&1 | tee "$log" || verdict=FAILED
  [ $verdict = ok ] || failed=$((failed + 1))
  summary+=("$(printf '%-6s  %-16s %5d s  %s' "$verdict" "$name" $((SECONDS - start)) "$($counter < "$log")")")
  [ $verdict = ok ]
}

none() { :; }
# The last line of tools/docs.py.
last() { tail -n 1; }
# Sums over the lines of cargo test, one an executable; nextest has one line of its own.
tests() {
  sed 's/\x1b\[[0-9;]*m//g' | awk '
    /^test result:/ { passed += $4; failed += $6; ignored += $8 }
    /^ *Summary \[/ { sub(/^[^]]*\] */, ""); print; nextest = 1 }
    END { if (!nextest) print passed + 0 " passed, " failed + 0 " failed, " ignored + 0 " ignored" }'
}

for component in fmt clippy; do
  cargo $component --version > /dev/null 2>&1 || {
    echo "cargo $component is missing; rustup component add rustfmt clippy installs it" >&2
    exit 1
  }
done

check format none cargo fmt --all --check
check clippy none cargo clippy --locked --workspace --all-targets -- -D warnings
# The lit tests and the documentation run the tools from the target folder.
if check build none cargo build --locked --workspace --all-targets; then
  if cargo nextest --version > /dev/null 2>&1; then
    check tests tests cargo nextest run --locked --workspace --no-fail-fast --status-level fail
    check doctests tests cargo test --locked --workspace --doc --no-fail-fast
  else
    check tests tests cargo test --locked --workspace --no-fail-fast
  fi
  check reference last tools/docs.py reference
  check commands last tools/docs.py run
fi

echo
printf '%s\n' "${summary[@]}"
if [ $failed -gt 0 ]; then
  echo "make test: $failed of ${#summary[@]} checks failed after $SECONDS s"
  exit 1
fi
echo "make test: all ${#summary[@]} checks passed in $SECONDS s"
