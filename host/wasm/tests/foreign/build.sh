#!/bin/sh
# Builds the components of other projects for the table of the test `foreign` into the folder $1. Afterwards:
#   MIMIR_FOREIGN_COMPONENTS=$1 cargo test -p mimir-wasm --test foreign
#
# Needs cargo with the target wasm32-wasip2, node with npm, python3 with venv, and git. Sources of wassette come from
# the checkout in $WASSETTE, or are cloned. A tool that is missing is installed below $1.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
work=$out/work
mkdir -p "$work"

wassette=${WASSETTE:-$work/wassette}
[ -d "$wassette" ] || git clone --quiet --depth 1 https://github.com/microsoft/wassette "$wassette"
examples=$wassette/examples

# The folder of a crate that mimir depends on, downloaded by cargo.
crate() {
    cargo metadata --format-version 1 --locked --manifest-path "$here/../../../../Cargo.toml" |
        python3 -c 'import json, os, sys
for package in json.load(sys.stdin)["packages"]:
    if package["name"] == sys.argv[1] and package["version"].startswith(sys.argv[2]):
        print(os.path.dirname(package["manifest_path"]))' "$1" "$2"
}

rust() { # folder of the crate, file that cargo makes, name of the component
    (cd "$1" && CARGO_TARGET_DIR=$work/target cargo build --release --target wasm32-wasip2)
    cp "$work/target/wasm32-wasip2/release/$2" "$out/$3"
}

cd "$work"
[ -d node_modules/componentize-qjs ] ||
    npm install --no-audit --no-fund --legacy-peer-deps componentize-qjs@0.4.5 @bytecodealliance/componentize-js@0.23.0 \
        @bytecodealliance/preview2-shim@0.17
PATH=$work/node_modules/.bin:$PATH
[ -d venv ] || python3 -m venv venv
[ -x venv/bin/componentize-py ] || venv/bin/pip install --quiet componentize-py==0.17.2

# JavaScript, by two engines.
componentize-qjs --wit "$here/../../../../wit" --js "$here/sources/toolset.js" -n tool -o "$out/qjs_toolset.wasm"
componentize-js "$examples/time-server-js/time.js" --wit "$examples/time-server-js/wit" -n time-server \
    -o "$out/wassette_time.wasm"
componentize-js "$examples/get-weather-js/weather.js" --wit "$examples/get-weather-js/wit" -n weather-mcp \
    -o "$out/wassette_weather.wasm"

# Python.
rm -rf eval-py
cp -r "$examples/eval-py" eval-py
(cd eval-py && ../venv/bin/componentize-py -d wit -w sandbox componentize main -o "$out/wassette_eval.wasm")

# Rust.
rm -rf filesystem-rs
cp -r "$examples/filesystem-rs" filesystem-rs
rust filesystem-rs filesystem.wasm wassette_filesystem.wasm
rm -rf wasip2
cp -r "$(crate wasip2 1.)" wasip2
chmod -R u+w wasip2
for example in hello-world cli-command http-proxy; do
    file=$(echo "$example" | tr - _).wasm
    (cd wasip2 && CARGO_TARGET_DIR=$work/target cargo build --release --target wasm32-wasip2 --example "$example")
    cp "$work/target/wasm32-wasip2/release/examples/$file" "$out/wasip2_$file" ||
        cp "$work/target/wasm32-wasip2/release/examples/$example.wasm" "$out/wasip2_$file"
done
rm -rf p3_http
cp -r "$here/sources/p3_http" p3_http
cp -r "$(crate wasmtime-wasi-http 48.)/src/p3/wit" p3_http/wit
rust p3_http p3_http.wasm p3_http.wasm
