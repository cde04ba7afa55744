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

say 'Twenty sentences of a new entity type, as an annotation tool exports them'
run 'head -n 1 examples/devices-train.jsonl'

say 'As CoNLL: a token and its tag a line; what the format cannot keep is said'
run 'hardner convert examples/devices-train.jsonl devices.tsv'
run 'head -n 8 devices.tsv'

say 'As BRAT standoff: nothing is lost'
run 'hardner convert examples/devices-train.jsonl devices/'
run 'head devices/devices-train-1.*'
echo

say 'As BioC, compressed, and back: the same files'
run 'hardner convert devices/ devices.xml.xz'
run 'hardner convert devices.xml.xz again/'
run 'diff -r devices again && echo the same'
