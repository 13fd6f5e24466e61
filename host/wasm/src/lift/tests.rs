//! Values of every type, through schemas, conversion and a real component.

mod agreement;
mod bytes;
mod calls;
mod listing;

use super::testkit::{CompiledFixture, PAD, build, echoes};

/// Types under test, with the name of the function that echoes each.
const TYPES: &[(&str, &str)] = &[
    ("bool", "bool"),
    ("s8", "s8"),
    ("u8", "u8"),
    ("s16", "s16"),
    ("u16", "u16"),
    ("s32", "s32"),
    ("u32", "u32"),
    ("s64", "s64"),
    ("u64", "u64"),
    ("f32", "f32"),
    ("f64", "f64"),
    ("char", "char"),
    ("string", "string"),
    ("bytes", "list<u8>"),
    ("alias-bytes", "blob"),
    ("numbers", "list<s64>"),
    ("deep-list", "list<list<list<u8>>>"),
    ("fixed", "list<u16, 3>"),
    ("fixed-bytes", "list<u8, 4>"),
    ("pair", "tuple<u8, string>"),
    ("one", "tuple<char>"),
    ("point", "point"),
    ("line", "line"),
    ("alias", "place"),
    ("shape", "shape"),
    ("color", "color"),
    ("access", "access"),
    ("maybe", "option<u32>"),
    ("maybe-maybe", "option<option<string>>"),
    ("maybe-thrice", "option<option<option<bool>>>"),
    ("maybe-list", "option<list<option<u8>>>"),
    ("unit-result", "result"),
    ("ok-result", "result<u8>"),
    ("err-result", "result<_, string>"),
    ("full-result", "result<point, color>"),
    ("option-result", "result<option<u8>, option<option<u8>>>"),
    ("options", "options"),
    ("dictionary", "map<string, point>"),
    ("numbered", "map<u32, list<u8>>"),
];

/// A component with a function `echo-…` for each type. Each takes the value and a pad, and returns both.
fn echo() -> CompiledFixture {
    let functions: String = TYPES
        .iter()
        .map(|(name, ty)| {
            format!("echo-{name}: func(value: {ty}, pad: pad) -> tuple<{ty}, pad>;\n")
        })
        .collect();
    let wit = format!(
        "package t:t@1.0.0;
        interface api {{
            type pad = {PAD};
            type byte = u8;
            type blob = list<byte>;
            record point {{ x: s32, %y-axis: option<f64> }}
            type place = point;
            record line {{ start: point, end: point, through: list<place> }}
            variant shape {{ nothing, circle(f32), label(option<string>), corner(point), parts(list<point>) }}
            enum color {{ red, dark-green, %string }}
            flags access {{ read, write, run-it }}
            record options {{ a: option<option<u8>>, b: option<list<u8>>, c: option<point>, d: access }}
            {functions}
        }}
        world w {{ export api; }}"
    );
    let names: Vec<String> = TYPES
        .iter()
        .map(|(name, _)| format!("t:t/api@1.0.0#echo-{name}"))
        .collect();
    CompiledFixture::new(&build(&wit, &echoes(names.iter().map(String::as_str))))
}
