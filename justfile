# The usual commands. `just` without arguments lists them.

default:
    @just --list

# Format and lints, the fast part of what must pass.
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --locked -- -D warnings

# All tests, or those whose name contains a word.
test *word:
    cargo test --workspace --locked {{ word }}

# Write the expected texts of the scenarios and of the reviewed runs anew; read the change as a diff.
scenarios:
    UPDATE_SCENARIOS=1 cargo test -p trainyard-sim --test scenarios --locked
    UPDATE_GOLDEN=1 cargo test -p trainyard-sim --test replay --locked
    git diff --stat -- crates/sim/tests

# The pages made from the program's tables, and the documentation of the code.
docs:
    cargo run --locked -- docs docs
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

# Measure.
bench *word:
    cargo bench --workspace --locked {{ word }}

# Compare all policies on a generated day.
demo:
    cargo run --release --locked

# Licences and banned packages; needs cargo-deny.
deny:
    cargo deny check licenses bans sources

# Exactly what continuous integration runs.
ci:
    ./.ci/run
