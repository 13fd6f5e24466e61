// Modules of a few lines each.
define("os", (os) => Object.assign(os, {
  EOL: "\n", devNull: "/dev/null", arch: () => "wasm32", platform: () => "linux", type: () => "Linux", release: () => "0.0.0", version: () => "mimir", machine: () => "wasm32",
  hostname: () => "localhost", homedir: () => WORKSPACE, tmpdir: () => "/tmp", endianness: () => "LE", uptime: () => Math.floor(elapsed() / 1e3), loadavg: () => [0, 0, 0],
  totalmem: () => 256 << 20, freemem: () => 128 << 20, cpus: () => [{ model: "wasm32", speed: 0, times: { user: 0, nice: 0, sys: 0, idle: 0, irq: 0 } }], availableParallelism: () => 1,
  networkInterfaces: () => ({}), userInfo: () => ({ uid: 1000, gid: 1000, username: "user", homedir: WORKSPACE, shell: null }), constants: { signals: {}, errno: {} },
}));

define("url", (url) => Object.assign(url, {
  URL, URLSearchParams,
  fileURLToPath(value) {
    const whole = typeof value === "string" ? new URL(value) : value;
    if (whole.protocol !== "file:") throw coded(TypeError, "ERR_INVALID_URL_SCHEME", "The URL must be of scheme file");
    return decodeURIComponent(whole.pathname);
  },
  pathToFileURL: (path) => new URL(`file://${builtin("path").resolve(path).split("/").map((part) => encodeURIComponent(part).replace(/%(?:2B|40|3A|24|2C|3D|26|3B)/g, decodeURIComponent)).join("/")}`),
  format(value) {
    if (typeof value === "string") return value;
    if (value instanceof URL) return value.href;
    const { protocol = "", auth, host, hostname = "", port, pathname = "", search, query, hash = "", slashes } = value;
    const scheme = protocol && !protocol.endsWith(":") ? `${protocol}:` : protocol;
    const at = host ?? hostname + (port ? `:${port}` : "");
    const asked = search ?? (query && typeof query === "object" ? builtin("querystring").stringify(query) : query ?? "");
    const mark = (text, first) => (text && !text.startsWith(first) ? first + text : text);
    return `${scheme}${at || slashes ? "//" : ""}${auth ? `${auth}@` : ""}${at}${at && pathname && !pathname.startsWith("/") ? "/" : ""}${pathname}${mark(asked, "?")}${mark(hash, "#")}`;
  },
  parse(text, parsesQuery = false) {
    const [, protocol = null, slashes, auth = null, host = null, pathname = null, search = null, hash = null] = /^([a-z][a-z0-9+.-]*:)?(\/\/)?(?:([^@/?#]*)@)?([^/?#]*)?([^?#]*)?(\?[^#]*)?(#.*)?$/i.exec(text) ?? [];
    const isHost = slashes !== undefined;
    const [, hostname = null, , port = null] = isHost ? /^([^:]*)(:(\d+))?$/.exec(host ?? "") ?? [] : [];
    const path = isHost ? pathname || (host ? "/" : null) : `${host ?? ""}${pathname ?? ""}` || null;
    const query = search === null ? (parsesQuery ? "" : null) : search.slice(1);
    return { protocol, slashes: isHost || null, auth, host: isHost ? host : null, port, hostname, hash, search, query: parsesQuery ? builtin("querystring").parse(query ?? "") : query, pathname: path, path: path === null && search === null ? null : `${path ?? ""}${search ?? ""}`, href: text };
  },
  resolve(from, to) {
    const base = new URL(from, "resolve://host/");
    const whole = new URL(to, base);
    return whole.protocol === "resolve:" ? `${whole.pathname}${whole.search}${whole.hash}` : whole.href;
  },
  domainToASCII: (name) => new URL(`http://${name}`).hostname,
}));

define("querystring", (querystring) => {
  const escape = (text) => encodeURIComponent(text);
  const unescape = (text) => {
    try {
      return decodeURIComponent(text);
    } catch {
      return unpercent(text);
    }
  };
  const plain = (value) => (typeof value === "string" ? value : typeof value === "number" && Number.isFinite(value) ? String(value) : typeof value === "boolean" || typeof value === "bigint" ? String(value) : "");
  Object.assign(querystring, {
    escape, unescape,
    stringify: (value, and = "&", is = "=") => Object.entries(value ?? {}).flatMap(([key, all]) => (Array.isArray(all) ? all : [all]).map((one) => `${querystring.escape(key)}${is}${querystring.escape(plain(one))}`)).join(and),
    parse(text, and = "&", is = "=") {
      const found = Object.create(null);
      for (const pair of String(text).split(and)) {
        if (pair === "") continue;
        const at = pair.indexOf(is);
        const [key, value] = (at < 0 ? [pair, ""] : [pair.slice(0, at), pair.slice(at + is.length)]).map((part) => querystring.unescape(part.replaceAll("+", " ")));
        if (!(key in found)) found[key] = value;
        else if (Array.isArray(found[key])) found[key].push(value);
        else found[key] = [found[key], value];
      }
      return found;
    },
  });
  Object.assign(querystring, { encode: querystring.stringify, decode: querystring.parse });
});

define("string_decoder", () => {
  const { Buffer } = builtin("buffer");
  class StringDecoder {
    #held = Buffer.alloc(0);
    constructor(encoding = "utf8") { this.encoding = encoding; }
    #whole(bytes) {
      if (/^utf-?16le|ucs-?2$/i.test(this.encoding)) return bytes.length & ~1;
      if (/^base64/i.test(this.encoding)) return bytes.length - (bytes.length % 3);
      if (!/^utf-?8$/i.test(this.encoding)) return bytes.length;
      for (let back = 1; back <= Math.min(3, bytes.length); back++) {
        const byte = bytes[bytes.length - back];
        if ((byte & 0xc0) === 0x80) continue;
        const width = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
        return width > back ? bytes.length - back : bytes.length;
      }
      return bytes.length;
    }
    write(chunk) {
      const bytes = Buffer.concat([this.#held, typeof chunk === "string" ? Buffer.from(chunk) : chunk]);
      const end = this.#whole(bytes);
      this.#held = Buffer.from(bytes.subarray(end));
      return bytes.toString(this.encoding, 0, end);
    }
    end(chunk) {
      const text = (chunk === undefined ? "" : this.write(chunk)) + this.#held.toString(this.encoding);
      this.#held = Buffer.alloc(0);
      return text;
    }
  }
  return { StringDecoder };
});

// Timers as in Node: objects, which may be unreferenced so that the program does not wait for them.
class Timeout {
  #id;
  #again;
  #isQuiet = false;
  constructor(set, work, millis, args) {
    if (typeof work !== "function") throw coded(TypeError, "ERR_INVALID_ARG_TYPE", `The "callback" argument must be of type function. Received ${inspect(work)}`);
    this.#again = () => { this.#id = set(work, millis, ...args); };
    this.#again();
  }
  ref() { return this.#quiet(false); }
  unref() { return this.#quiet(true); }
  hasRef() { return !this.#isQuiet; }
  refresh() {
    this.close();
    this.#again();
    return this.#quiet(this.#isQuiet);
  }
  close() {
    clearTimeout(this.#id);
    quiet.delete(this.#id);
  }
  #quiet(isQuiet) {
    this.#isQuiet = isQuiet;
    if (isQuiet) quiet.add(this.#id);
    else quiet.delete(this.#id);
    return this;
  }
  [Symbol.toPrimitive]() { return this.#id; }
}

const quiet = new Set();

// Sets if a program has to wait for this before it ends.
function isQuiet(wish) {
  for (const id of quiet) if (timers.get(id) === wish) return true;
  return false;
}

const clear = (id) => (id instanceof Timeout ? id.close() : clearTimeout(id));
const ownTimers = {
  setTimeout: (work, millis, ...args) => new Timeout(setTimeout, work, millis, args),
  setInterval: (work, millis, ...args) => new Timeout(setInterval, work, millis, args),
  setImmediate: (work, ...args) => new Timeout(setTimeout, work, 0, args),
  clearTimeout: clear, clearInterval: clear, clearImmediate: clear,
};

define("timers", () => ({ ...ownTimers, get promises() { return builtin("timers/promises"); } }));
define("timers/promises", () => {
  const wait = (set) => (millis, value, options) => new Promise((resolve, reject) => {
    if (options?.signal?.aborted) return reject(options.signal.reason);
    const id = set(() => resolve(value), millis);
    options?.signal?.addEventListener("abort", () => {
      clearTimeout(id);
      reject(options.signal.reason);
    });
  });
  const later = wait((work, millis) => setTimeout(work, millis));
  return {
    setTimeout: later,
    setImmediate: (value) => later(0, value),
    setInterval: (millis, value) => ({
      next: () => later(millis).then(() => ({ value, done: false })),
      return: () => Promise.resolve({ value: undefined, done: true }),
      [Symbol.asyncIterator]() { return this; },
    }),
    scheduler: { wait: later, yield: () => later(0) },
  };
});

define("perf_hooks", () => ({ performance, PerformanceObserver: class PerformanceObserver { observe() {} disconnect() {} }, monitorEventLoopDelay: () => ({ enable() {}, disable() {} }) }));
define("punycode", () => ({ toASCII: (text) => text.split(".").map((label) => (/^[\0-\x7f]*$/.test(label) ? label : punycode(label))).join("."), encode: (text) => punycode(text).slice(4) }));
define("async_hooks", () => {
  throw coded(Error, "ERR_FEATURE_UNAVAILABLE", "Cannot load 'async_hooks': asynchronous calls are not tracked in this engine; pass the value as an argument");
});

define("zlib", (zlib) => {
  const { Buffer } = builtin("buffer");
  const HOW = { gzip: "gzip", gunzip: "gunzip", unzip: "gunzip", deflate: "deflate", inflate: "inflate", deflateRaw: "deflateRaw", inflateRaw: "inflateRaw" };
  for (const [name, how] of Object.entries(HOW)) {
    const work = (data) => {
      const bytes = typeof data === "string" ? Buffer.from(data) : new Uint8Array(data.buffer ?? data, data.byteOffset ?? 0, data.byteLength);
      const isZlib = name === "unzip" && bytes[0] === 0x78;
      try {
        return Buffer.from(ask("zlib", { how: isZlib ? "inflate" : how }, bytes.slice())[1]);
      } catch (error) {
        if (!(error instanceof HostRefusal)) throw error;
        throw Object.assign(coded(Error, error.code, error.code === "Z_DATA_ERROR" ? "incorrect header check" : error.why), { errno: -3 });
      }
    };
    zlib[`${name}Sync`] = work;
    zlib[name] = (data, ...more) => Promise.try(work, data).then((done) => guarded(more.at(-1), [null, done]), (error) => guarded(more.at(-1), [error]));
    const stream = `create${name[0].toUpperCase()}${name.slice(1)}`;
    zlib[stream] = () => builtin("stream").whole(work);
  }
  for (const name of ["brotliCompress", "brotliDecompress", "brotliCompressSync", "brotliDecompressSync"]) {
    zlib[name] = () => { throw coded(Error, "ERR_FEATURE_UNAVAILABLE", `zlib.${name} is not available: gzip and deflate are`); };
  }
  zlib.crc32 = (data, start = 0) => {
    let crc = ~start;
    for (const byte of typeof data === "string" ? Buffer.from(data) : data) {
      crc ^= byte;
      for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (0xedb88320 & -(crc & 1));
    }
    return ~crc >>> 0;
  };
  zlib.constants = { Z_BEST_SPEED: 1, Z_BEST_COMPRESSION: 9, Z_DEFAULT_COMPRESSION: -1, Z_NO_COMPRESSION: 0 };
});
