// Cancellation by AbortController.
class DOMException extends Error {
  #name;
  constructor(message = "", name = "Error") {
    super(message);
    this.#name = String(name);
  }
  get name() { return this.#name; }
}

const ABORT = Symbol("abort");

class AbortSignal {
  [ABORT] = { aborted: false, reason: undefined, listeners: [] };
  onabort = null;

  constructor(key) {
    if (key !== ABORT) throw new TypeError("Illegal constructor");
  }
  get aborted() { return this[ABORT].aborted; }
  get reason() { return this[ABORT].reason; }
  throwIfAborted() { if (this.aborted) throw this.reason; }
  addEventListener(type, listener, options) {
    const { listeners } = this[ABORT];
    if (type !== "abort" || listener == null || listeners.some((one) => one.listener === listener)) return;
    listeners.push({ listener, once: options?.once === true });
  }
  removeEventListener(type, listener) {
    const own = this[ABORT];
    if (type === "abort") own.listeners = own.listeners.filter((one) => one.listener !== listener);
  }
  dispatchEvent(event) {
    const own = this[ABORT];
    const listeners = [...own.listeners];
    own.listeners = own.listeners.filter((one) => !one.once);
    if (typeof this.onabort === "function") guarded(this.onabort.bind(this), [event]);
    for (const { listener } of listeners) {
      guarded(typeof listener === "function" ? listener.bind(this) : listener.handleEvent.bind(listener), [event]);
    }
    return true;
  }
  static abort(reason) {
    return raised(new AbortSignal(ABORT), reason);
  }
  static timeout(millis) {
    const signal = new AbortSignal(ABORT);
    setTimeout(() => raised(signal, new DOMException("The operation was aborted due to timeout", "TimeoutError")), millis);
    return signal;
  }
  static any(all) {
    const signal = new AbortSignal(ABORT);
    for (const one of all) {
      if (one.aborted) raised(signal, one.reason);
      else one.addEventListener("abort", () => raised(signal, one.reason), { once: true });
    }
    return signal;
  }
}

function raised(signal, reason) {
  const own = signal[ABORT];
  if (own.aborted) return signal;
  own.aborted = true;
  own.reason = reason === undefined ? new DOMException("This operation was aborted", "AbortError") : reason;
  signal.dispatchEvent({ type: "abort", target: signal, currentTarget: signal });
  return signal;
}

class AbortController {
  signal = new AbortSignal(ABORT);
  abort(reason) { raised(this.signal, reason); }
}
