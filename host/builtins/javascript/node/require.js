// Modules that programs require and import, and the globals of Node.
const ABSENT = {
  http: "send requests with fetch; servers are not supported", https: "send requests with fetch; servers are not supported", http2: "send requests with fetch; servers are not supported",
  net: "there are no sockets; send requests with fetch", tls: "there are no sockets; send requests with fetch", dgram: "there are no sockets", dns: "names are resolved where fetch runs",
  "dns/promises": "names are resolved where fetch runs", child_process: "there are no processes; run programs of the machine with `exec`", cluster: "there are no processes",
  worker_threads: "there are no threads; wait for several things with Promise.all", vm: "evaluate text with eval or new Function", v8: "the engine is QuickJS",
  inspector: "there is no debugger; print with console.log", sqlite: "use sqlite3 in language `python`", "node:test": "use assert and print what failed",
  test: "use assert and print what failed", tty: "there is no terminal", repl: "there is no terminal", diagnostics_channel: "no diagnostics are reported", wasi: "code runs in WebAssembly already", trace_events: "tracing is not supported", domain: "catch errors with try",
};

const NAMED = new Set(["test", "sqlite"]);

function absent(name) {
  const plain = name.replace(/^node:/, "");
  const why = ABSENT[name] ?? ABSENT[plain];
  if (why !== undefined && (name.startsWith("node:") || !NAMED.has(plain))) return `Cannot find module '${name}': it is not available in run_code: ${why}`;
  return `Cannot find module '${name}': npm packages are not available; use ${[...makers.keys()].filter((one) => !/^(?:fs|console|process)\//.test(one) || one === "fs/promises").join(", ")}, or files of the workspace by their path ('./${plain}.js')`;
}

const loaded = new Map();
const ENDS = ["", ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".json", "/index.js", "/index.mjs", "/index.ts", "/index.json"];

function resolved(name, from) {
  const path = builtin("path");
  const fs = builtin("fs");
  const whole = name.startsWith("file:") ? builtin("url").fileURLToPath(name) : path.resolve(path.dirname(from), name);
  // TypeScript imports a file by the name of its compiled output.
  const ends = /\.[mc]?js$/.test(whole) ? [...ENDS.map((end) => whole + end), whole.replace(/js$/, "ts")] : ENDS.map((end) => whole + end);
  for (const file of ends) if (fs.statSync(file, { throwIfNoEntry: false })?.isFile()) return file;
  throw coded(Error, "MODULE_NOT_FOUND", `Cannot find module '${name}': there is no ${whole.startsWith(`${WORKSPACE}/`) ? whole.slice(WORKSPACE.length + 1) : whole}, required by ${shownPath(from)}`);
}

const shownPath = (file) => (file.startsWith(`${WORKSPACE}/`) ? file.slice(WORKSPACE.length + 1) : file);

function requires(from) {
  const require = (name) => {
    if (typeof name !== "string") throw coded(TypeError, "ERR_INVALID_ARG_TYPE", `The "id" argument must be of type string. Received ${inspect(name)}`);
    if (/^(?:\.{0,2}\/|\.{1,2}$|file:)/.test(name)) return load(resolved(name, from)).exports;
    const found = builtin(name.replace(/^node:/, ""));
    if (found === undefined || /^(?:fs|console|process)\/(?!promises$)/.test(name)) throw coded(Error, "MODULE_NOT_FOUND", absent(name));
    return found;
  };
  require.resolve = (name) => (/^(?:\.{0,2}\/|file:)/.test(name) ? resolved(name, from) : (require(name), name));
  require.cache = {};
  require.main = main;
  return require;
}

let main;

function load(file) {
  const before = loaded.get(file);
  if (before !== undefined) return before;
  const module = { id: file, filename: file, path: builtin("path").dirname(file), exports: {}, loaded: false, children: [], paths: [] };
  loaded.set(file, module);
  try {
    const bytes = builtin("fs").readFileSync(file);
    if (file.endsWith(".json")) {
      module.exports = parse(decodeUtf8(bytes).replace(/^\ufeff/, ""));
    } else {
      let compiled;
      try {
        [compiled] = ask("compile", { path: shownPath(file), late: "module" }, new Uint8Array(bytes));
      } catch (error) {
        if (error instanceof HostRefusal) throw new SyntaxError(error.code === "SYNTAX" ? `${shownPath(file)}:${error.why}` : error.why);
        throw error;
      }
      const work = evaluate("\n".repeat(compiled.base) + compiled.code);
      run(work, module);
    }
    module.loaded = true;
    return module;
  } catch (error) {
    loaded.delete(file);
    throw error;
  }
}

// Returns the namespace of an import: a module's exports, otherwise the members and the whole value as `default`.
const namespaces = new Map();

function namespace(whole) {
  if (whole !== null && typeof whole === "object" && whole.__esModule === true) return whole;
  if (whole === null || (typeof whole !== "object" && typeof whole !== "function")) return { default: whole };
  let space = namespaces.get(whole);
  if (space === undefined) {
    space = new Proxy(whole, {
      get: (target, name) => (name === "default" ? target : Reflect.get(target, name)),
      has: (target, name) => name === "default" || name in target,
    });
    namespaces.set(whole, space);
  }
  return space;
}

function run(work, module) {
  const require = requires(module.filename);
  const imported = (name, wanted) => {
    const space = namespace(require(name));
    for (const one of wanted ?? []) {
      if (!(one in space)) throw new SyntaxError(`The requested module '${name}' does not provide an export named '${one}'`);
    }
    return space;
  };
  const exported = (all, isAll = false) => {
    if (!Object.hasOwn(module.exports, "__esModule")) Object.defineProperty(module.exports, "__esModule", { value: true });
    for (const name of Object.keys(all)) {
      if (isAll && (name === "default" || name in module.exports)) continue;
      Object.defineProperty(module.exports, name, { get: isAll ? () => all[name] : all[name], enumerable: true, configurable: true });
    }
  };
  const file = module.filename;
  const meta = {
    url: `file://${file}`, filename: file, dirname: module.path, main: module === main,
    resolve: (name) => (/^\.{0,2}\//.test(name) ? `file://${resolved(name, file)}` : `node:${name.replace(/^node:/, "")}`),
  };
  return work.call(module.exports, module.exports, require, module, file, module.path, (name) => Promise.try(imported, String(name)), imported, exported, meta);
}

define("module", () => {
  class Module {}
  const names = () => [...makers.keys()].filter((one) => !/^(?:fs|console|process)\//.test(one) || one === "fs/promises");
  return Object.assign(Module, { Module, createRequire: (from) => requires(from instanceof URL || String(from).startsWith("file:") ? builtin("url").fileURLToPath(from) : from), get builtinModules() { return names(); }, isBuiltin: (name) => builtin(name.replace(/^node:/, "")) !== undefined });
});

// Begins a program, and provides it with the variables of a Node module.
function begin(work, told, context) {
  given = told;
  performance.now();
  cwd = builtin("path").resolve(WORKSPACE, told.folder.replace(/^\/+/, ""));
  Object.assign(process, { argv: ["/usr/bin/node", `${cwd}/${told.main}`, ...told.args], env: { ...told.env } });
  Object.assign(globalThis, ownTimers, { console, process, global: globalThis, context });
  main = { id: ".", filename: `${cwd}/${told.main}`, path: cwd, exports: {}, loaded: false, children: [], paths: [] };
  loaded.set(main.filename, main);
  return run(work, main);
}

// Returns a stack in V8's form: the message of the error, and frames in the files of the program.
const stackOf = Object.getOwnPropertyDescriptor(Error.prototype, "stack")?.get;

function traced() {
  if (stackOf === undefined) return;
  Object.defineProperty(Error.prototype, "stack", {
    configurable: true,
    get() {
      const raw = stackOf.call(this);
      if (typeof raw !== "string" || program === undefined) return raw;
      let frames = [];
      try {
        [frames] = ask("trace", { stack: raw });
      } catch { /* no stack then */ }
      return [Error.prototype.toString.call(this), ...frames.map((frame) => `    at ${frame}`)].join("\n");
    },
    set(value) {
      Object.defineProperty(this, "stack", { value, writable: true, configurable: true, enumerable: false });
    },
  });
}
traced();

function recompiled(text) {
  try {
    return ask("compile", { path: "eval", late: "eval" }, new TextEncoder().encode(text))[0].code;
  } catch (error) {
    if (error instanceof HostRefusal) throw new SyntaxError(error.why);
    throw error;
  }
}
