// xorshift128: each call gets its own numbers, which the shared initial state could not provide.
const state = new Uint32Array([1, 2, 3, 4]);

function number() {
  let last = state[3];
  state[3] = state[2];
  state[2] = state[1];
  const first = state[1] = state[0];
  last ^= last << 11;
  last ^= last >>> 8;
  state[0] = last ^ first ^ (first >>> 19);
  return state[0];
}

function reseed(seed) {
  state.set([seed[0], seed[1], ~seed[0], seed[1] | 1]);
  // The first numbers for neighbouring seeds are similar.
  for (let round = 0; round < 20; round++) number();
}

Math.random = function random() {
  return ((number() >>> 5) * 2 ** 26 + (number() >>> 6)) / 2 ** 53;
};

function shown(values) {
  return values.map((value) => {
    if (typeof value === "string") return value;
    if (value instanceof Error) return String(value);
    try {
      return stringify(value) ?? String(value);
    } catch {
      return String(value);
    }
  }).join(" ").toWellFormed();
}

const logger = {};
for (const level of ["debug", "info", "warn", "error"]) {
  logger[level] = (...values) => log.write(level, shown(values));
}
logger.log = logger.info;

const bare = (path) => String(path ?? ".");

const fs = {
  readFile(path, encoding = "utf-8") {
    const name = typeof encoding === "string" ? encoding : encoding?.encoding ?? null;
    const isText = name !== null && /^utf-?8$/i.test(name);
    if (name !== null && !isText && name !== "base64") {
      return Promise.reject(new TypeError(`readFile supports the encodings utf-8, base64 and null, not ${name}`));
    }
    return wish("read", { path: bare(path), text: isText }, (text, bytes) => {
      if (isText) return text;
      const all = new Uint8Array(bytes);
      return name === "base64" ? base64(all) : all;
    });
  },
  writeFile(path, content) {
    const isBytes = content instanceof Uint8Array;
    const data = isBytes ? { base64: base64(content) } : { text: String(content) };
    return wish("write", { path: bare(path), ...data }, () => undefined);
  },
  exists: (path) => wish("exists", { path: bare(path) }),
  list: (path = ".") => wish("list", { path: bare(path) }, (entries) => entries.map((entry) => entry.name)),
  stat: (path) => wish("stat", { path: bare(path) }, (stat) => ({
    ...stat,
    modified: new Date(stat.modified),
    isFile: () => stat.type === "file",
    isDirectory: () => stat.type === "directory",
  })),
  remove: (path, options) => wish("remove", { path: bare(path), recursive: options?.recursive === true }, () => undefined),
  mkdir: (path) => wish("mkdir", { path: bare(path) }, () => undefined),
  glob: (pattern, options) => glob(String(pattern), bare(options?.cwd)),
};
fs.readdir = fs.list;
fs.unlink = fs.remove;

// `*` and `?` stay within a folder, `**` does not; names that begin with a dot only match a dot.
function matcher(pattern) {
  let regex = "";
  for (let at = 0; at < pattern.length; at++) {
    const rest = pattern.slice(at);
    if (rest.startsWith("**/")) {
      regex += "(?:(?!\\.)[^/]+/)*";
      at += 2;
    } else if (rest.startsWith("**")) {
      regex += ".*";
      at += 1;
    } else if (rest[0] === "*") {
      regex += (at === 0 || pattern[at - 1] === "/" ? "(?!\\.)" : "") + "[^/]*";
    } else if (rest[0] === "?") {
      regex += "[^/]";
    } else if (rest[0] === "{" && rest.includes("}")) {
      const end = rest.indexOf("}");
      const parts = rest.slice(1, end).split(",");
      regex += `(?:${parts.map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})`;
      at += end;
    } else {
      regex += rest[0].replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
    }
  }
  return new RegExp(`^${regex}$`, "u");
}

const glob = asyncToGenerator(function* (pattern, top) {
  pattern = pattern.replace(/^(\.?\/)+/, "");
  const match = matcher(pattern);
  const deep = pattern.includes("**") ? Infinity : pattern.split("/").length;
  const found = [];
  const folders = [["", 1]];
  while (folders.length > 0) {
    const [folder, depth] = folders.pop();
    const entries = yield wish("list", { path: `${top}/${folder}` });
    for (const { name, type } of entries) {
      const path = folder + name;
      if (match.test(path)) found.push(path);
      if (type === "directory" && depth < deep && !name.startsWith(".")) folders.push([`${path}/`, depth + 1]);
    }
  }
  return found.sort();
});

const executor = {
  execute(command, args) {
    const wanted = typeof command === "string" ? { command, args } : command;
    if (typeof wanted?.command !== "string") {
      return Promise.reject(new TypeError("execute expects {command, args, cwd, timeout}"));
    }
    return wish("execute", {
      command: wanted.command,
      args: (wanted.args ?? []).map(String),
      cwd: wanted.cwd == null ? null : bare(wanted.cwd),
      timeout: wanted.timeout ?? null,
      env: Object.entries(wanted.env ?? {}).map(([name, value]) => [name, String(value)]),
      stdin: wanted.stdin == null ? null : String(wanted.stdin),
    }, undefined, wanted.signal);
  },
};

class Headers {
  constructor(init = []) {
    this.map = new Map();
    const pairs = init instanceof Headers ? [...init.map] : Array.isArray(init) ? init : Object.entries(init);
    for (const [name, value] of pairs) this.append(name, value);
  }
  append(name, value) {
    const key = String(name).toLowerCase();
    const before = this.map.get(key);
    this.map.set(key, before === undefined ? String(value) : `${before}, ${value}`);
  }
  set(name, value) { this.map.set(String(name).toLowerCase(), String(value)); }
  get(name) { return this.map.get(String(name).toLowerCase()) ?? null; }
  has(name) { return this.map.has(String(name).toLowerCase()); }
  delete(name) { this.map.delete(String(name).toLowerCase()); }
  entries() { return this.map.entries(); }
  keys() { return this.map.keys(); }
  values() { return this.map.values(); }
  forEach(each) { this.map.forEach((value, name) => each(value, name, this)); }
  [Symbol.iterator]() { return this.map.entries(); }
}

class Response {
  constructor({ status, headers, url, redirects, text }, bytes) {
    this.status = status;
    this.ok = status >= 200 && status < 300;
    this.headers = new Headers(headers);
    this.url = url;
    this.redirected = redirects > 0;
    // The host has decoded the body as text, if it is text.
    Object.defineProperty(this, "body", { value: text ?? new Uint8Array(bytes) });
  }
  bytes() { return Promise.resolve(typeof this.body === "string" ? new TextEncoder().encode(this.body) : this.body); }
  arrayBuffer() { return this.bytes().then((bytes) => bytes.buffer); }
  text() { return Promise.resolve(typeof this.body === "string" ? this.body : new TextDecoder().decode(this.body)); }
  json() { return this.text().then(parse); }
}

function fetch(url, options = {}) {
  const { body } = options;
  const data = body == null ? {} : body instanceof Uint8Array ? { base64: base64(body) } : { text: String(body) };
  const headers = new Headers(options.headers ?? {});
  if (body instanceof URLSearchParams && !headers.has("content-type")) {
    headers.set("content-type", "application/x-www-form-urlencoded;charset=UTF-8");
  }
  return wish("fetch", {
    url: String(url),
    method: String(options.method ?? "GET").toUpperCase(),
    headers: [...headers],
    ...data,
  }, (answer, bytes) => new Response(answer, bytes), options.signal);
}

const http = {
  fetch,
  request: (options) => fetch(options.url, options),
  get: (url, options) => fetch(url, { ...options, method: "GET" }),
};
for (const method of ["post", "put", "patch", "delete"]) {
  http[method] = (url, body, options) => {
    const isPlain = body !== null && typeof body === "object" && !(body instanceof Uint8Array);
    const headers = new Headers(options?.headers ?? {});
    if (isPlain && !headers.has("content-type")) headers.set("content-type", "application/json");
    return fetch(url, { ...options, method, headers, body: isPlain ? stringify(body) : body });
  };
}

const kept = (how, fields, take) => wish("keep", { how, ...fields }, take);

// Values are JSON; a value without a JSON form is undefined, and cannot be stored.
const storage = {
  get: (key) => kept("get", { key: String(key) }, (answer) => answer.value),
  set(key, value) {
    const text = stringify(value);
    if (text === undefined) return Promise.reject(new TypeError("only values with a JSON form can be stored"));
    return kept("set", { key: String(key), value: parse(text) }, () => undefined);
  },
  delete: (key) => kept("delete", { key: String(key) }, () => undefined),
  keys: (prefix = "") => kept("keys", { prefix: String(prefix) }),
};

const llm = {
  complete: (prompt, options) => wish("complete", { prompt: String(prompt), most: options?.maxTokens ?? null }),
};

function around(context) {
  return {
    platform: { fs, executor, http },
    fetch,
    logger,
    config: context.config,
    conversation: context.conversation,
    progress: {
      report(done, total, message) {
        const whole = (number) => Math.max(0, Math.floor(Number(number) || 0));
        progress.report(whole(done), total == null ? undefined : whole(total), message == null ? undefined : String(message).toWellFormed());
      },
    },
    tools: { call: (name, args) => wish("call", { name: String(name), args: args ?? {} }) },
    storage: { ...storage },
    llm: { ...llm },
  };
}

