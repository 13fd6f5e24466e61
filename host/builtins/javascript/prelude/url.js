// URLs, parsed as browsers do. The host decides on access by its own parsing.
const PORTS = { "http:": "80", "https:": "443", "ws:": "80", "wss:": "443", "ftp:": "21", "file:": "" };
const IN_PATH = /[\0-\x20"#<>?^`{}\x7f-\u{10ffff}]/u;
const IN_QUERY = /[\0-\x20"#<>\x7f-\u{10ffff}]/u;
const IN_FRAGMENT = /[\0-\x20"<>`\x7f-\u{10ffff}]/u;
const IN_USER = /[\0-\x20"#<>?^`{}/:;=@[\\\]|\x7f-\u{10ffff}]/u;
const NO_HOST = /[\0-\x20#/:<>?@[\\\]^|%\x7f]/;

function percent(text, which) {
  let out = "";
  for (const letter of text.toWellFormed()) {
    if (!which.test(letter)) out += letter;
    else for (const byte of new TextEncoder().encode(letter)) out += `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }
  return out;
}

function unpercent(text) {
  const bytes = [];
  const all = new TextEncoder().encode(text);
  for (let at = 0; at < all.length; at++) {
    const pair = all[at] === 37 ? String.fromCharCode(all[at + 1], all[at + 2]) : "";
    if (/^[0-9a-f]{2}$/i.test(pair)) {
      bytes.push(parseInt(pair, 16));
      at += 2;
    } else bytes.push(all[at]);
  }
  return new TextDecoder().decode(new Uint8Array(bytes));
}

// RFC 3492.
function punycode(label) {
  const points = [...label].map((letter) => letter.codePointAt(0));
  let out = points.filter((point) => point < 128).map((point) => String.fromCharCode(point)).join("");
  let done = out.length;
  const basic = done;
  if (basic > 0) out += "-";
  let [n, delta, bias] = [128, 0, 72];
  while (done < points.length) {
    const least = Math.min(...points.filter((point) => point >= n));
    delta += (least - n) * (done + 1);
    n = least;
    for (const point of points) {
      if (point < n) delta++;
      if (point !== n) continue;
      let q = delta;
      for (let k = 36; ; k += 36) {
        const t = k <= bias ? 1 : k >= bias + 26 ? 26 : k - bias;
        const digit = q < t ? q : t + ((q - t) % (36 - t));
        out += String.fromCharCode(digit < 26 ? 97 + digit : 22 + digit);
        if (q < t) break;
        q = Math.floor((q - t) / (36 - t));
      }
      delta = done === basic ? Math.floor(delta / 700) : delta >> 1;
      delta += Math.floor(delta / (done + 1));
      let k = 0;
      for (; delta > 455; k += 36) delta = Math.floor(delta / 35);
      bias = k + Math.floor((36 * delta) / (delta + 38));
      delta = 0;
      done++;
    }
    delta++;
    n++;
  }
  return `xn--${out}`;
}

function invalid(text) {
  return Object.assign(new TypeError("Invalid URL"), { code: "ERR_INVALID_URL", input: text });
}

function hostOf(text, special, whole) {
  if (text.startsWith("[")) {
    if (!/^\[[0-9a-f:.]+\]$/i.test(text)) throw invalid(whole);
    return text.toLowerCase();
  }
  if (!special) {
    if (/[\0\t\n\r #/<>?@[\\\]^|]/.test(text)) throw invalid(whole);
    return percent(text, /[\0-\x1f\x7f-\u{10ffff}]/u);
  }
  const labels = unpercent(text).normalize("NFKC").toLowerCase().split(/[.。]/u);
  const host = labels.map((label) => (/^[\0-\x7f]*$/.test(label) ? label : punycode(label))).join(".");
  if (host === "" || NO_HOST.test(host)) throw invalid(whole);
  const parts = host.replace(/\.$/, "").split(".");
  if (!/^(?:\d+|0x[0-9a-f]*)$/.test(parts.at(-1))) return host;
  const numbers = parts.map((part) => {
    if (!/^(?:\d+|0x[0-9a-f]*)$/.test(part)) return NaN;
    if (part.startsWith("0x")) return part === "0x" ? 0 : Number(part);
    return part.length > 1 && part.startsWith("0") ? (/^[0-7]+$/.test(part) ? parseInt(part, 8) : NaN) : Number(part);
  });
  const last = numbers.pop();
  if (numbers.length > 3 || numbers.some((number) => !(number < 256)) || !(last < 256 ** (4 - numbers.length))) throw invalid(whole);
  const address = numbers.reduce((sum, number, at) => sum + number * 256 ** (3 - at), last);
  return [24, 16, 8, 0].map((shift) => Math.floor(address / 2 ** shift) % 256).join(".");
}

function pathOf(text, special, before = []) {
  const path = [...before];
  const parts = text.split(special ? /[/\\]/ : "/");
  parts.forEach((part, at) => {
    const plain = part.replace(/%2e/gi, ".");
    const last = at === parts.length - 1;
    if (plain === "..") {
      path.pop();
      if (last) path.push("");
    } else if (plain === ".") {
      if (last) path.push("");
    } else path.push(percent(part, IN_PATH));
  });
  return path;
}

class URLSearchParams {
  #pairs = [];
  #changed;
  constructor(init = "", changed = undefined) {
    if (init !== null && typeof init === "object") {
      const pairs = typeof init[Symbol.iterator] === "function" ? [...init] : Object.entries(init);
      for (const pair of pairs) {
        const [name, value, ...more] = pair;
        if (value === undefined || more.length > 0) throw new TypeError("each pair needs a name and a value");
        this.#pairs.push([String(name), String(value)]);
      }
    } else this.#read(String(init));
    this.#changed = changed;
  }
  #read(text) {
    const plain = (part) => unpercent(part.replaceAll("+", " "));
    for (const pair of text.replace(/^\?/, "").split("&")) {
      if (pair === "") continue;
      const at = pair.indexOf("=");
      this.#pairs.push(at < 0 ? [plain(pair), ""] : [plain(pair.slice(0, at)), plain(pair.slice(at + 1))]);
    }
  }
  #tell() { this.#changed?.(this.toString()); }
  get size() { return this.#pairs.length; }
  append(name, value) { this.#pairs.push([String(name), String(value)]); this.#tell(); }
  delete(name, value) { this.#pairs = this.#pairs.filter(([key, has]) => key !== String(name) || (value !== undefined && has !== String(value))); this.#tell(); }
  get(name) { return this.#pairs.find(([key]) => key === String(name))?.[1] ?? null; }
  getAll(name) { return this.#pairs.filter(([key]) => key === String(name)).map(([, value]) => value); }
  has(name, value) { return this.#pairs.some(([key, has]) => key === String(name) && (value === undefined || has === String(value))); }
  set(name, value) {
    const at = this.#pairs.findIndex(([key]) => key === String(name));
    if (at < 0) return this.append(name, value);
    this.#pairs[at] = [String(name), String(value)];
    this.#pairs = this.#pairs.filter(([key], index) => index <= at || key !== String(name));
    this.#tell();
  }
  sort() { this.#pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)); this.#tell(); }
  forEach(each, self) { for (const [name, value] of this.#pairs) each.call(self, value, name, this); }
  *entries() { yield* this.#pairs.map((pair) => [...pair]); }
  *keys() { for (const [name] of this.#pairs) yield name; }
  *values() { for (const [, value] of this.#pairs) yield value; }
  [Symbol.iterator]() { return this.entries(); }
  toString() {
    const form = (text) => percent(text, /[^A-Za-z0-9*\-._ ]/u).replaceAll(" ", "+");
    return this.#pairs.map(([name, value]) => `${form(name)}=${form(value)}`).join("&");
  }
}

class URL {
  #scheme; #user = ""; #password = ""; #host = null; #port = ""; #path = []; #opaque = null; #query = null; #hash = null; #params;

  constructor(url, base) {
    this.#read(String(url), base === undefined ? undefined : new URL(base));
  }

  #read(whole, base) {
    let rest = whole.toWellFormed().replace(/^[\0-\x20]+|[\0-\x20]+$/g, "").replace(/[\t\n\r]/g, "");
    const cut = (mark) => {
      const at = rest.indexOf(mark);
      if (at < 0) return null;
      const tail = rest.slice(at + 1);
      rest = rest.slice(0, at);
      return tail;
    };
    const hash = cut("#");
    const query = cut("?");
    const scheme = /^[a-z][a-z0-9+.-]*:/i.exec(rest)?.[0].toLowerCase();
    if (scheme === undefined && base === undefined) throw invalid(whole);
    this.#scheme = scheme ?? base.#scheme;
    const special = this.#scheme in PORTS;
    if (scheme !== undefined) rest = rest.slice(scheme.length);
    const slashes = special ? /^[/\\]{2}/ : /^\/\//;
    const relative = scheme === undefined || (special && base?.#scheme === scheme && !slashes.test(rest));
    this.#hash = hash === null ? null : percent(hash, IN_FRAGMENT);
    this.#query = query === null ? null : this.#escaped(query);
    if (base?.#opaque != null && relative) {
      if (rest !== "" || query !== null || hash === null) throw invalid(whole);
      [this.#opaque, this.#query] = [base.#opaque, base.#query];
      return;
    }
    if (slashes.test(rest) || (special && !relative)) {
      rest = this.#scheme === "file:" ? rest.replace(slashes, "") : rest.replace(special ? /^[/\\]*/ : slashes, "");
      const end = rest.search(special ? /[/\\]/ : /\//);
      this.#authority(end < 0 ? rest : rest.slice(0, end), special, whole);
      rest = end < 0 ? "" : rest.slice(end);
      this.#path = rest === "" && !special ? [] : pathOf(rest.replace(special ? /^[/\\]/ : /^\//, ""), special);
    } else if (relative) {
      [this.#user, this.#password, this.#host, this.#port] = [base.#user, base.#password, base.#host, base.#port];
      if (rest === "") {
        this.#path = [...base.#path];
        if (query === null) this.#query = base.#query;
      } else if (rest[0] === "/" || (special && rest[0] === "\\")) this.#path = pathOf(rest.slice(1), special);
      else this.#path = pathOf(rest, special, base.#path.slice(0, -1));
    } else if (rest.startsWith("/")) this.#path = pathOf(rest.slice(1), special);
    else this.#opaque = percent(rest, /[\0-\x1f\x7f-\u{10ffff}]/u);
  }

  #escaped(query) {
    const text = percent(query, IN_QUERY);
    return this.#scheme in PORTS ? text.replaceAll("'", "%27") : text;
  }

  #authority(text, special, whole) {
    const at = text.lastIndexOf("@");
    if (at >= 0) {
      const [user, ...password] = text.slice(0, at).split(":");
      this.#user = percent(user, IN_USER);
      this.#password = percent(password.join(":"), IN_USER);
    }
    const [, host, , port] = /^(\[[^\]]*\]|[^:]*)(:(.*))?$/s.exec(text.slice(at + 1)) ?? [];
    if (host === undefined || (host === "" && ((special && this.#scheme !== "file:") || at >= 0 || port))) throw invalid(whole);
    this.#host = host === "" ? "" : hostOf(host, special, whole);
    if (this.#scheme === "file:" && this.#host === "localhost") this.#host = "";
    this.#setPort(port ?? "", whole);
  }

  #setPort(port, whole) {
    if (!/^\d*$/.test(port) || Number(port) > 65535) throw invalid(whole);
    this.#port = port === "" || String(Number(port)) === PORTS[this.#scheme] ? "" : String(Number(port));
  }

  static canParse(url, base) {
    try {
      new URL(url, base);
      return true;
    } catch {
      return false;
    }
  }
  static parse(url, base) { return URL.canParse(url, base) ? new URL(url, base) : null; }

  get protocol() { return this.#scheme; }
  set protocol(text) {
    const scheme = /^[a-z][a-z0-9+.-]*/i.exec(text)?.[0].toLowerCase();
    if (scheme !== undefined && (`${scheme}:` in PORTS) === (this.#scheme in PORTS)) this.#scheme = `${scheme}:`;
    if (this.#port === PORTS[this.#scheme]) this.#port = "";
  }
  get username() { return this.#user; }
  set username(text) { if (this.#host) this.#user = percent(String(text), IN_USER); }
  get password() { return this.#password; }
  set password(text) { if (this.#host) this.#password = percent(String(text), IN_USER); }
  get hostname() { return this.#host ?? ""; }
  set hostname(text) { if (this.#opaque === null) this.#quietly(() => { this.#host = hostOf(String(text), this.#scheme in PORTS, text); }); }
  get port() { return this.#port; }
  set port(text) { if (this.#host) this.#quietly(() => this.#setPort(String(text), text)); }
  get host() { return this.#port === "" ? this.hostname : `${this.hostname}:${this.#port}`; }
  set host(text) {
    const [, host, , port] = /^(\[[^\]]*\]|[^:]*)(:(\d*))?$/.exec(String(text)) ?? [];
    if (!host) return;
    this.hostname = host;
    if (port) this.port = port;
  }
  get origin() { return this.#scheme in PORTS && this.#scheme !== "file:" ? `${this.#scheme}//${this.host}` : "null"; }
  get pathname() { return this.#opaque ?? this.#path.map((part) => `/${part}`).join(""); }
  set pathname(text) { if (this.#opaque === null) this.#path = pathOf(String(text).replace(/^\//, ""), this.#scheme in PORTS); }
  get search() { return this.#query ? `?${this.#query}` : ""; }
  set search(text) {
    const query = String(text).replace(/^\?/, "");
    this.#query = query === "" ? null : this.#escaped(query);
    this.#params = undefined;
  }
  get searchParams() {
    return this.#params ??= new URLSearchParams(this.#query ?? "", (text) => { this.#query = text === "" ? null : text; });
  }
  get hash() { return this.#hash ? `#${this.#hash}` : ""; }
  set hash(text) {
    const hash = String(text).replace(/^#/, "");
    this.#hash = hash === "" ? null : percent(hash, IN_FRAGMENT);
  }
  get href() {
    const user = this.#user || this.#password ? `${this.#user}${this.#password ? `:${this.#password}` : ""}@` : "";
    const host = this.#host === null ? (this.#path.length > 1 && this.#path[0] === "" ? "/." : "") : `//${user}${this.host}`;
    return this.#scheme + host + this.pathname + (this.#query === null ? "" : `?${this.#query}`) + (this.#hash === null ? "" : `#${this.#hash}`);
  }
  set href(text) {
    const url = new URL(text);
    [this.#scheme, this.#user, this.#password, this.#host, this.#port] = [url.#scheme, url.#user, url.#password, url.#host, url.#port];
    [this.#path, this.#opaque, this.#query, this.#hash, this.#params] = [url.#path, url.#opaque, url.#query, url.#hash, undefined];
  }
  toString() { return this.href; }
  toJSON() { return this.href; }
  #quietly(work) {
    try {
      work();
    } catch {
      // A value that is not valid leaves the property unchanged.
    }
  }
}
