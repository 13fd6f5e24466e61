// Modules by name. Each is created at its first use: a module that a program does not import costs it nothing.
const makers = new Map();
const modules = new Map();

function define(name, make) {
  makers.set(name, make);
}

function builtin(name) {
  let found = modules.get(name);
  if (found === undefined) {
    const make = makers.get(name);
    if (make === undefined) return undefined;
    found = {};
    modules.set(name, found);
    const whole = make(found);
    if (whole !== undefined) modules.set(name, found = whole);
  }
  return found;
}

// Defines a global that is created when it is first read.
function lazy(name, make) {
  Object.defineProperty(globalThis, name, {
    configurable: true,
    enumerable: false,
    get() {
      const value = make();
      Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
      return value;
    },
    set(value) {
      Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
    },
  });
}

// Creates an error like Node's own: with a code, which is in the stack and not in the name.
function coded(Kind, code, message) {
  return Object.assign(new Kind(message), { code });
}

// Returns an async iterator over items that are already available.
function eventually(all) {
  const iterator = all[Symbol.iterator]();
  return {
    next: () => Promise.try(() => iterator.next()),
    return: (value) => Promise.resolve({ done: true, value }),
    [Symbol.asyncIterator]() { return this; },
  };
}
