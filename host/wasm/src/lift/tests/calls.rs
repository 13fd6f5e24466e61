//! Calls through wasmtime: exactness at the limits, failures, refusals with their path.

use serde_json::{Value, json};

use super::super::testkit::{CompiledFixture, PAD, build, echoes, pad};
use super::super::{LiftError, LiftedOutput};
use super::echo;

async fn round(echo: &CompiledFixture, ty: &str, value: Value) -> Value {
    let arguments = json!({ "value": value, "pad": pad() });
    match echo.call(&format!("echo_{ty}"), &arguments).await {
        Ok(LiftedOutput::Ok(Some(output))) => output["result"][0].clone(),
        other => panic!("{ty}: {other:?}"),
    }
}

#[tokio::test]
async fn values_at_the_limits_are_exact() {
    let echo = echo();
    for (ty, value) in [
        ("u64", json!(u64::MAX)),
        ("s64", json!(i64::MIN)),
        ("u64", json!(9_007_199_254_740_993_u64)),
        ("s64", json!(-9_007_199_254_740_993_i64)),
        ("u8", json!(255)),
        ("s8", json!(-128)),
        ("f64", json!(0.1)),
        ("f64", json!(f64::MIN_POSITIVE)),
        ("f64", json!("NaN")),
        ("f32", json!("-Infinity")),
        ("f32", json!(0.1)),
        ("char", json!("😀")),
        ("string", json!("\u{0}Grüße\n")),
        ("bytes", json!("AAEC/w==")),
        ("alias_bytes", json!("")),
        ("deep_list", json!([[], ["", "AA=="]])),
        ("fixed", json!([1, 2, 65535])),
        ("maybe_maybe", json!(null)),
        ("maybe_maybe", json!({ "some": null })),
        ("maybe_maybe", json!({ "some": "x" })),
        ("maybe_thrice", json!({ "some": { "some": null } })),
        ("shape", json!({ "tag": "nothing" })),
        ("shape", json!({ "tag": "label", "value": null })),
        (
            "shape",
            json!({ "tag": "corner", "value": { "x": -1, "y-axis": 2.5 } }),
        ),
        ("color", json!("dark-green")),
        ("access", json!([])),
        ("unit_result", json!({ "tag": "err" })),
        ("full_result", json!({ "tag": "err", "value": "string" })),
        ("dictionary", json!({})),
        (
            "dictionary",
            json!({ "a": { "x": 1, "y-axis": null }, "": { "x": 2, "y-axis": 0.5 } }),
        ),
        (
            "numbered",
            json!([{ "key": 7, "value": "AA==" }, { "key": 0, "value": "" }]),
        ),
    ] {
        assert_eq!(round(&echo, ty, value.clone()).await, value, "{ty}");
    }
}

#[tokio::test]
async fn values_in_other_spellings_are_accepted() {
    let echo = echo();
    for (ty, given, back) in [
        ("u32", json!(3.0), json!(3)),
        ("s64", json!(-0.0), json!(0)),
        ("f64", json!(3), json!(3.0)),
        ("bytes", json!("AAEC/w"), json!("AAEC/w==")),
        (
            "point",
            json!({ "x": 1 }),
            json!({ "x": 1, "y-axis": null }),
        ),
        (
            "options",
            json!({ "d": [] }),
            json!({ "a": null, "b": null, "c": null, "d": [] }),
        ),
        (
            "access",
            json!(["run-it", "read"]),
            json!(["read", "run-it"]),
        ),
        (
            "shape",
            json!({ "tag": "label" }),
            json!({ "tag": "label", "value": null }),
        ),
    ] {
        assert_eq!(round(&echo, ty, given).await, back, "{ty}");
    }
}

#[tokio::test]
async fn refusals_name_their_path() {
    let echo = echo();
    for (ty, value, path) in [
        ("u8", json!(256), "/value"),
        ("u64", json!(-1), "/value"),
        ("u64", json!(1.8446744073709552e19), "/value"),
        ("s64", json!(1e18), "/value"),
        ("u32", json!(1.5), "/value"),
        ("u32", json!("1"), "/value"),
        ("f32", json!(1e39), "/value"),
        ("f64", json!("nan"), "/value"),
        ("char", json!("ab"), "/value"),
        ("char", json!(""), "/value"),
        ("bytes", json!("%"), "/value"),
        ("bytes", json!([1]), "/value"),
        ("fixed", json!([1, 2]), "/value"),
        ("fixed", json!([1, 2, -3]), "/value/2"),
        ("pair", json!([1, "a", 2]), "/value"),
        ("point", json!({}), "/value/x"),
        ("point", json!({ "x": 1, "y": 2 }), "/value/y"),
        (
            "line",
            json!({ "start": { "x": 1 }, "end": { "x": 1 }, "through": [{ "x": 0 }, { "x": "0" }] }),
            "/value/through/1/x",
        ),
        ("shape", json!({ "tag": "square" }), "/value/tag"),
        ("shape", json!({ "value": 1 }), "/value/tag"),
        ("shape", json!({ "tag": "circle" }), "/value/value"),
        (
            "shape",
            json!({ "tag": "nothing", "value": 1 }),
            "/value/value",
        ),
        ("shape", json!("nothing"), "/value"),
        ("color", json!("Red"), "/value"),
        ("access", json!(["read", "read"]), "/value/1"),
        ("maybe_maybe", json!("x"), "/value"),
        ("maybe_thrice", json!({ "some": true }), "/value/some"),
        (
            "full_result",
            json!({ "tag": "ok", "value": { "x": 2147483648_u32 } }),
            "/value/value/x",
        ),
    ] {
        let arguments = json!({ "value": value, "pad": pad() });
        let Err(LiftError::Arguments(error)) = echo.call(&format!("echo_{ty}"), &arguments).await
        else {
            panic!("{ty} took {value}");
        };
        assert_eq!(error.path, path, "{ty} {value}: {error}");
    }
    let unknown = json!({ "value": 1, "pad": pad(), "a/b~c": 1 });
    let Err(LiftError::Arguments(error)) = echo.call("echo_u8", &unknown).await else {
        panic!("taken");
    };
    assert_eq!(error.path, "/a~1b~0c");
    let Err(LiftError::Arguments(error)) = echo.call("echo_shape", &json!({ "valeu": 1 })).await
    else {
        panic!("taken");
    };
    assert!(
        error.to_string().contains("Did you mean `value`?"),
        "{error}"
    );
    assert!(matches!(
        echo.call("echo_u8", &json!([])).await,
        Err(LiftError::Arguments(_))
    ));
}

/// Functions whose result is the first of their parameters.
fn results() -> CompiledFixture {
    let wit = format!(
        "package t:t;
        world w {{
            record why {{ code: u8, text: string }}
            record answer {{ text: string, count: u64 }}
            export plain-error: func(outcome: result<string, string>, pad: {PAD}) -> result<string, string>;
            export typed-error: func(outcome: result<answer, why>, pad: {PAD}) -> result<answer, why>;
            export no-value: func(outcome: result<_, string>, pad: {PAD}) -> result<_, string>;
            export nothing: func();
            export bare: func(fails: bool) -> result;
            export count: func() -> u64;
            export traps: func() -> u32;
        }}"
    );
    let core = format!(
        "{}
        (func (export \"nothing\"))
        (func (export \"bare\") (param i32) (result i32) (local.get 0))
        (func (export \"count\") (result i64) (i64.const -1))
        (func (export \"traps\") (result i32) (unreachable))",
        echoes(["plain-error", "typed-error", "no-value"])
    );
    CompiledFixture::new(&build(&wit, &core))
}

#[tokio::test]
async fn results_become_success_or_failure() {
    let results = results();
    let call = async |name: &str, outcome: Value| {
        let arguments = json!({ "outcome": outcome, "pad": pad() });
        results.call(name, &arguments).await.unwrap()
    };
    let failure = |message: &str, details: Option<Value>| LiftedOutput::Failure {
        message: message.into(),
        details,
    };
    assert_eq!(
        call("plain_error", json!({ "tag": "ok", "value": "fine" })).await,
        LiftedOutput::Ok(Some(json!({ "result": "fine" })))
    );
    assert_eq!(
        call("plain_error", json!({ "tag": "err", "value": "disk full" })).await,
        failure("disk full", None)
    );
    let answer = json!({ "text": "x", "count": u64::MAX });
    assert_eq!(
        call("typed_error", json!({ "tag": "ok", "value": answer })).await,
        LiftedOutput::Ok(Some(answer.clone()))
    );
    let why = json!({ "code": 7, "text": "no" });
    assert_eq!(
        call("typed_error", json!({ "tag": "err", "value": why })).await,
        failure(r#"{"code":7,"text":"no"}"#, Some(why.clone()))
    );
    assert_eq!(
        call("no_value", json!({ "tag": "ok" })).await,
        LiftedOutput::Ok(None)
    );

    let bare = async |fails: bool| {
        results
            .call("bare", &json!({ "fails": fails }))
            .await
            .unwrap()
    };
    assert_eq!(bare(false).await, LiftedOutput::Ok(None));
    assert!(matches!(
        bare(true).await,
        LiftedOutput::Failure { details: None, .. }
    ));
    assert_eq!(
        results.call("nothing", &json!({})).await.unwrap(),
        LiftedOutput::Ok(None)
    );
    assert_eq!(
        results.call("count", &json!({})).await.unwrap(),
        LiftedOutput::Ok(Some(json!({ "result": u64::MAX })))
    );
}

#[tokio::test]
async fn traps_are_passed_on() {
    let Err(LiftError::Trap(error)) = results().call("traps", &json!({})).await else {
        panic!("no trap");
    };
    assert_eq!(
        error.downcast_ref(),
        Some(&wasmtime::Trap::UnreachableCodeReached)
    );
}
