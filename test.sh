#!/usr/bin/env bash
# Everything that must pass before a change goes in: format, lints, tests, documentation, benchmarks.
#
# Works from a clean checkout on Debian 12 with a Rust toolchain. What is missing is installed: a linker, and chromium,
# node and npm, which look at reports and the live page, and python3 from Debian; the components named in rust-toolchain.toml by rustup;
# playwright-core, which drives the browser, by npm, pinned by its lock file and without running its scripts; and schemathesis,
# which asks the daemon what its document allows and does not, by pip, into a folder of its own.
set -euo pipefail
cd "$(dirname "$0")"

step() { printf '\n==> %s\n' "$*" >&2; }

cores=$(nproc 2>/dev/null || echo 2)
# Tests simulate whole clusters, so more of them at a time than there are cores only makes them slower.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$cores}"
export CARGO_BUILD_JOBS="${CARGO_BUILD_JOBS:-$cores}"
export CARGO_TERM_COLOR="${CARGO_TERM_COLOR:-never}"
export CARGO_INCREMENTAL="${CARGO_INCREMENTAL:-0}"

if ! command -v cargo >/dev/null && [ -f "$HOME/.cargo/env" ]; then
    # shellcheck disable=SC1091
    . "$HOME/.cargo/env"
fi
if ! command -v cargo >/dev/null; then
    echo "test.sh: cargo was not found; install a Rust toolchain first" >&2
    exit 1
fi

step "prepare: linker, browser and toolchain"
wanted=()
command -v cc >/dev/null || wanted+=(gcc libc6-dev)
command -v chromium >/dev/null || command -v google-chrome >/dev/null || wanted+=(chromium)
command -v node >/dev/null || wanted+=(nodejs)
command -v npm >/dev/null || wanted+=(npm)
command -v python3 >/dev/null || wanted+=(python3)
python3 -c 'import ensurepip, venv' 2>/dev/null || wanted+=(python3-venv)
if [ "${#wanted[@]}" -gt 0 ]; then
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        echo "test.sh: these are missing: ${wanted[*]}; install them, or run this as root on Debian" >&2
        exit 1
    fi
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${wanted[@]}"
fi
npm ci --prefix crates/app/tests/browser --ignore-scripts --no-audit --no-fund >&2
# With all of it there, a test that skips is a test that fails.
export TRAINYARD_REQUIRE_BROWSER=1
if command -v rustup >/dev/null; then
    for component in rustfmt clippy; do
        rustup component list --installed 2>/dev/null | grep -q "^$component" || rustup component add "$component"
    done
fi
cargo --version >&2

step "format: cargo fmt --check"
cargo fmt --all --check

step "lints: cargo clippy"
cargo clippy --workspace --all-targets --features trainyard/learn --locked -- -D warnings

step "tests: cargo test"
cargo test --workspace --features trainyard/learn --locked

step "tests: the hook for Python"
python3 -m unittest discover -s python/tests

step "tests: the API by its own document"
built="${CARGO_TARGET_DIR:-target}"
[ -x "$built/schemathesis/bin/schemathesis" ] || python3 -m venv "$built/schemathesis"
"$built/schemathesis/bin/pip" install --quiet --disable-pip-version-check -r crates/app/tests/openapi/requirements.txt
crates/app/tests/openapi/run.sh "$built/debug/trainyard" "$built/schemathesis/bin/schemathesis"

step "documentation: cargo doc"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --features trainyard/learn --locked --quiet

step "benchmarks: cargo check --benches"
cargo check --workspace --benches --features trainyard/learn --locked

step "all passed"
