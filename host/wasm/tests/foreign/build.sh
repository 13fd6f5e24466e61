#!/bin/sh
# Builds the components of other projects for the table of the test `foreign` into the folder $1.
# Needs node with npm; a package that is missing is installed below $1. Afterwards:
#   MIMIR_FOREIGN_COMPONENTS=$1 cargo test -p mimir-wasm --test foreign
set -eu
out=$1
here=$(cd "$(dirname "$0")" && pwd)
wit=$here/../../../../wit
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$out"
[ -d node_modules/componentize-qjs ] || npm install --no-audit --no-fund componentize-qjs@0.4.5
PATH=$out/node_modules/.bin:$PATH
componentize-qjs --wit "$wit" --js "$here/sources/toolset.js" -n tool -o qjs_toolset.wasm
