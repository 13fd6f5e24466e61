//! Agreement of the schemas and the conversion.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use wasmtime::component::{Type, Val};

use super::super::testkit::pad;
use super::super::value::{LoweredArgument, byte_values, lower_arguments, raise};
use super::{TYPES, echo};

/// Enough rounds for every case of every type to occur many times.
const ROUNDS: usize = 300;

/// A small deterministic generator: tests must give the same result each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn bits(&mut self) -> u64 {
        let high = self.roll(1 << 31) as u64;
        match self.roll(4) {
            0 => high % 3,
            1 => u64::MAX - high % 3,
            2 => 1 << 63,
            _ => high << 33 | self.roll(1 << 31) as u64,
        }
    }

    fn text(&mut self) -> String {
        const PARTS: &[&str] = &[
            "",
            "a",
            "Grüße",
            "\u{0}",
            "\"\\",
            "😀",
            "line\nline",
            "{}",
            "null",
        ];
        (0..self.roll(4))
            .map(|_| PARTS[self.roll(PARTS.len())])
            .collect()
    }

    /// Returns a random value of the type.
    fn value(&mut self, ty: &Type) -> Val {
        match ty {
            Type::Bool => Val::Bool(self.roll(2) == 0),
            Type::S8 => Val::S8(self.bits() as i8),
            Type::U8 => Val::U8(self.bits() as u8),
            Type::S16 => Val::S16(self.bits() as i16),
            Type::U16 => Val::U16(self.bits() as u16),
            Type::S32 => Val::S32(self.bits() as i32),
            Type::U32 => Val::U32(self.bits() as u32),
            Type::S64 => Val::S64(self.bits() as i64),
            Type::U64 => Val::U64(self.bits()),
            Type::Float32 => Val::Float32(match self.roll(3) {
                0 => [
                    f32::NAN,
                    f32::INFINITY,
                    f32::NEG_INFINITY,
                    f32::MAX,
                    f32::MIN,
                    0.1,
                    -0.0,
                ][self.roll(7)],
                _ => f32::from_bits(self.bits() as u32),
            }),
            Type::Float64 => Val::Float64(match self.roll(3) {
                0 => [
                    f64::NAN,
                    f64::INFINITY,
                    f64::NEG_INFINITY,
                    f64::MAX,
                    f64::MIN,
                    0.1,
                    -0.0,
                ][self.roll(7)],
                _ => f64::from_bits(self.bits()),
            }),
            Type::Char => Val::Char(['a', 'é', '😀', '\0', char::MAX, '"'][self.roll(6)]),
            Type::String => Val::String(self.text()),
            Type::List(list) => {
                Val::List((0..self.roll(5)).map(|_| self.value(&list.ty())).collect())
            }
            Type::FixedLengthList(list) => {
                Val::FixedLengthList((0..list.len()).map(|_| self.value(&list.ty())).collect())
            }
            Type::Tuple(tuple) => Val::Tuple(tuple.types().map(|ty| self.value(&ty)).collect()),
            Type::Record(record) => Val::Record(
                record
                    .fields()
                    .map(|field| (field.name.to_owned(), self.value(&field.ty)))
                    .collect(),
            ),
            Type::Variant(variant) => {
                let at = self.roll(variant.cases().len());
                let case = variant.cases().nth(at).unwrap();
                Val::Variant(
                    case.name.to_owned(),
                    case.ty.map(|ty| Box::new(self.value(&ty))),
                )
            }
            Type::Enum(names) => {
                let at = self.roll(names.names().len());
                Val::Enum(names.names().nth(at).unwrap().to_owned())
            }
            Type::Option(option) => Val::Option(match self.roll(3) {
                0 => None,
                _ => Some(Box::new(self.value(&option.ty()))),
            }),
            Type::Result(result) => Val::Result(match self.roll(2) {
                0 => Ok(result.ok().map(|ty| Box::new(self.value(&ty)))),
                _ => Err(result.err().map(|ty| Box::new(self.value(&ty)))),
            }),
            Type::Flags(flags) => Val::Flags(
                flags
                    .names()
                    .filter(|_| self.roll(2) == 0)
                    .map(str::to_owned)
                    .collect(),
            ),
            // With several entries, the order could change: a JSON object has none.
            Type::Map(map) => {
                let count = self.roll(2);
                let pairs = (0..count).map(|_| (self.value(&map.key()), self.value(&map.value())));
                Val::Map(pairs.collect())
            }
            other => panic!("not under test: {other:?}"),
        }
    }

    /// Damages, or happens not to damage, one position in a document.
    fn damage(&mut self, json: &mut Value) {
        let inside = self.roll(3) > 0;
        match json {
            Value::Array(items) if inside && !items.is_empty() => {
                let at = self.roll(items.len());
                self.damage(&mut items[at]);
            }
            Value::Object(object) if inside && !object.is_empty() => {
                let at = self.roll(object.len());
                self.damage(object.values_mut().nth(at).unwrap());
            }
            Value::Array(items) if self.roll(2) == 0 => match self.roll(3) {
                0 => drop(items.pop()),
                1 => items.extend(items.first().cloned()),
                _ => items.push(json!("red")),
            },
            Value::Object(object) if self.roll(2) == 0 => {
                let keys: Vec<String> = object.keys().cloned().collect();
                match self.roll(3) {
                    0 if !keys.is_empty() => drop(object.remove(&keys[self.roll(keys.len())])),
                    1 => drop(object.insert("value".into(), json!(1))),
                    _ => drop(object.insert("extra".into(), json!(null))),
                }
            }
            place => {
                let others = [
                    json!(null),
                    json!(true),
                    json!(0),
                    json!(-1),
                    json!(256),
                    json!(1.5),
                    json!(2.0),
                    json!(70000),
                    json!(u64::MAX),
                    json!(i64::MIN),
                    json!("abcd"),
                    json!("é"),
                    json!("NaN"),
                    json!("read"),
                    json!([]),
                    json!([1, 2, 3]),
                    json!({}),
                    json!({"tag": "ok"}),
                    json!({"tag": "nothing"}),
                    json!({"some": null}),
                    json!({"x": 1}),
                    json!({"tag": "err", "value": null}),
                ];
                *place = others[self.roll(others.len())].clone();
            }
        }
    }
}

fn value_of(argument: LoweredArgument) -> Val {
    match argument {
        LoweredArgument::Bytes(bytes) => byte_values(bytes),
        LoweredArgument::Value(value) => value,
        LoweredArgument::ByteStream(_)
        | LoweredArgument::Stream(..)
        | LoweredArgument::Future(..) => panic!("no parameter is a stream or future"),
    }
}

#[tokio::test]
async fn values_round_trip_and_match_the_schemas() {
    let echo = echo();
    let mut dice = Dice(7);
    for (name, _) in TYPES {
        let name = format!("echo_{}", name.replace('-', "_"));
        let params = echo.params(&name).await;
        let tool = echo.tool(&name);
        for round in 0..ROUNDS {
            let value = dice.value(&params[0].1);
            let json = json!({ "value": raise(&value, &params[0].1).unwrap(), "pad": pad() });
            tool.input_schema
                .validate("arguments", &json)
                .unwrap_or_else(|error| panic!("{name} {json}: {error}"));
            let text: Value = serde_json::from_str(&json.to_string()).unwrap();
            let borrowed = params.iter().map(|(name, ty)| (name.as_str(), ty.clone()));
            let borrowed: Vec<_> = borrowed.collect();
            assert_eq!(
                value_of(lower_arguments(&text, &borrowed).unwrap().swap_remove(0)),
                value,
                "{name} {json}"
            );
            // Every tenth value also passes through the component.
            if round % 10 == 0 {
                let super::super::LiftedOutput::Ok(Some(output)) =
                    echo.call(&name, &json).await.unwrap()
                else {
                    panic!("{name} gave nothing");
                };
                assert_eq!(output["result"], json!([json["value"], pad()]), "{name}");
                let schema = tool.output_schema.as_ref().unwrap();
                schema
                    .validate("result", &output)
                    .unwrap_or_else(|error| panic!("{name} {output}: {error}"));
            }
        }
    }
}

#[tokio::test]
async fn conversion_refuses_exactly_what_the_schema_refuses() {
    let echo = echo();
    let mut dice = Dice(11);
    let mut seen: BTreeMap<bool, usize> = BTreeMap::new();
    for (name, _) in TYPES {
        let name = format!("echo_{}", name.replace('-', "_"));
        let params = echo.params(&name).await;
        let schema: Value = echo.tool(&name).input_schema.to_value();
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        for _ in 0..ROUNDS {
            let mut json = json!({ "value": raise(&dice.value(&params[0].1), &params[0].1).unwrap(), "pad": pad() });
            for _ in 0..=dice.roll(2) {
                dice.damage(&mut json["value"]);
            }
            let borrowed = params.iter().map(|(name, ty)| (name.as_str(), ty.clone()));
            let borrowed: Vec<_> = borrowed.collect();
            let taken = lower_arguments(&json, &borrowed);
            // A schema does not check the content of a text.
            if taken
                .as_ref()
                .is_err_and(|error| error.message.contains("base64 text: "))
            {
                continue;
            }
            assert_eq!(
                validator.is_valid(&json),
                taken.is_ok(),
                "{name} {json}: {taken:?}"
            );
            *seen.entry(taken.is_ok()).or_default() += 1;
        }
    }
    // A test that only ever sees one side proves nothing.
    assert!(seen[&true] > 1_000 && seen[&false] > 1_000, "{seen:?}");
}
