// The process, its console and its exit handlers. Filled in when a program starts.
const WORKSPACE = "/workspace";
let given = { args: [], env: {}, stdin: "", folder: "", main: "main.js" };
let cwd = WORKSPACE;

function folder() {
  return cwd;
}

class Exit extends Error {}

const listeners = new Map();

function heard(name, ...values) {
  const all = listeners.get(name) ?? [];
  if (all.some((one) => one.once)) listeners.set(name, all.filter((one) => !one.once));
  // An exit handler may itself end the process.
  for (const { listener } of all) guarded(listener.bind(process), values);
  return all.length > 0;
}

function put(stream, text) {
  if (outcome !== undefined) throw new Exit();
  (stream === "stdout" ? logger.info : logger.error)(text);
}

function output(stream, fd) {
  const write = (chunk, encoding, done) => {
    const isText = typeof chunk === "string";
    if (!isText && !ArrayBuffer.isView(chunk)) throw coded(TypeError, "ERR_INVALID_ARG_TYPE", 'The "chunk" argument must be of type string or an instance of Buffer, TypedArray, or DataView.');
    put(stream, isText ? chunk : new TextDecoder().decode(new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength)));
    const after = [encoding, done].find((one) => typeof one === "function");
    if (after !== undefined) queueMicrotask(after);
    return true;
  };
  const own = {
    fd, write, isTTY: false, columns: 80, rows: 24, writable: true, on: () => own, once: () => own, off: () => own, emit: () => false,
    removeListener: () => own, cork() {}, uncork() {},
    end: (chunk, ...more) => (chunk != null && typeof chunk !== "function" ? write(chunk, ...more) : undefined, own),
    hasColors: () => false, getColorDepth: () => 1,
  };
  return own;
}

const elapsed = () => performance.now();

const process = {
  argv: [], argv0: "node", execArgv: [], execPath: "/usr/bin/node", env: {}, title: "node", platform: "linux", arch: "wasm32", pid: 1, ppid: 0,
  version: "v22.0.0", versions: { node: "22.0.0", v8: "0.0.0" }, release: { name: "node" }, features: {}, config: {},
  cwd: () => cwd,
  chdir(path) {
    const whole = builtin("path").resolve(path);
    if (!builtin("fs").statSync(whole).isDirectory()) throw coded(Error, "ENOTDIR", `ENOTDIR: not a directory, chdir ${cwd} -> '${path}'`);
    cwd = whole;
  },
  get exitCode() { return program?.exitCode || undefined; },
  set exitCode(code) { if (program !== undefined) program.exitCode = Number(code ?? 0); },
  exit(code) {
    if (outcome === undefined) {
      if (code !== undefined) process.exitCode = code;
      heard("exit", program.exitCode);
      leave();
    }
    throw new Exit();
  },
  abort() { process.exit(134); },
  stdout: output("stdout", 1),
  stderr: output("stderr", 2),
  get stdin() { return builtin("process/stdin"); },
  nextTick: (work, ...args) => later(() => guarded(work, args)),
  on(name, listener) {
    listeners.set(name, [...(listeners.get(name) ?? []), { listener, once: false }]);
    return process;
  },
  once(name, listener) {
    listeners.set(name, [...(listeners.get(name) ?? []), { listener, once: true }]);
    return process;
  },
  off(name, listener) {
    listeners.set(name, (listeners.get(name) ?? []).filter((one) => one.listener !== listener));
    return process;
  },
  emit: heard,
  listenerCount: (name) => (listeners.get(name) ?? []).length,
  emitWarning: (warning) => put("stderr", `(node:1) ${warning instanceof Error ? warning : `Warning: ${warning}`}\n`),
  hrtime: Object.assign((before) => {
    const now = elapsed();
    let [seconds, nanos] = [Math.floor(now / 1e3), Math.floor((now % 1e3) * 1e6)];
    if (before !== undefined) [seconds, nanos] = [seconds - before[0], nanos - before[1]];
    return nanos < 0 ? [seconds - 1, nanos + 1e9] : [seconds, nanos];
  }, { bigint: () => BigInt(Math.floor(elapsed() * 1e6)) }),
  uptime: () => elapsed() / 1e3,
  memoryUsage: Object.assign(() => ({ rss: 0, heapTotal: 0, heapUsed: 0, external: 0, arrayBuffers: 0 }), { rss: () => 0 }),
  cpuUsage: () => ({ user: Math.floor(elapsed() * 1e3), system: 0 }),
  getuid: () => 1000, getgid: () => 1000, geteuid: () => 1000, getegid: () => 1000, umask: () => 0o22,
  kill() { throw coded(Error, "ENOSYS", "process.kill is not available: there are no other processes"); },
  binding() { throw coded(Error, "ENOSYS", "process.binding is not available"); },
};
process.addListener = process.on;
process.removeListener = process.off;
process.removeAllListeners = (name) => (name === undefined ? listeners.clear() : listeners.delete(name), process);
Object.defineProperty(process, Symbol.toStringTag, { value: "process" });

let margin = "";
const times = new Map();
const counts = new Map();
const line = (stream) => (...values) => put(stream, `${margin}${format(...values).replaceAll("\n", `\n${margin}`)}\n`);

function span(label) {
  const millis = performance.now() - times.get(label);
  return millis >= 1e3 ? `${(millis / 1e3).toFixed(3)}s` : `${+millis.toFixed(3)}ms`;
}

const console = {
  log: line("stdout"), info: line("stdout"), debug: line("stdout"), error: line("stderr"), warn: line("stderr"),
  trace: (...values) => console.error("Trace:", ...values),
  dir: (value, options) => put("stdout", `${margin}${inspect(value, options)}\n`),
  dirxml: (...values) => console.log(...values),
  group(...values) {
    if (values.length > 0) console.log(...values);
    margin += "  ";
  },
  groupEnd() { margin = margin.slice(2); },
  assert: (fine, ...values) => {
    if (fine) return;
    if (typeof values[0] === "string") console.warn(`Assertion failed: ${values[0]}`, ...values.slice(1));
    else console.warn("Assertion failed", ...values);
  },
  count(label = "default") {
    counts.set(label, (counts.get(label) ?? 0) + 1);
    console.log(`${label}: ${counts.get(label)}`);
  },
  countReset: (label = "default") => void counts.delete(label),
  time: (label = "default") => void times.set(label, performance.now()),
  timeLog: (label = "default", ...values) => console.log(`${label}: ${span(label)}`, ...values),
  timeEnd(label = "default") {
    console.log(`${label}: ${span(label)}`);
    times.delete(label);
  },
  table: (value, columns) => builtin("console/table")(value, columns),
};
console.groupCollapsed = console.group;
console.Console = class Console { constructor() { return console; } };

define("process", () => process);
define("console", () => console);
define("console/table", () => (value, only) => {
  if (value === null || typeof value !== "object") return console.log(value);
  const isMap = value instanceof Map;
  const rows = isMap ? [...value].map(([key, one], at) => [String(at), one, key]) : value instanceof Set ? [...value].map((one, at) => [String(at), one]) : Object.entries(value);
  const shown = (one) => inspect(one, { depth: 0, compact: 3, breakLength: Infinity });
  const columns = [];
  let hasValues = false;
  for (const [, one] of rows) {
    if (one === null || typeof one !== "object") hasValues = true;
    else for (const key of Object.keys(one)) if (!columns.includes(key)) columns.push(key);
  }
  const picked = only ?? columns;
  const head = [isMap || value instanceof Set ? "(iteration index)" : "(index)", ...(isMap ? ["Key"] : []), ...picked, ...(hasValues ? ["Values"] : [])];
  const cells = rows.map(([index, one, key]) => {
    const isPlain = one === null || typeof one !== "object";
    return [index, ...(isMap ? [shown(key)] : []), ...picked.map((name) => (!isPlain && Object.hasOwn(one, name) ? shown(one[name]) : "")), ...(hasValues ? [isPlain ? shown(one) : ""] : [])];
  });
  const widths = head.map((name, at) => Math.max(name.length, ...cells.map((row) => row[at].length)) + 2);
  const row = (all) => `│${all.map((cell, at) => ` ${cell.padEnd(widths[at] - 1)}`).join("│")}│`;
  const rule = (left, middle, right) => left + widths.map((width) => "─".repeat(width)).join(middle) + right;
  console.log([rule("┌", "┬", "┐"), row(head), rule("├", "┼", "┤"), ...cells.map(row), rule("└", "┴", "┘")].join("\n"));
});
