// Hashes computed by the host, and cryptographic random numbers.
define("crypto", (exports) => {
  const { Buffer } = builtin("buffer");
  const NAMES = { md5: "md5", sha1: "sha1", sha256: "sha256", sha384: "sha384", sha512: "sha512", "sha512-256": "sha512-256" };
  const LONG = { sha384: 128, sha512: 128, "sha512-256": 128 };
  const PART = 1 << 20;
  const known = (name) => {
    const plain = NAMES[String(name).toLowerCase().replace(/^rsa-/, "").replace(/^sha-/, "sha")];
    if (plain === undefined) throw coded(Error, "ERR_OSSL_EVP_UNSUPPORTED", `Digest method not supported: ${name}; there is ${Object.keys(NAMES).join(", ")}`);
    return plain;
  };
  const bytesOf = (data, encoding) => {
    if (typeof data === "string") return Buffer.from(data, encoding);
    if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    if (data instanceof ArrayBuffer) return new Uint8Array(data);
    throw coded(TypeError, "ERR_INVALID_ARG_TYPE", `The "data" argument must be of type string or an instance of Buffer, TypedArray, or DataView. Received ${inspect(data, { depth: 0 })}`);
  };
  const digest = (algorithm, bytes) => {
    if (algorithm === "md5") return Buffer.from(md5(bytes));
    for (let at = 0; ; at += PART) {
      const last = at + PART >= bytes.length;
      const done = ask("hash", { algorithm, first: at === 0, last }, bytes.slice(at, at + PART));
      if (last) return Buffer.from(done[1]);
    }
  };
  const told = (bytes, encoding) => (encoding === undefined || encoding === "buffer" ? bytes : bytes.toString(encoding));
  class Hash {
    #parts = [];
    #finish;
    #isDone = false;
    constructor(finish) { this.#finish = finish; }
    update(data, encoding) {
      if (this.#isDone) throw coded(Error, "ERR_CRYPTO_HASH_FINALIZED", "Digest already called");
      this.#parts.push(Uint8Array.from(bytesOf(data, encoding)));
      return this;
    }
    digest(encoding) {
      if (this.#isDone) throw coded(Error, "ERR_CRYPTO_HASH_FINALIZED", "Digest already called");
      this.#isDone = true;
      return told(this.#finish(Buffer.concat(this.#parts)), encoding);
    }
    copy() {
      const copy = new Hash(this.#finish);
      for (const part of this.#parts) copy.update(part);
      return copy;
    }
    write(data) { this.update(data); return true; }
    on() { return this; }
    once() { return this; }
    emit() { return false; }
    end(data) { if (data !== undefined) this.update(data); return this; }
  }
  const hmac = (algorithm, key, bytes) => {
    const block = LONG[algorithm] ?? 64;
    const padded = Buffer.alloc(block);
    padded.set(key.length > block ? digest(algorithm, key) : key);
    const inner = digest(algorithm, Buffer.concat([padded.map((byte) => byte ^ 0x36), bytes]));
    return digest(algorithm, Buffer.concat([padded.map((byte) => byte ^ 0x5c), inner]));
  };
  const callback = (work) => (...all) => {
    const done = typeof all.at(-1) === "function" ? all.pop() : undefined;
    if (done === undefined) return work(...all);
    Promise.try(work, ...all).then((value) => guarded(done, [null, value]), (error) => guarded(done, [error]));
  };
  const integer = (least, most) => {
    if (most === undefined) [least, most] = [0, least];
    if (!Number.isSafeInteger(least) || !Number.isSafeInteger(most) || most <= least || most - least > 2 ** 48 - 1) {
      throw coded(RangeError, "ERR_OUT_OF_RANGE", `The value of "max" is out of range. It must be greater than the value of "min" (${least}). Received ${most}`);
    }
    const range = most - least;
    for (;;) {
      const number = Buffer.from(randomBytes(6)).readUIntBE(0, 6);
      if (number < 2 ** 48 - (2 ** 48 % range)) return least + (number % range);
    }
  };
  const derived = (password, salt, rounds, length, name) => {
    const algorithm = known(name);
    const [key, seed] = [bytesOf(password), Buffer.from(bytesOf(salt))];
    const blocks = [];
    for (let number = 1, size = 0; size < length; number++) {
      const count = Buffer.alloc(4);
      count.writeUInt32BE(number);
      let last = hmac(algorithm, key, Buffer.concat([seed, count]));
      const block = Buffer.from(last);
      for (let round = 1; round < rounds; round++) {
        last = hmac(algorithm, key, last);
        for (let at = 0; at < block.length; at++) block[at] ^= last[at];
      }
      blocks.push(block);
      size += block.length;
    }
    return Buffer.concat(blocks).subarray(0, length);
  };
  const own = {
    createHash: (name) => {
      const algorithm = known(name);
      return new Hash((bytes) => digest(algorithm, bytes));
    },
    createHmac: (name, key) => {
      const algorithm = known(name);
      return new Hash((bytes) => hmac(algorithm, bytesOf(key), bytes));
    },
    hash: (name, data, encoding = "hex") => told(digest(known(name), bytesOf(data)), encoding),
    getHashes: () => Object.keys(NAMES),
    randomBytes: callback((count) => Buffer.from(randomBytes(count))),
    randomFillSync: (view) => crypto.getRandomValues(view),
    randomFill: callback((view) => crypto.getRandomValues(view)),
    randomInt: callback(integer),
    randomUUID: () => crypto.randomUUID(),
    getRandomValues: (view) => crypto.getRandomValues(view),
    timingSafeEqual(one, other) {
      if (one.byteLength !== other.byteLength) throw coded(RangeError, "ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH", "Input buffers must have the same byte length");
      const [first, second] = [bytesOf(one), bytesOf(other)];
      let difference = 0;
      for (let at = 0; at < first.length; at++) difference |= first[at] ^ second[at];
      return difference === 0;
    },
    pbkdf2Sync: derived,
    pbkdf2: callback(derived),
    webcrypto: crypto,
    get subtle() { return crypto.subtle; },
    constants: {},
  };
  Object.defineProperties(exports, Object.getOwnPropertyDescriptors(own));
  for (const name of ["createCipheriv", "createDecipheriv", "createSign", "createVerify", "generateKeyPairSync", "generateKeyPair", "scryptSync", "scrypt", "publicEncrypt", "privateDecrypt", "sign", "verify", "createECDH", "createDiffieHellman", "hkdfSync"]) {
    exports[name] = () => { throw coded(Error, "ERR_FEATURE_UNAVAILABLE", `crypto.${name} is not available: hashes, HMAC, pbkdf2 and random numbers are; Python's standard library has more`); };
  }
});

// RFC 1321.
function md5(bytes) {
  const SHIFTS = [7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21];
  const SINES = Int32Array.from({ length: 64 }, (_, at) => Math.floor(Math.abs(Math.sin(at + 1)) * 2 ** 32) | 0);
  const whole = new Uint8Array((((bytes.length + 8) >> 6) + 1) << 6);
  whole.set(bytes);
  whole[bytes.length] = 0x80;
  const view = new DataView(whole.buffer);
  view.setUint32(whole.length - 8, bytes.length << 3, true);
  view.setUint32(whole.length - 4, Math.floor(bytes.length / 2 ** 29), true);
  const state = [0x67452301, 0xefcdab89 | 0, 0x98badcfe | 0, 0x10325476];
  for (let block = 0; block < whole.length; block += 64) {
    let [a, b, c, d] = state;
    for (let at = 0; at < 64; at++) {
      const round = at >> 4;
      const [mixed, word] = round === 0 ? [(b & c) | (~b & d), at] : round === 1 ? [(d & b) | (~d & c), (5 * at + 1) & 15]
        : round === 2 ? [b ^ c ^ d, (3 * at + 5) & 15] : [c ^ (b | ~d), (7 * at) & 15];
      const sum = (a + mixed + SINES[at] + view.getInt32(block + word * 4, true)) | 0;
      const shift = SHIFTS[round * 4 + (at & 3)];
      [a, d, c, b] = [d, c, b, (b + ((sum << shift) | (sum >>> (32 - shift)))) | 0];
    }
    [a, b, c, d].forEach((value, at) => { state[at] = (state[at] + value) | 0; });
  }
  const out = new DataView(new ArrayBuffer(16));
  state.forEach((value, at) => out.setInt32(at * 4, value, true));
  return new Uint8Array(out.buffer);
}
