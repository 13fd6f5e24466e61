// Features of other engines that this one lacks.
const timers = new Map();
let timer = 0;

function setTimeout(work, millis = 0, ...args) {
  const id = ++timer;
  timers.set(id, sleep(Math.max(0, Number(millis) || 0), () => later(() => {
    if (timers.delete(id)) guarded(work, args);
  })));
  return id;
}

function setInterval(work, millis = 0, ...args) {
  const id = ++timer;
  const again = () => timers.set(id, sleep(Math.max(1, Number(millis) || 0), () => later(() => {
    if (!timers.has(id)) return;
    again();
    guarded(work, args);
  })));
  again();
  return id;
}

function clearTimeout(id) {
  if (timers.has(id)) wake(timers.get(id));
  timers.delete(id);
}

function guarded(work, args) {
  try {
    work(...args);
  } catch (error) {
    if (outcome === undefined) failed(error);
  }
}

class TextEncoder {
  get encoding() { return "utf-8"; }
  encode(value = "") {
    const text = String(value).toWellFormed();
    const bytes = [];
    for (let at = 0; at < text.length; at++) {
      const code = text.codePointAt(at);
      if (code < 0x80) bytes.push(code);
      else if (code < 0x800) bytes.push(0xc0 | (code >> 6), 0x80 | (code & 63));
      else if (code < 0x10000) bytes.push(0xe0 | (code >> 12), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63));
      else {
        bytes.push(0xf0 | (code >> 18), 0x80 | ((code >> 12) & 63), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63));
        at++;
      }
    }
    return new Uint8Array(bytes);
  }
}

class TextDecoder {
  constructor(label = "utf-8") {
    if (!/^utf-?8$/i.test(label)) throw new RangeError(`TextDecoder supports utf-8 only, not ${label}`);
  }
  get encoding() { return "utf-8"; }
  decode(input = new Uint8Array()) {
    const bytes = input instanceof ArrayBuffer ? new Uint8Array(input) : input;
    let text = "";
    let units = [];
    for (let at = 0; at < bytes.length;) {
      const first = bytes[at++];
      let [left, code, least] = first < 0x80 ? [0, first, 0]
        : first >= 0xc2 && first < 0xe0 ? [1, first & 31, 0x80]
        : first >= 0xe0 && first < 0xf0 ? [2, first & 15, 0x800]
        : first >= 0xf0 && first < 0xf5 ? [3, first & 7, 0x10000] : [-1, 0, 0];
      for (; left > 0 && at < bytes.length && (bytes[at] & 0xc0) === 0x80; left--) code = (code << 6) | (bytes[at++] & 63);
      if (left !== 0 || code < least || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) code = 0xfffd;
      if (code > 0xffff) units.push(0xd800 + ((code - 0x10000) >> 10), 0xdc00 + (code & 0x3ff));
      else units.push(code);
      if (units.length > 8000) {
        text += String.fromCharCode(...units);
        units = [];
      }
    }
    text += String.fromCharCode(...units);
    return text.startsWith("\ufeff") ? text.slice(1) : text;
  }
}

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

function base64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 3) {
    const [one, two, three] = [bytes[at], bytes[at + 1], bytes[at + 2]];
    text += LETTERS[one >> 2] + LETTERS[((one & 3) << 4) | ((two ?? 0) >> 4)];
    text += two === undefined ? "=" : LETTERS[((two & 15) << 2) | ((three ?? 0) >> 6)];
    text += three === undefined ? "=" : LETTERS[three & 63];
  }
  return text;
}

function fromBase64(text) {
  const letters = String(text).replace(/[\t\n\f\r ]/g, "").replace(/^((?:.{4})*.{2,3}?)={1,2}$/s, (whole, plain) => (whole.length % 4 === 0 ? plain : whole));
  if (letters.length % 4 === 1 || /[^A-Za-z0-9+/]/.test(letters)) {
    throw new DOMException("The string to be decoded is not correctly encoded.", "InvalidCharacterError");
  }
  let out = "";
  let held = 0;
  [...letters].forEach((letter, at) => {
    held = ((held << 6) | LETTERS.indexOf(letter)) & 0xffff;
    if (at % 4 > 0) out += String.fromCharCode((held >> (6 - 2 * (at % 4))) & 255);
  });
  return out;
}

function toBase64(text) {
  const bytes = Array.from(String(text), (unit) => unit.codePointAt(0));
  if (bytes.some((byte) => byte > 255)) {
    throw new DOMException("Invalid character", "InvalidCharacterError");
  }
  return base64(Uint8Array.from(bytes));
}

function structuredClone(value, seen = new Map()) {
  if (value === null || typeof value !== "object") {
    if (typeof value === "function" || typeof value === "symbol") throw new TypeError(`a ${typeof value} cannot be cloned`);
    return value;
  }
  if (seen.has(value)) return seen.get(value);
  const keep = (copy) => (seen.set(value, copy), copy);
  const clone = (part) => structuredClone(part, seen);
  if (value instanceof Date) return keep(new Date(value));
  if (value instanceof RegExp) return keep(new RegExp(value));
  if (value instanceof ArrayBuffer) return keep(value.slice());
  if (ArrayBuffer.isView(value)) {
    const bytes = value.buffer.slice(value.byteOffset, value.byteOffset + value.byteLength);
    return keep(new value.constructor(bytes));
  }
  if (value instanceof Map) {
    const copy = keep(new Map());
    for (const [key, part] of value) copy.set(clone(key), clone(part));
    return copy;
  }
  if (value instanceof Set) {
    const copy = keep(new Set());
    for (const part of value) copy.add(clone(part));
    return copy;
  }
  if (value instanceof Error) return keep(Object.assign(new value.constructor(value.message), { stack: value.stack }));
  const copy = keep(Array.isArray(value) ? [] : {});
  for (const key of Object.keys(value)) copy[key] = clone(value[key]);
  return copy;
}

// Maximum nesting of JSON for the engine: it does not count the depth, and would crash with the program.
const LEVELS = 100_000;
const DEEP = new RegExp(`(?:[[{][^\\[\\]{}]*){${LEVELS >> 2}}`);

JSON.parse = function (text, reviver) {
  // Text nested that deep ends with brackets, or closes none.
  if (typeof text === "string" && text.length > LEVELS && (/[\]}\s]{16}$/.test(text) || !/[\]}]/.test(text)) && DEEP.test(text)) {
    throw new RangeError("Maximum call stack size exceeded");
  }
  return reviver === undefined ? parse(text) : parse(text, reviver);
};
Object.defineProperty(JSON.parse, "name", { value: "parse" });
Object.defineProperty(JSON, "parse", { enumerable: false });
