// Modules by their names. Each is made when it is first asked for: what a program does not import costs it nothing.
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

// A global that is made when it is first read.
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

// An error as Node's own are: with a code, which is in the stack and not in the name.
function coded(Kind, code, message) {
  return Object.assign(new Kind(message), { code });
}

// What is there already, for those who wait for each part of it.
function eventually(all) {
  const iterator = all[Symbol.iterator]();
  return {
    next: () => Promise.try(() => iterator.next()),
    return: (value) => Promise.resolve({ done: true, value }),
    [Symbol.asyncIterator]() { return this; },
  };
}
