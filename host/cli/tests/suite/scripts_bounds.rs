//! Tools in YAML files: locations of their files, their timers, and invalid files.

use std::time::{Duration, Instant};

use crate::kit::scripts::{call, text, tool, workspace};
use serde_json::Value;

#[cfg(unix)]
#[test]
fn script_link_out_of_the_workspace_is_refused() {
    use crate::kit::run;
    use std::fs;
    let home = workspace(&[("fine.yml", &tool("fine", "export const execute = () => 1;"))]);
    let other = tempfile::tempdir().unwrap();
    let outside = other.path().join("secret.yml");
    fs::write(&outside, "hunter2: 1").unwrap();
    let tools = home.path().join(".mimir/tools");
    std::os::unix::fs::symlink(&outside, tools.join("out.yml")).unwrap();
    fs::write(
        home.path().join("kept.yml"),
        tool("kept", "export const execute = () => 2;"),
    )
    .unwrap();
    std::os::unix::fs::symlink("../../kept.yml", tools.join("in.yml")).unwrap();
    let (_, out, err) = run(home.path(), &["tools", "list"]);
    let output = format!("{out}{err}");
    assert!(
        output.contains("leads out of the workspace") && !output.contains("hunter2"),
        "{output}"
    );
    assert_eq!(text(&call(home.path(), &["fine"])), "1");
    assert_eq!(text(&call(home.path(), &["kept"])), "2");
}

#[test]
fn script_timers_are_limited_and_can_be_cleared() {
    let many = "
export async function execute(args) {
  for (let at = 0; at < 130_000; at++) setTimeout(() => {}, 60_000);
  await new Promise(() => {});
}";
    let cleared = "
export async function execute(args) {
  for (let at = 0; at < 30_000; at++) {
    const timer = setTimeout(() => { throw new Error('late'); }, 60_000);
    if (at % 100 === 0) await new Promise((resolve) => setTimeout(resolve, 0));
    clearTimeout(timer);
  }
  const order = [];
  setTimeout((x) => order.push(x), 200, 'b');
  const every = setInterval(() => { order.push('i'); if (order.length > 3) clearInterval(every); }, 300);
  setTimeout(() => order.push('a'), 1);
  while (order.length < 4) await new Promise((resolve) => setTimeout(resolve, 20));
  await new Promise((resolve) => setTimeout(resolve, 400));
  return order.join('');
}";
    let home = workspace(&[
        ("many.yml", &tool("many", many)),
        ("cleared.yml", &tool("cleared", cleared)),
    ]);
    let start = Instant::now();
    let outcome = call(home.path(), &["many"]);
    assert_eq!(outcome["error"]["code"], "LIMIT_EXCEEDED", "{outcome:#}");
    assert!(
        outcome["error"]["message"]
            .as_str()
            .unwrap()
            .contains("timers"),
        "{outcome:#}"
    );
    assert!(start.elapsed() < Duration::from_secs(30));
    assert_eq!(text(&call(home.path(), &["cleared"])), "abii");
}

#[cfg(unix)]
#[test]
fn script_abort_signal_stops_commands() {
    let code = "
export async function execute(args, { platform: { executor } }) {
  const controller = new AbortController();
  const start = Date.now();
  const runs = Array.from({ length: 12 }, () => executor.execute({ command: 'sleep', args: ['60'], signal: controller.signal }));
  const settled = Promise.allSettled(runs);
  setTimeout(() => controller.abort(), 100);
  const reasons = new Set((await settled).map((one) => one.reason.name));
  const again = await executor.execute({ command: 'echo', args: ['free'] });
  const late = await executor.execute({ command: 'sleep', args: ['60'], signal: AbortSignal.timeout(50) }).catch((error) => error.name);
  return { reasons: [...reasons], said: again.stdout.trim(), late, quick: Date.now() - start < 20_000 };
}";
    let home = workspace(&[("stops.yml", &tool("stops", code))]);
    let outcome = call(home.path(), &["stops"]);
    let result: Value = serde_json::from_str(text(&outcome)).unwrap();
    let wanted = serde_json::json!({"reasons": ["AbortError"], "said": "free", "late": "TimeoutError", "quick": true});
    assert_eq!(result, wanted);
}

#[test]
fn script_web_globals_follow_the_standard() {
    let code = "
export async function execute(args) {
  const url = new URL('../d?x=1#y', 'https://user@Example.org:443/a/b/c');
  url.searchParams.append('q', 'a b');
  const data = structuredClone({ when: new Date(0), some: new Map([[1, new Set([2])]]), bytes: new Uint8Array([1]) });
  return [
    url.href, URL.canParse('http://[bad'), new URLSearchParams({ a: '1', b: 'ü' }).toString(), atob(btoa('hi')),
    data.when.getTime(), data.some.get(1).has(2), data.bytes[0],
    new TextDecoder().decode(new TextEncoder().encode('ä€😀')), AbortSignal.abort('no').reason,
  ];
}";
    let home = workspace(&[("globals.yml", &tool("globals", code))]);
    let outcome = call(home.path(), &["globals"]);
    let result: Value = serde_json::from_str(text(&outcome)).unwrap();
    let wanted = serde_json::json!([
        "https://user@example.org/a/d?x=1&q=a+b#y",
        false,
        "a=1&b=%C3%BC",
        "hi",
        0,
        true,
        1,
        "ä€😀",
        "no",
    ]);
    assert_eq!(result, wanted);
}
