//! Components with `wasi:keyvalue`, `wasi:config` and `wasi:logging`.

use mimir_core::ToolErrorCode;
use mimir_testkit::{Approve, Testkit, json};

use super::{failure, kit, result};

#[test]
fn keyvalue_is_the_storage_of_the_tool() {
    let kit = kit("key_value");
    assert_eq!(kit.quarantined().len(), 0, "{:?}", kit.quarantined());
    let key = |key: &str| json!({ "bucket": "default", "key": key });
    assert_eq!(result(&kit, "get", key("a"))["result"], json!(null));
    kit.call(
        "put",
        json!({ "bucket": "default", "key": "a", "value": "Grüße" }),
    );
    // The values survive the instance.
    assert_eq!(result(&kit, "get", key("a"))["result"], "Grüße");
    let other = json!({ "bucket": "other", "key": "a" });
    assert_eq!(result(&kit, "get", other)["result"], json!(null));
    for number in 0..120 {
        let name = format!("n{number:03}");
        kit.call("put", json!({ "bucket": "many", "key": name, "value": "" }));
    }
    let listed = result(&kit, "list_all", json!({ "bucket": "many" }));
    let listed = listed["result"].as_array().unwrap();
    assert_eq!(
        (listed.len(), &listed[0], &listed[119]),
        (120, &json!("n000"), &json!("n119"))
    );
}

#[test]
fn keyvalue_counts_and_swaps_atomically() {
    let kit = kit("key_value");
    let by = |by: i64| json!({ "bucket": "b", "key": "n", "by": by });
    assert_eq!(result(&kit, "count", by(5))["result"], 5);
    assert_eq!(result(&kit, "count", by(-7))["result"], -2);
    // The first draft has no negative numbers.
    let (_, message) = failure(&kit, "count_first", by(1));
    assert!(message.contains("not a number"), "{message}");
    let calls: Vec<_> = (0..20)
        .map(|_| kit.start("count_first", json!({ "bucket": "b", "key": "m", "by": 1 })))
        .collect();
    kit.block_on(async {
        for call in calls.into_iter().map(tokio::spawn) {
            assert!(call.await.unwrap().is_ok());
        }
    });
    let total = json!({ "bucket": "b", "key": "m", "by": 0 });
    assert_eq!(result(&kit, "count_first", total)["result"], 20);
    let largest = json!({ "bucket": "b", "key": "n", "by": i64::MIN });
    let (_, message) = failure(&kit, "count", largest);
    assert!(message.contains("too large"), "{message}");

    let swap = |between: Option<&str>| json!({ "bucket": "b", "key": "s", "between": between, "value": "mine" });
    assert_eq!(result(&kit, "replace", swap(None))["result"], "swapped");
    assert_eq!(
        result(&kit, "replace", swap(Some("yours")))["result"],
        "changed to yours"
    );
}

#[test]
fn keyvalue_is_approved_like_storage() {
    let kit = kit("key_value").approve(Approve::Never);
    let (code, _) = failure(&kit, "get", json!({ "bucket": "b", "key": "k" }));
    assert_eq!(code, ToolErrorCode::ApprovalDenied);
    let tools = kit.tools();
    let proofs = &tools[0].origin.proofs;
    assert!(
        !proofs.iter().any(|proof| proof.contains("keeps nothing")),
        "{proofs:?}"
    );
    assert!(
        proofs
            .iter()
            .any(|proof| proof == "cannot reach the network"),
        "{proofs:?}"
    );
}

#[test]
fn keyvalue_handles_and_names_are_bounded() {
    let kit = kit("key_value");
    let (code, message) = failure(&kit, "flood", json!({}));
    assert_eq!(code, ToolErrorCode::LimitExceeded, "{message}");
    // The separator of buckets and keys could reach the keys of another bucket.
    let (_, message) = failure(&kit, "get", json!({ "bucket": "a\u{1f}b", "key": "k" }));
    assert!(message.contains("U+001F"), "{message}");
    let long = "k".repeat(500);
    let (_, message) = failure(&kit, "get", json!({ "bucket": "b", "key": long }));
    assert!(message.contains("256"), "{message}");
}

#[test]
fn config_and_log_are_those_of_the_tool() {
    let kit = kit("config_and_log").approve(Approve::Never);
    let report = result(&kit, "report", json!({ "name": "color" }));
    assert_eq!(report["result"], " of 0");
    let lines: Vec<String> = kit.log().iter().map(|line| line.text.clone()).collect();
    assert_eq!(lines, ["report: reads color", "no context"]);
}

/// A component that stores a value of about 1 MiB, reads it many times in one call, keeps many operations that hold it, and
/// opens buckets with long names. Its functions return what the host has granted.
const HOARDER: &str = r#"(component
  (type $store (instance
    (type $error (variant (case "no-such-store") (case "access-denied") (case "other" string)))
    (export "error" (type $e (eq $error)))
    (export "bucket" (type $b (sub resource)))
    (type $open (func (param "identifier" string) (result (result (own $b) (error $e)))))
    (export "open" (func (type $open)))
    (type $set (func (param "self" (borrow $b)) (param "key" string) (param "value" (list u8))
      (result (result (error $e)))))
    (export "[method]bucket.set" (func (type $set)))))
  (import "wasi:keyvalue/store@0.2.0-draft2" (instance $s (type $store)))
  (alias export $s "bucket" (type $bucket))
  (alias export $s "error" (type $err))
  (type $batch (instance
    (alias outer 1 $bucket (type $b0)) (export "bucket" (type $b (eq $b0)))
    (alias outer 1 $err (type $e0)) (export "error" (type $e (eq $e0)))
    (type $many (func (param "bucket" (borrow $b)) (param "keys" (list string))
      (result (result (list (option (tuple string (list u8)))) (error $e)))))
    (export "get-many" (func (type $many)))))
  (import "wasi:keyvalue/batch@0.2.0-draft2" (instance $batch (type $batch)))
  (type $atomics (instance
    (alias outer 1 $bucket (type $b0)) (export "bucket" (type $b (eq $b0)))
    (alias outer 1 $err (type $e0)) (export "error" (type $e (eq $e0)))
    (export "cas" (type $c (sub resource)))
    (type $new (func (param "bucket" (borrow $b)) (param "key" string) (result (result (own $c) (error $e)))))
    (export "[static]cas.new" (func (type $new)))))
  (import "wasi:keyvalue/atomics@0.2.0-draft2" (instance $atomics (type $atomics)))
  (alias export $atomics "cas" (type $cas))
  (core module $libc (memory (export "m") 260)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32)
      (if (i32.gt_u (local.get 3) (i32.const 1000)) (then unreachable))
      i32.const 2000))
  (core instance $libc (instantiate $libc))
  (core func $open (canon lower (func $s "open") (memory $libc "m") (realloc (func $libc "realloc"))))
  (core func $set
    (canon lower (func $s "[method]bucket.set") (memory $libc "m") (realloc (func $libc "realloc"))))
  (core func $many
    (canon lower (func $batch "get-many") (memory $libc "m") (realloc (func $libc "realloc"))))
  (core func $new
    (canon lower (func $atomics "[static]cas.new") (memory $libc "m") (realloc (func $libc "realloc"))))
  (core func $drop (canon resource.drop $cas))
  (core module $c
    (import "l" "m" (memory 1))
    (import "l" "open" (func $open (param i32 i32 i32)))
    (import "l" "set" (func $set (param i32 i32 i32 i32 i32 i32)))
    (import "l" "many" (func $many (param i32 i32 i32 i32)))
    (import "l" "new" (func $new (param i32 i32 i32 i32)))
    (import "l" "drop" (func $drop (param i32)))
    (data (i32.const 16) "abcd")
    ;; Returns the bucket with the value.
    (func $stored (result i32)
      (call $open (i32.const 16) (i32.const 1) (i32.const 32))
      (call $set (i32.load (i32.const 36)) (i32.const 16) (i32.const 1)
        (i32.const 200000) (i32.const 1048000) (i32.const 48))
      (if (i32.load8_u (i32.const 48)) (then unreachable))
      (i32.load (i32.const 36)))
    ;; Returns the tag of the result.
    (func (export "read") (param $n i32) (result i32) (local $i i32) (local $bucket i32)
      (local.set $bucket (call $stored))
      (loop $l
        (i32.store offset=1300000 (i32.mul (local.get $i) (i32.const 8)) (i32.const 16))
        (i32.store offset=1300004 (i32.mul (local.get $i) (i32.const 8)) (i32.const 1))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $l (i32.lt_u (local.get $i) (local.get $n))))
      (call $many (local.get $bucket) (i32.const 1300000) (local.get $n) (i32.const 48))
      (i32.load8_u (i32.const 48)))
    ;; Returns the number of operations that the host has begun; each tenth one is dropped at once.
    (func (export "swap") (param $n i32) (result i32) (local $i i32) (local $bucket i32) (local $begun i32)
      (local.set $bucket (call $stored))
      (loop $l
        (call $new (local.get $bucket) (i32.const 16) (i32.const 1) (i32.const 48))
        (if (i32.eqz (i32.load8_u (i32.const 48))) (then
          (local.set $begun (i32.add (local.get $begun) (i32.const 1)))
          (if (i32.eqz (i32.rem_u (local.get $i) (i32.const 10)))
            (then (call $drop (i32.load (i32.const 52)))))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $l (i32.lt_u (local.get $i) (local.get $n))))
      (local.get $begun))
    ;; Returns the tag of the result.
    (func (export "name") (param $length i32) (result i32)
      (call $open (i32.const 200000) (local.get $length) (i32.const 32))
      (i32.load8_u (i32.const 32))))
  (core instance $c (instantiate $c (with "l" (instance
    (export "m" (memory $libc "m")) (export "open" (func $open)) (export "set" (func $set))
    (export "many" (func $many)) (export "new" (func $new)) (export "drop" (func $drop))))))
  (func (export "read") (param "n" u32) (result u32) (canon lift (core func $c "read")))
  (func (export "swap") (param "n" u32) (result u32) (canon lift (core func $c "swap")))
  (func (export "name") (param "n" u32) (result u32) (canon lift (core func $c "name"))))"#;

/// The memory of the host is not that of the component, so no other limit applies to it.
#[test]
fn keyvalue_bounds_the_memory_of_the_host() {
    let component = wat::parse_str(HOARDER).unwrap();
    let kit = Testkit::from_bytes("hoarder", &component).unwrap();
    let call =
        |tool: &str, number: u32| result(&kit, tool, json!({ "n": number }))["result"].clone();
    assert_eq!(call("name", 255), 0);
    assert_eq!(call("name", 256), 1);
    assert_eq!(call("name", 15_000_000), 1);
    assert_eq!(call("read", 200), 1);
    // Sixteen are kept, and those that are dropped at once do not count.
    assert_eq!(call("swap", 60), 18);
}
