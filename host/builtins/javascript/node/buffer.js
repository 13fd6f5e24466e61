// Buffers: bytes with Node's encodings.
define("buffer", (exports) => {
  const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));
  const ENCODINGS = {
    utf8: "utf8", "utf-8": "utf8", hex: "hex", base64: "base64", base64url: "base64url", latin1: "latin1", binary: "latin1", ascii: "ascii",
    ucs2: "utf16le", "ucs-2": "utf16le", utf16le: "utf16le", "utf-16le": "utf16le",
  };
  const known = (encoding) => {
    const name = ENCODINGS[String(encoding ?? "utf8").toLowerCase()];
    if (name === undefined) throw coded(TypeError, "ERR_UNKNOWN_ENCODING", `Unknown encoding: ${encoding}`);
    return name;
  };
  const units = (text, width) => {
    const bytes = new Uint8Array(text.length * width);
    for (let at = 0; at < text.length; at++) {
      const unit = text.charCodeAt(at);
      bytes[at * width] = unit;
      if (width === 2) bytes[at * 2 + 1] = unit >> 8;
    }
    return bytes;
  };
  const encoded = (text, encoding) => {
    switch (known(encoding)) {
      case "hex": {
        const whole = /^(?:[0-9a-f]{2})*/i.exec(text)[0];
        const bytes = new Uint8Array(whole.length / 2);
        for (let at = 0; at < bytes.length; at++) bytes[at] = parseInt(whole.slice(at * 2, at * 2 + 2), 16);
        return bytes;
      }
      case "base64": case "base64url": {
        const plain = text.replace(/=[^]*$/, "").replaceAll("-", "+").replaceAll("_", "/").replace(/[^A-Za-z0-9+/]/g, "");
        return units(fromBase64(plain.length % 4 === 1 ? plain.slice(0, -1) : plain), 1);
      }
      case "latin1": case "ascii": return units(text, 1);
      case "utf16le": return units(text, 2);
      default: return new TextEncoder().encode(text);
    }
  };
  const decoded = (bytes, encoding) => {
    let text = "";
    const pieces = (make) => {
      for (let at = 0; at < bytes.length; at += 4096) text += make(bytes.subarray(at, at + 4096));
      return text;
    };
    switch (known(encoding)) {
      case "hex": return pieces((part) => Array.prototype.map.call(part, (byte) => HEX[byte]).join(""));
      case "base64": return base64(bytes);
      case "base64url": return base64(bytes).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
      case "latin1": return pieces((part) => String.fromCharCode(...part));
      case "ascii": return pieces((part) => String.fromCharCode(...Array.from(part, (byte) => byte & 127)));
      case "utf16le": {
        const whole = bytes.length & ~1;
        for (let at = 0; at < whole; at += 2) text += String.fromCharCode(bytes[at] | (bytes[at + 1] << 8));
        return text;
      }
      default: return decodeUtf8(bytes);
    }
  };
  const own = (bytes) => Object.setPrototypeOf(bytes, Buffer.prototype);
  const wrongType = (name, what, value) => coded(TypeError, "ERR_INVALID_ARG_TYPE",
    `The ${name} must be ${what}. Received ${value === null ? "null" : value === undefined ? "undefined" : `type ${typeof value} (${inspectBrief(value)})`}`);
  const inspectBrief = (value) => (typeof value === "string" ? `'${value}'` : String(value));
  const range = (buffer, offset, width) => {
    if (typeof offset !== "number") throw wrongType('"offset" argument', "of type number", offset);
    if (!Number.isInteger(offset) || offset < 0 || offset + width > buffer.length) {
      const most = buffer.length - width;
      if (most < 0) throw coded(RangeError, "ERR_BUFFER_OUT_OF_BOUNDS", "Attempt to access memory outside buffer bounds");
      throw coded(RangeError, "ERR_OUT_OF_RANGE", `The value of "offset" is out of range. It must be ${Number.isInteger(offset) ? `>= 0 and <= ${most}` : "an integer"}. Received ${offset}`);
    }
  };
  const needle = (value, encoding) => (typeof value === "number" ? Uint8Array.of(value & 255) : typeof value === "string" ? encoded(value, encoding) : value);

  class Buffer extends Uint8Array {
    static poolSize = 8192;
    static from(value, encoding, length) {
      if (typeof value === "string") return own(encoded(value, encoding));
      if (value instanceof ArrayBuffer || (typeof SharedArrayBuffer === "function" && value instanceof SharedArrayBuffer)) return own(new Uint8Array(value, encoding, length));
      if (ArrayBuffer.isView(value)) return own(Uint8Array.from(value));
      if (value !== null && typeof value === "object") {
        if (value.type === "Buffer" && Array.isArray(value.data)) return own(Uint8Array.from(value.data));
        if (typeof value.length === "number") return own(Uint8Array.from(value));
        const plain = value.valueOf?.();
        if (plain != null && plain !== value) return Buffer.from(plain, encoding, length);
      }
      throw wrongType("first argument", "of type string or an instance of Buffer, ArrayBuffer, or Array or an Array-like Object", value);
    }
    static of(...bytes) { return own(Uint8Array.of(...bytes)); }
    static alloc(size, fill, encoding) {
      if (typeof size !== "number") throw wrongType('"size" argument', "of type number", size);
      if (!(size >= 0)) throw coded(RangeError, "ERR_OUT_OF_RANGE", `The value of "size" is out of range. It must be >= 0 && <= 9007199254740991. Received ${size}`);
      const bytes = own(new Uint8Array(size));
      return fill === undefined || fill === 0 ? bytes : bytes.fill(fill, encoding);
    }
    static allocUnsafe(size) { return Buffer.alloc(size); }
    static allocUnsafeSlow(size) { return Buffer.alloc(size); }
    static isBuffer(value) { return value instanceof Buffer; }
    static isEncoding(name) { return typeof name === "string" && ENCODINGS[name.toLowerCase()] !== undefined; }
    static byteLength(value, encoding) {
      if (typeof value === "string") return encoded(value, encoding).length;
      if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return value.byteLength;
      throw wrongType('"string" argument', "of type string or an instance of Buffer or ArrayBuffer", value);
    }
    static concat(list, length) {
      if (!Array.isArray(list)) throw wrongType('"list" argument', "an instance of Array", list);
      const whole = Buffer.alloc(length ?? list.reduce((sum, one) => sum + one.length, 0));
      let at = 0;
      for (const one of list) {
        if (at >= whole.length) break;
        whole.set(one.subarray(0, whole.length - at), at);
        at += one.length;
      }
      return whole;
    }
    static compare(one, other) {
      const most = Math.min(one.length, other.length);
      for (let at = 0; at < most; at++) if (one[at] !== other[at]) return one[at] < other[at] ? -1 : 1;
      return Math.sign(one.length - other.length);
    }
    get parent() { return this.buffer; }
    get offset() { return this.byteOffset; }
    toString(encoding, start = 0, end = this.length) {
      return decoded(start <= 0 && end >= this.length ? this : this.subarray(Math.max(0, start), Math.max(0, end)), encoding);
    }
    toLocaleString(encoding, start, end) { return this.toString(encoding, start, end); }
    toJSON() { return { type: "Buffer", data: Array.from(this) }; }
    equals(other) {
      if (!(other instanceof Uint8Array)) throw wrongType('"otherBuffer" argument', "an instance of Buffer or Uint8Array", other);
      return Buffer.compare(this, other) === 0;
    }
    compare(other, from = 0, to = other.length, start = 0, end = this.length) { return Buffer.compare(this.subarray(start, end), other.subarray(from, to)); }
    subarray(start, end) { return own(super.subarray(start, end)); }
    slice(start, end) { return this.subarray(start, end); }
    copy(target, to = 0, start = 0, end = this.length) {
      const part = Uint8Array.prototype.subarray.call(this, start, Math.min(end, start + Math.max(0, target.length - to)));
      target.set(part, to);
      return part.length;
    }
    write(text, offset, length, encoding) {
      if (typeof offset === "string") [offset, length, encoding] = [0, undefined, offset];
      else if (typeof length === "string") [length, encoding] = [undefined, length];
      const at = offset ?? 0;
      let bytes = encoded(text, encoding).subarray(0, Math.min(length ?? Infinity, this.length - at));
      // Never writes part of a character.
      if (known(encoding) === "utf8") {
        let end = bytes.length;
        const whole = encoded(text, encoding);
        while (end > 0 && end < whole.length && (whole[end] & 0xc0) === 0x80) end--;
        bytes = bytes.subarray(0, end);
      }
      this.set(bytes, at);
      return bytes.length;
    }
    fill(value, start = 0, end = this.length, encoding = undefined) {
      if (typeof start === "string") [start, end, encoding] = [0, this.length, start];
      else if (typeof end === "string") [end, encoding] = [this.length, end];
      const bytes = typeof value === "string" ? encoded(value, encoding) : typeof value === "number" || typeof value === "boolean" ? Uint8Array.of(Number(value) & 255) : value;
      for (let at = start; at < end; at++) this[at] = bytes.length === 0 ? 0 : bytes[(at - start) % bytes.length];
      return this;
    }
    indexOf(value, from = 0, encoding = undefined) {
      if (typeof from === "string") [from, encoding] = [0, from];
      const bytes = needle(value, encoding);
      let at = from < 0 ? Math.max(0, this.length + from) : from;
      for (; at + bytes.length <= this.length; at++) {
        let same = 0;
        while (same < bytes.length && this[at + same] === bytes[same]) same++;
        if (same === bytes.length) return at;
      }
      return -1;
    }
    lastIndexOf(value, from = this.length, encoding = undefined) {
      if (typeof from === "string") [from, encoding] = [this.length, from];
      const bytes = needle(value, encoding);
      for (let at = Math.min(from < 0 ? this.length + from : from, this.length - bytes.length); at >= 0; at--) {
        if (bytes.every((byte, index) => this[at + index] === byte)) return at;
      }
      return -1;
    }
    includes(value, from, encoding) { return this.indexOf(value, from, encoding) !== -1; }
    swap(width) {
      if (this.length % width !== 0) throw coded(RangeError, "ERR_INVALID_BUFFER_SIZE", `Buffer size must be a multiple of ${width * 8}-bits`);
      for (let at = 0; at < this.length; at += width) Uint8Array.prototype.reverse.call(Uint8Array.prototype.subarray.call(this, at, at + width));
      return this;
    }
    swap16() { return this.swap(2); }
    swap32() { return this.swap(4); }
    swap64() { return this.swap(8); }
    readUIntBE(at, width) {
      range(this, at, width);
      let value = 0;
      for (let index = 0; index < width; index++) value = value * 256 + this[at + index];
      return value;
    }
    readUIntLE(at, width) {
      range(this, at, width);
      let value = 0;
      for (let index = width; index-- > 0;) value = value * 256 + this[at + index];
      return value;
    }
    readIntBE(at, width) {
      const value = this.readUIntBE(at, width);
      return value >= 2 ** (width * 8 - 1) ? value - 2 ** (width * 8) : value;
    }
    readIntLE(at, width) {
      const value = this.readUIntLE(at, width);
      return value >= 2 ** (width * 8 - 1) ? value - 2 ** (width * 8) : value;
    }
    writeUIntBE(value, at, width) {
      this.writeUIntLE(value, at, width);
      Uint8Array.prototype.reverse.call(Uint8Array.prototype.subarray.call(this, at, at + width));
      return at + width;
    }
    writeUIntLE(value, at, width) {
      range(this, at, width);
      if (!(value >= -(2 ** (width * 8 - 1)) && value < 2 ** (width * 8))) {
        throw coded(RangeError, "ERR_OUT_OF_RANGE", `The value of "value" is out of range. It must be >= 0 and <= ${2 ** (width * 8) - 1}. Received ${value}`);
      }
      let rest = value < 0 ? value + 2 ** (width * 8) : Math.trunc(value);
      for (let index = 0; index < width; index++) {
        this[at + index] = rest % 256;
        rest = Math.floor(rest / 256);
      }
      return at + width;
    }
    [Symbol.for("nodejs.util.inspect.custom")]() {
      const shown = Array.from(Uint8Array.prototype.subarray.call(this, 0, 50), (byte) => HEX[byte]).join(" ");
      const more = this.length - 50;
      return `<Buffer${shown && ` ${shown}`}${more > 0 ? ` ... ${more} more byte${more > 1 ? "s" : ""}` : ""}>`;
    }
  }
  Buffer.prototype.writeIntBE = Buffer.prototype.writeUIntBE;
  Buffer.prototype.writeIntLE = Buffer.prototype.writeUIntLE;
  const add = (name, work) => {
    Object.defineProperty(Buffer.prototype, name, { value: work, writable: true, configurable: true });
    if (name.includes("UI")) Object.defineProperty(Buffer.prototype, name.replace("UI", "Ui"), { value: work, writable: true, configurable: true });
    if (name.includes("BigUI")) Object.defineProperty(Buffer.prototype, name.replace("BigUI", "BigUi"), { value: work, writable: true, configurable: true });
  };
  for (const end of ["BE", "LE"]) {
    for (const [bits, kind] of [[8, "UInt"], [8, "Int"], [16, "UInt"], [16, "Int"], [32, "UInt"], [32, "Int"]]) {
      const name = bits === 8 ? `${kind}8` : `${kind}${bits}${end}`;
      add(`read${name}`, function (at = 0) { return this[`read${kind}${end}`](at, bits / 8); });
      add(`write${name}`, function (value, at = 0) { return this[`write${kind}${end}`](value, at, bits / 8); });
    }
    for (const [name, width] of [["BigUInt64", 8], ["BigInt64", 8], ["Float", 4], ["Double", 8]]) {
      const call = name === "Float" ? "Float32" : name === "Double" ? "Float64" : name.replace("UI", "Ui");
      const view = (buffer, at) => {
        range(buffer, at, width);
        return new DataView(buffer.buffer, buffer.byteOffset + at, width);
      };
      add(`read${name}${end}`, function (at = 0) { return view(this, at)[`get${call}`](0, end === "LE"); });
      add(`write${name}${end}`, function (value, at = 0) {
        view(this, at)[`set${call}`](0, value, end === "LE");
        return at + width;
      });
    }
  }
  const Class = Buffer;
  // `Buffer(…)` and `new Buffer(…)` are deprecated, but still used.
  const callable = new Proxy(Class, {
    apply: (_, self, [value, ...more]) => (typeof value === "number" ? Class.alloc(value) : Class.from(value, ...more)),
    construct: (target, args, made) => (made !== callable ? Reflect.construct(target, args, made)
      : typeof args[0] === "number" ? Class.alloc(args[0]) : Class.from(...args)),
  });
  Object.defineProperty(Class.prototype, "constructor", { value: callable, writable: true, configurable: true });
  Object.assign(exports, { Buffer: callable, kMaxLength: 2 ** 31 - 1, constants: { MAX_LENGTH: 2 ** 31 - 1, MAX_STRING_LENGTH: 2 ** 29 - 24 }, INSPECT_MAX_BYTES: 50, atob: fromBase64, btoa: toBase64 });
});

function decodeUtf8(bytes) {
  const text = new TextDecoder().decode(bytes);
  // The decoder drops a byte order mark, but a buffer keeps it.
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? `\ufeff${text}` : text;
}
