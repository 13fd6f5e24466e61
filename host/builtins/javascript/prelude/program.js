// What a program finds around it that is run as a whole: the console, and as much of Node's modules as there is here.
function surroundings(given, context) {
  const { logger, platform } = context;
  class Exit extends Error {}
  const put = (stream, text) => (stream === "stdout" ? logger.info : logger.error)(text);
  const quoted = (text) => {
    const mark = !text.includes("'") ? "'" : !text.includes('"') ? '"' : "`";
    return mark + text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll("\t", "\\t") + mark;
  };
  const inspect = (value, depth = 0, seen = []) => {
    if (typeof value === "string") return depth === 0 && seen.length === 0 ? value : quoted(value);
    if (typeof value === "bigint") return `${value}n`;
    if (typeof value === "symbol") return String(value);
    if (Object.is(value, -0)) return "-0";
    if (typeof value === "function") {
      const kind = /^class\b/.test(Function.prototype.toString.call(value)) ? "class" : "Function";
      if (kind === "class") return `[class ${value.name || "(anonymous)"}]`;
      return value.name ? `[${kind}: ${value.name}]` : `[${kind} (anonymous)]`;
    }
    if (value === null || typeof value !== "object") return String(value);
    if (seen.includes(value)) return "[Circular *1]";
    if (value instanceof Error) return seen.length ? `[${value}]` : `${value.stack ? `${value}\n${value.stack.trimEnd()}` : value}`;
    if (value instanceof Date) return Number.isNaN(+value) ? "Invalid Date" : value.toISOString();
    if (value instanceof RegExp) return String(value);
    if (value instanceof Promise) return "Promise { <pending> }";
    const array = Array.isArray(value) || ArrayBuffer.isView(value);
    const named = value.constructor?.name;
    const plain = Array.isArray(value) || named === "Object" ? "" : value.constructor === undefined ? "[Object: null prototype] " : null;
    const sized = value instanceof Map || value instanceof Set || ArrayBuffer.isView(value);
    const prefix = plain ?? (sized ? `${named}(${value.size ?? value.length}) ` : `${named} `);
    if (depth > 2) return array ? "[Array]" : `[${named ?? "Object"}]`;
    const inner = (one) => inspect(one, depth + 1, [...seen, value]);
    let entries;
    if (array) {
      entries = Array.from(value).slice(0, 100).map(inner);
      if (value.length > 100) entries.push(`... ${value.length - 100} more item${value.length > 101 ? "s" : ""}`);
    } else if (value instanceof Map) {
      entries = [...value].map(([key, one]) => `${inner(key)} => ${inner(one)}`);
    } else if (value instanceof Set) {
      entries = [...value].map(inner);
    } else {
      entries = Object.keys(value).map((key) => {
        const name = /^[A-Za-z_$][\w$]*$/.test(key) ? key : quoted(key);
        return `${name}: ${inner(value[key])}`;
      });
    }
    const [open, close] = array ? ["[", "]"] : ["{", "}"];
    if (entries.length === 0) return `${prefix}${open}${close}`;
    const numbers = array && entries.length > 6 && entries.every((one) => one.length <= 6);
    if (numbers) {
      const widest = Math.max(...entries.map((one) => one.length)) + 2;
      const columns = Math.min(Math.round(Math.sqrt(2.5 * widest * entries.length) / widest), Math.floor(80 / widest), 16, 15);
      if (columns > 1) {
        const width = [];
        entries.forEach((one, at) => { width[at % columns] = Math.max(width[at % columns] ?? 0, one.length + 2); });
        const rows = [];
        for (let at = 0; at < entries.length; at += columns) {
          const row = entries.slice(at, at + columns);
          const right = Array.from(value).every((one) => typeof one === "number" || typeof one === "bigint");
          rows.push(row.map((one, column) => {
            const cell = at + column < entries.length - 1 ? `${one}, ` : one;
            const last = column === row.length - 1;
            if (right) return cell.padStart(width[column] - (cell.endsWith(", ") ? 0 : 2));
            return last ? cell : cell.padEnd(width[column]);
          }).join("").trimEnd());
        }
        if (rows.length > 1) return `${prefix}${open}\n${rows.map((row) => "  ".repeat(depth + 1) + row).join("\n")}\n${"  ".repeat(depth)}${close}`;
      }
    }
    const start = entries.length + entries.reduce((sum, one) => sum + one.length, 0);
    const oneLine = `${prefix}${open} ${entries.join(", ")} ${close}`;
    if (start + entries.length <= 76 && !oneLine.includes("\n") && (entries.length <= 6 || !array || start <= 72)) return oneLine;
    const margin = "  ".repeat(depth + 1);
    return `${prefix}${open}\n${entries.map((one) => margin + one).join(",\n")}\n${"  ".repeat(depth)}${close}`;
  };
  const format = (values) => {
    if (typeof values[0] !== "string" || !values[0].includes("%")) return values.map((one) => inspect(one)).join(" ");
    let at = 1;
    const text = values[0].replace(/%[sdifjoOc%]/g, (mark) => {
      if (mark === "%%") return "%";
      if (at >= values.length) return mark;
      const value = values[at++];
      if (mark === "%s") return typeof value === "string" ? value : inspect(value, 1);
      if (mark === "%d") return String(Number(value));
      if (mark === "%i") return String(parseInt(value, 10));
      if (mark === "%f") return String(parseFloat(value));
      if (mark === "%j") return JSON.stringify(value);
      return mark === "%c" ? "" : inspect(value);
    });
    return [text, ...values.slice(at).map((one) => inspect(one))].join(" ");
  };
  let margin = "";
  const line = (stream) => (...values) => put(stream, `${margin}${format(values).replaceAll("\n", `\n${margin}`)}\n`);
  const times = new Map();
  const console = {
    log: line("stdout"), info: line("stdout"), debug: line("stdout"), error: line("stderr"), warn: line("stderr"), trace: line("stderr"),
    dir: line("stdout"), group: (...values) => { if (values.length) console.log(...values); margin += "  "; }, groupEnd: () => { margin = margin.slice(2); },
    assert: (fine, ...values) => { if (!fine) console.error("Assertion failed", ...values); },
    time: (name = "default") => void times.set(name, Date.now()), timeEnd: (name = "default") => console.log(`${name}: ${Date.now() - times.get(name)}ms`),
    table: (value) => console.log(value),
  };
  const process = {
    argv: ["node", "main.js", ...given.args], env: { ...given.env }, platform: "wasm", cwd: () => given.cwd, pid: 1, version: "v0.0.0", versions: {},
    get exitCode() { return context.exitCode; },
    set exitCode(code) { context.exitCode = code; },
    exit(code) { context.exitCode = code ?? context.exitCode; context.leave(); throw new Exit(); },
    stdout: { write: (text) => (put("stdout", String(text)), true), isTTY: false, columns: 80 },
    stderr: { write: (text) => (put("stderr", String(text)), true), isTTY: false },
    nextTick: (work, ...args) => queueMicrotask(() => work(...args)), on() { return process; }, hrtime: Object.assign(() => [0, 0], { bigint: () => BigInt(Date.now()) * 1000000n }),
    uptime: () => 0, memoryUsage: () => ({ heapUsed: 0 }),
  };
  const promises = { ...platform.fs, readFile: (path, encoding = null) => platform.fs.readFile(path, encoding), rm: platform.fs.remove };
  const known = {
    "fs/promises": promises, fs: { promises }, process, console, util: { inspect: (value) => inspect(value, 1) , format: (...values) => format(values) },
    path: {
      sep: "/", join: (...all) => known.path.normalize(all.filter(Boolean).join("/") || "."),
      normalize: (path) => {
        const out = [];
        for (const part of path.split("/")) {
          if (part === "" || part === ".") continue;
          if (part === ".." && out.length && out.at(-1) !== "..") out.pop();
          else if (part !== ".." || !path.startsWith("/")) out.push(part);
        }
        return (path.startsWith("/") ? "/" : "") + out.join("/") || ".";
      },
      basename: (path, end = "") => { const name = path.replace(/\/+$/, "").split("/").pop(); return end && name.endsWith(end) && name !== end ? name.slice(0, -end.length) : name; },
      dirname: (path) => { const at = path.replace(/\/+$/, "").lastIndexOf("/"); return at < 0 ? "." : path.slice(0, at) || "/"; },
      extname: (path) => { const name = path.split("/").pop(); const at = name.lastIndexOf("."); return at > 0 ? name.slice(at) : ""; },
      resolve: (...all) => all.reduce((base, path) => known.path.normalize(path.startsWith("/") ? path : `${base}/${path}`), given.cwd),
      isAbsolute: (path) => path.startsWith("/"),
    },
    assert: Object.assign((fine, message) => { if (!fine) throw new Error(message ?? "assertion failed"); }, {
      equal: (a, b, message) => { if (a != b) throw new Error(message ?? `${inspect(a, 1)} == ${inspect(b, 1)}`); },
      strictEqual: (a, b, message) => { if (!Object.is(a, b)) throw new Error(message ?? `${inspect(a, 1)} !== ${inspect(b, 1)}`); },
      deepStrictEqual: (a, b, message) => { if (inspect(a, 0) !== inspect(b, 0)) throw new Error(message ?? "not deeply equal"); },
    }),
  };
  const require = (name) => {
    const found = known[String(name).replace(/^node:/, "")];
    if (found === undefined) throw new Error(`Cannot find module '${name}': programs here have ${Object.keys(known).join(", ")} and nothing else`);
    return found;
  };
  const stdin = given.stdin;
  known.fs.readFileSync = (path) => {
    if (path === 0 || path === "/dev/stdin") return stdin;
    throw new Error("files are read with `await require(\"fs/promises\").readFile(path)` here");
  };
  return { console, process, require, module: { exports: {} }, hasLeft: (error) => error instanceof Exit };
}

