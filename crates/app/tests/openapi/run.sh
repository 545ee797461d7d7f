#!/usr/bin/env bash
# Fuzzes a real daemon by its own OpenAPI document, with schemathesis: whatever is asked is answered in time, as the document
# says, and never by a fault of the program.
#
# Usage: run.sh TRAINYARD SCHEMATHESIS. It leaves what it saw in target/tmp/openapi. The stream of events is left out, because it
# does not end; `live.rs` follows it.
set -euo pipefail
trainyard=$(realpath "$1")
schemathesis=$(realpath --no-symlinks "$2")
place=$(realpath "$(dirname "$0")/../../../..")/target/tmp/openapi
rm -rf "$place"
mkdir -p "$place"
cd "$place"

"$trainyard" serve --listen 127.0.0.1:0 --cluster 2x4:cpu --folder live 2>serve.log &
daemon=$!
# Its jobs are told to stop, and what does not is killed with their keepers.
finish() {
    export TRAINYARD_FOLDER="$place/live"
    "$trainyard" jobs --state active --output json | python3 -c 'import json, sys; print(*[job["id"] for job in json.load(sys.stdin)])' |
        xargs --no-run-if-empty "$trainyard" cancel >/dev/null || true
    kill "$daemon" || true
    wait "$daemon" || true
}
trap finish EXIT
for _ in $(seq 300); do
    [ -s live/address ] && [ -s live/admin-token ] && break
    sleep 0.1
done
url=$(cat live/address)
token=$(cat live/admin-token)

# What the document cannot say is not checked: which names of policies and tenants there are, and that a job which was taken back
# can still be looked at.
fuzz() {
    local name=$1 bearer=$2
    shift 2
    timeout 300 "$schemathesis" run "$url/openapi.json" --header "Authorization: Bearer $bearer" --seed 1 --max-examples 40 \
        --request-timeout 10 --continue-on-failure --no-color --exclude-checks positive_data_acceptance,use_after_free "$@" \
        >"$name.log" 2>&1 || {
        cat "$name.log" >&2
        echo "the API did not pass; what was asked is in $place/$name.log" >&2
        exit 1
    }
    if grep -i 'unresolvable reference' "$name.log" >&2; then exit 1; fi
    grep -E '^ +[0-9]+ generated' "$name.log" >&2
}

fuzz all "$token" --exclude-path /v1/events --exclude-path /v1/drain --exclude-path /v1/progress
# A job that says its token.
printf '%s' '{"command": ["sh", "-c", "printf %s $TRAINYARD_TOKEN > .token; mv .token token; exec sleep 600"], "name": "sender"}' >job.json
TRAINYARD_FOLDER=live "$trainyard" submit job.json >/dev/null
for _ in $(seq 300); do
    of_job=$(cat live/jobs/*/work/token 2>/dev/null) && break
    sleep 0.1
done
fuzz progress "$of_job" --include-path /v1/progress
# When no new work is taken, submitting is answered by 503, which would look like a fault above.
fuzz drain "$token" --include-path /v1/drain
kill -0 "$daemon" || { echo "the daemon did not live through it; see $place/serve.log" >&2; exit 1; }
if grep -i 'panicked' serve.log >&2; then exit 1; fi
