// Evaluation of code given as text. The engine's own async functions would never continue, since it does not run
// their promises: such code is compiled first, like all code.
const WAITS = /\b(?:async|await)\b|\bimport\s*\(/;
const adapted = (text) => (typeof text === "string" && WAITS.test(text) ? recompiled(text) : text);
const NativeFunction = Function;

function made(target, args, Made) {
  if (Made !== undefined && Made !== NewFunction) return Reflect.construct(NativeFunction, args, Made);
  const texts = args.map(String);
  if (!texts.some((text) => WAITS.test(text))) return NativeFunction(...texts);
  const body = texts.pop() ?? "";
  return evaluate(adapted(`(function anonymous(${texts.join(",")}\n) {\n${body}\n})`));
}

const NewFunction = new Proxy(NativeFunction, {
  apply: (target, _, args) => made(target, args),
  construct: made,
});
Object.defineProperty(NativeFunction.prototype, "constructor", { value: NewFunction, writable: true, configurable: true });
globalThis.Function = NewFunction;
for (const [name, value] of [["__code", adapted], ["__eval", (text) => evaluate(adapted(text))]]) {
  Object.defineProperty(globalThis, name, { value });
}

// The engine's own import() returns a promise that is never settled.
Array.fromAsync = function fromAsync(items, map, self) {
  const iterator = items[Symbol.asyncIterator]?.() ?? (items[Symbol.iterator] ? items : Array.from(items))[Symbol.iterator]();
  const all = [];
  const step = () => Promise.resolve(iterator.next()).then(({ value, done }) => {
    if (done) return all;
    return Promise.resolve(value).then((one) => (map ? map.call(self, one, all.length) : one)).then((one) => {
      all.push(one);
      return step();
    });
  });
  return Promise.try(step);
};
if (typeof Atomics === "object") delete Atomics.waitAsync;
