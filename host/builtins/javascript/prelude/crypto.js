// Cryptographic random numbers, and clocks.
const crypto = {
  getRandomValues(view) {
    if (!ArrayBuffer.isView(view) || view instanceof Float32Array || view instanceof Float64Array || view instanceof DataView) {
      throw new DOMException("The data argument must be an integer-type TypedArray", "TypeMismatchError");
    }
    if (view.byteLength > 65_536) throw new DOMException(`The requested length exceeds 65,536 bytes`, "QuotaExceededError");
    new Uint8Array(view.buffer, view.byteOffset, view.byteLength).set(randomBytes(view.byteLength));
    return view;
  },
  randomUUID() {
    const bytes = randomBytes(16);
    bytes[6] = (bytes[6] & 15) | 64;
    bytes[8] = (bytes[8] & 63) | 128;
    const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
    return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
  },
  get subtle() { throw new DOMException("crypto.subtle is not available", "NotSupportedError"); },
};
Object.defineProperty(crypto, Symbol.toStringTag, { value: "Crypto" });

// The engine's own clock counts from the creation of its initial state.
const ticks = globalThis.performance;
let zero;

const performance = {
  now() {
    const now = ticks?.now() ?? Date.now();
    zero ??= now;
    return now - zero;
  },
  get timeOrigin() { return Date.now() - performance.now(); },
  mark: (name) => ({ name, entryType: "mark", startTime: performance.now(), duration: 0 }),
  measure: (name) => ({ name, entryType: "measure", startTime: 0, duration: performance.now() }),
  getEntries: () => [], getEntriesByName: () => [], getEntriesByType: () => [], clearMarks() {}, clearMeasures() {},
  toJSON: () => ({ timeOrigin: performance.timeOrigin }),
};
