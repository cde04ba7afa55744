#!/bin/sh
# What hardner does, on the example data and in a temporary folder. `make demo` runs it.
set -eu
exec 2>&1
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
ln -s "$here" "$folder/examples"
cd "$folder"

say() { printf '\n# %s\n' "$1"; }
run() { printf '$ %s\n' "$1" && sh -c "$1"; }

say 'The bundled model knows six kinds of mentions'
run 'hardner tag examples/abstract.txt --to text | head -n 3 | cut -c 1-600'

say 'Devices are not among them; here are twenty sentences of an annotation tool, the first of them'
run 'head -n 1 examples/devices-train.jsonl'

say 'Adapt to them, and score the new model on sixty-four others'
run 'hardner adapt examples/devices-train.jsonl --label Device --out device-model --test examples/devices-test.jsonl'

say 'Tag an abstract with it'
run 'hardner tag examples/abstract.txt --model device-model --to text'

say 'What to label next'
run 'hardner suggest examples/abstract.txt --model device-model -n 3 --exclude examples/devices-train.jsonl'
