// Events.
define("events", () => {
  const LISTENERS = Symbol("listeners");
  const all = (emitter) => emitter[LISTENERS] ?? (Object.defineProperty(emitter, LISTENERS, { value: new Map(), configurable: true }), emitter[LISTENERS]);
  const checked = (listener) => {
    if (typeof listener !== "function") throw coded(TypeError, "ERR_INVALID_ARG_TYPE", `The "listener" argument must be of type function. Received ${listener === null ? "null" : typeof listener}`);
    return listener;
  };
  function EventEmitter() {}
  const add = (emitter, name, listener, isFirst, isOnce) => {
    checked(listener);
    if (name !== "newListener" && all(emitter).has("newListener")) emitter.emit("newListener", name, listener);
    const before = all(emitter).get(name) ?? [];
    const one = { listener, isOnce };
    all(emitter).set(name, isFirst ? [one, ...before] : [...before, one]);
    return emitter;
  };
  const methods = {
    on(name, listener) { return add(this, name, listener, false, false); },
    once(name, listener) { return add(this, name, listener, false, true); },
    prependListener(name, listener) { return add(this, name, listener, true, false); },
    prependOnceListener(name, listener) { return add(this, name, listener, true, true); },
    off(name, listener) {
      const before = all(this).get(name) ?? [];
      const at = before.findLastIndex((one) => one.listener === listener);
      if (at < 0) return this;
      const after = before.toSpliced(at, 1);
      if (after.length > 0) all(this).set(name, after);
      else all(this).delete(name);
      if (all(this).has("removeListener")) this.emit("removeListener", name, listener);
      return this;
    },
    removeAllListeners(name) {
      if (name === undefined) all(this).clear();
      else all(this).delete(name);
      return this;
    },
    emit(name, ...values) {
      const heard = all(this).get(name) ?? [];
      if (heard.length === 0 && name === "error") {
        const [error] = values;
        if (error instanceof Error) throw error;
        throw coded(Error, "ERR_UNHANDLED_ERROR", `Unhandled error. (${inspect(error)})`);
      }
      for (const one of heard) {
        if (one.isOnce) methods.off.call(this, name, one.listener);
        one.listener.apply(this, values);
      }
      return heard.length > 0;
    },
    listenerCount(name) { return (all(this).get(name) ?? []).length; },
    listeners(name) { return (all(this).get(name) ?? []).map((one) => one.listener); },
    rawListeners(name) { return methods.listeners.call(this, name); },
    eventNames() { return [...all(this).keys()]; },
    setMaxListeners() { return this; },
    getMaxListeners() { return 10; },
  };
  methods.addListener = methods.on;
  methods.removeListener = methods.off;
  for (const [name, value] of Object.entries(methods)) Object.defineProperty(EventEmitter.prototype, name, { value, writable: true, configurable: true });
  const once = (emitter, name) => new Promise((resolve, reject) => {
    if (typeof emitter.addEventListener === "function") return emitter.addEventListener(name, (event) => resolve([event]), { once: true });
    const failed = (error) => reject(error);
    emitter.once(name, (...values) => {
      emitter.off("error", failed);
      resolve(values);
    });
    if (name !== "error") emitter.once("error", failed);
  });
  const on = (emitter, name) => {
    const [ready, waiting] = [[], []];
    emitter.on(name, (...values) => (waiting.length > 0 ? waiting.shift().resolve({ value: values, done: false }) : ready.push(values)));
    return {
      next: () => {
        if (ready.length > 0) return Promise.resolve({ value: ready.shift(), done: false });
        const next = Promise.withResolvers();
        waiting.push(next);
        return next.promise;
      },
      return: () => Promise.resolve({ value: undefined, done: true }),
      [Symbol.asyncIterator]() { return this; },
    };
  };
  return Object.assign(EventEmitter, { EventEmitter, once, on, defaultMaxListeners: 10, errorMonitor: Symbol("events.errorMonitor"), listenerCount: (emitter, name) => emitter.listenerCount(name), setMaxListeners() {} });
});
