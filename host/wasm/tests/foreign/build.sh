#!/bin/sh
# Builds the components of other projects for the table of the test `foreign` into the folder $1. Afterwards:
#   MIMIR_FOREIGN_COMPONENTS=$1 cargo test --test foreign -- --ignored
#
# Needs cargo with the target wasm32-wasip2, and node with npm. A tool that is missing is installed below $1, and what was
# built before is kept: remove a component to build it again. With a checkout of wassette in $WASSETTE, its examples are
# built as well, which needs python3 with venv.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../../../..
mkdir -p "$1"
out=$(cd "$1" && pwd)
work=$out/work
mkdir -p "$work"

# The toolchain of this repository, which has the target: the sources are built outside of it.
if command -v rustup >/dev/null; then
    RUSTUP_TOOLCHAIN=$(cd "$root" && rustup show active-toolchain | cut -d' ' -f1)
    export RUSTUP_TOOLCHAIN
fi

# The folder of a crate that mimir depends on, downloaded by cargo.
crate() {
    cargo metadata --format-version 1 --locked --manifest-path "$root/Cargo.toml" |
        python3 -c 'import json, os, sys
for package in json.load(sys.stdin)["packages"]:
    if package["name"] == sys.argv[1] and package["version"].startswith(sys.argv[2]):
        print(os.path.dirname(package["manifest_path"]))' "$1" "$2"
}

# A component is built only if it does not exist, and gets its name once it is complete.
is_missing() { [ ! -e "$out/$1" ]; }

finish() { # file, name of the component
    cp "$1" "$out/$2.part"
    mv "$out/$2.part" "$out/$2"
}

rust() { # folder of the crate, file that cargo makes, name of the component
    (cd "$1" && CARGO_TARGET_DIR=$work/target cargo build --quiet --release --target wasm32-wasip2)
    finish "$work/target/wasm32-wasip2/release/$2" "$3"
}

npm_tool() { # program, package with its version and those that it needs
    program=$1
    shift
    [ -x "node_modules/.bin/$program" ] || npm install --silent --no-audit --no-fund --legacy-peer-deps "$@"
}

cd "$work"
PATH=$work/node_modules/.bin:$PATH

# JavaScript.
if is_missing qjs_toolset.wasm; then
    npm_tool componentize-qjs componentize-qjs@0.4.5
    componentize-qjs --wit "$root/wit" --js "$here/sources/toolset.js" -n tool -o toolset.wasm
    finish toolset.wasm qjs_toolset.wasm
fi

# Rust.
if is_missing wasip2_hello_world.wasm || is_missing wasip2_cli_command.wasm || is_missing wasip2_http_proxy.wasm; then
    rm -rf wasip2
    cp -r "$(crate wasip2 1.)" wasip2
    chmod -R u+w wasip2
    for example in hello-world cli-command http-proxy; do
        name=$(echo "$example" | tr - _)
        (cd wasip2 && CARGO_TARGET_DIR=$work/target cargo build --quiet --release --target wasm32-wasip2 --example "$example")
        # A library is named with `_`, a program with `-`.
        built=$work/target/wasm32-wasip2/release/examples
        [ -e "$built/$name.wasm" ] || built_name=$example
        finish "$built/${built_name:-$name}.wasm" "wasip2_$name.wasm"
        unset built_name
    done
fi
if is_missing p3_http.wasm; then
    rm -rf p3_http
    cp -r "$here/sources/p3_http" p3_http
    cp -r "$(crate wasmtime-wasi-http 48.)/src/p3/wit" p3_http/wit
    rust p3_http p3_http.wasm p3_http.wasm
fi

[ -n "${WASSETTE:-}" ] || exit 0
examples=$(cd "$WASSETTE" && pwd)/examples

if is_missing wassette_time.wasm || is_missing wassette_weather.wasm; then
    npm_tool componentize-js @bytecodealliance/componentize-js@0.23.0 @bytecodealliance/preview2-shim@0.17
    componentize-js "$examples/time-server-js/time.js" --wit "$examples/time-server-js/wit" -n time-server -o time.wasm
    finish time.wasm wassette_time.wasm
    componentize-js "$examples/get-weather-js/weather.js" --wit "$examples/get-weather-js/wit" -n weather-mcp \
        -o weather.wasm
    finish weather.wasm wassette_weather.wasm
fi
if is_missing wassette_eval.wasm; then
    [ -d venv ] || python3 -m venv venv
    [ -x venv/bin/componentize-py ] || venv/bin/pip install --quiet componentize-py==0.17.2
    rm -rf eval-py
    cp -r "$examples/eval-py" eval-py
    (cd eval-py && ../venv/bin/componentize-py -d wit -w sandbox componentize main -o ../eval.wasm)
    finish eval.wasm wassette_eval.wasm
fi
if is_missing wassette_filesystem.wasm; then
    rm -rf filesystem-rs
    cp -r "$examples/filesystem-rs" filesystem-rs
    rust filesystem-rs filesystem.wasm wassette_filesystem.wasm
fi
