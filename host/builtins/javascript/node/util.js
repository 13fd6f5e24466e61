// Node's util module, and comparison of values.
define("util", (util) => {
  const isSame = (one, other, isStrict = true) => deepEqual(one, other, isStrict);
  const custom = Symbol.for("nodejs.util.promisify.custom");
  const tagOf = (value) => Object.prototype.toString.call(value).slice(8, -1);
  const is = (Kind) => (value) => value instanceof Kind;
  Object.assign(util, {
    inspect,
    format,
    formatWithOptions: (_, ...values) => format(...values),
    isDeepStrictEqual: (one, other) => isSame(one, other),
    promisify: Object.assign((work) => {
      if (typeof work !== "function") throw coded(TypeError, "ERR_INVALID_ARG_TYPE", 'The "original" argument must be of type function.');
      if (work[custom]) return work[custom];
      if (work === setTimeout || work === ownTimers.setTimeout) return builtin("timers/promises").setTimeout;
      return function (...all) {
        return new Promise((resolve, reject) => work.call(this, ...all, (error, value) => (error ? reject(error) : resolve(value))));
      };
    }, { custom }),
    callbackify: (work) => (...all) => {
      const done = all.pop();
      work(...all).then((value) => guarded(done, [null, value]), (error) => guarded(done, [error]));
    },
    inherits: (Kind, Above) => {
      Object.defineProperty(Kind, "super_", { value: Above, writable: true, configurable: true });
      Object.setPrototypeOf(Kind.prototype, Above.prototype);
    },
    deprecate: (work) => work,
    debuglog: () => Object.assign(() => {}, { enabled: false }),
    stripVTControlCharacters: (text) => text.replace(/\u001b\[[0-9;]*[A-Za-z]/g, ""),
    styleText: (_, text) => text,
    toUSVString: (text) => String(text).toWellFormed(),
    isArray: Array.isArray,
    TextEncoder, TextDecoder,
    parseArgs({ args = process.argv.slice(2), options = {}, allowPositionals = false, strict = true } = {}) {
      const values = Object.create(null);
      const positionals = [];
      for (const [name, { default: value }] of Object.entries(options)) if (value !== undefined) values[name] = value;
      const take = (name, value) => {
        const option = options[name];
        if (option === undefined && strict) throw coded(TypeError, "ERR_PARSE_ARGS_UNKNOWN_OPTION", `Unknown option '--${name}'`);
        if (option?.multiple) values[name] = [...(given.has(name) ? values[name] : []), value];
        else values[name] = value;
        given.add(name);
      };
      const given = new Set();
      for (let at = 0; at < args.length; at++) {
        const one = args[at];
        if (one === "--") {
          positionals.push(...args.slice(at + 1));
          break;
        }
        const long = /^--([^=]+)(?:=([^]*))?$/.exec(one);
        const short = /^-([^-])$/.exec(one);
        if (long === null && short === null) {
          if (!allowPositionals && strict) throw coded(TypeError, "ERR_PARSE_ARGS_UNEXPECTED_POSITIONAL", `Unexpected argument '${one}'. This command does not take positional arguments`);
          positionals.push(one);
          continue;
        }
        const name = long?.[1] ?? Object.keys(options).find((key) => options[key].short === short[1]) ?? short[1];
        if (options[name]?.type === "string") {
          const value = long?.[2] ?? args[++at];
          if (value === undefined) throw coded(TypeError, "ERR_PARSE_ARGS_INVALID_OPTION_VALUE", `Option '--${name} <value>' argument missing`);
          take(name, value);
        } else take(name, long?.[2] === undefined ? true : long[2]);
      }
      return { values, positionals };
    },
    types: {
      isDate: is(Date), isRegExp: is(RegExp), isMap: is(Map), isSet: is(Set), isWeakMap: is(WeakMap), isWeakSet: is(WeakSet), isPromise: is(Promise), isNativeError: is(Error),
      isTypedArray: (value) => ArrayBuffer.isView(value) && !(value instanceof DataView), isUint8Array: is(Uint8Array), isArrayBuffer: is(ArrayBuffer), isAnyArrayBuffer: is(ArrayBuffer),
      isDataView: is(DataView), isArrayBufferView: ArrayBuffer.isView, isBoxedPrimitive: (value) => typeof value === "object" && ["Number", "String", "Boolean", "Symbol", "BigInt"].includes(tagOf(value)),
      isGeneratorObject: (value) => tagOf(value) === "Generator", isGeneratorFunction: (value) => tagOf(value) === "GeneratorFunction",
      isAsyncFunction() { throw coded(Error, "ERR_FEATURE_UNAVAILABLE", "util.types.isAsyncFunction is not available: async functions are compiled to plain ones"); },
      isProxy() { throw coded(Error, "ERR_FEATURE_UNAVAILABLE", "util.types.isProxy is not available"); },
    },
  });
  const plain = { isString: "string", isNumber: "number", isBoolean: "boolean", isFunction: "function", isUndefined: "undefined", isSymbol: "symbol" };
  for (const [name, type] of Object.entries(plain)) util[name] = (value) => typeof value === type;
  Object.assign(util, { isObject: (value) => value !== null && typeof value === "object", isNull: (value) => value === null, isDate: util.types.isDate, isRegExp: util.types.isRegExp, isError: util.types.isNativeError });
});
define("util/types", () => builtin("util").types);

function deepEqual(one, other, isStrict, seen = new Map()) {
  if (isStrict ? Object.is(one, other) : one == other || (one !== one && other !== other)) return true;
  if (one === null || other === null || typeof one !== "object" || typeof other !== "object") return false;
  if (isStrict && Object.getPrototypeOf(one) !== Object.getPrototypeOf(other)) return false;
  if (Array.isArray(one) !== Array.isArray(other)) return false;
  if (seen.get(one) === other) return true;
  seen.set(one, other);
  const same = (first, second) => deepEqual(first, second, isStrict, seen);
  if (one instanceof Date && other instanceof Date) return one.getTime() === other.getTime();
  if (one instanceof RegExp && other instanceof RegExp) return String(one) === String(other) && one.lastIndex === other.lastIndex;
  if (one instanceof Error && (one.message !== other.message || one.name !== other.name)) return false;
  if (ArrayBuffer.isView(one) && ArrayBuffer.isView(other)) {
    return one.length === other.length && Array.prototype.every.call(one, (value, at) => (isStrict ? Object.is(value, other[at]) : value === other[at]));
  }
  for (const Boxed of [Number, String, Boolean]) {
    if (one instanceof Boxed && !Object.is(one.valueOf(), other.valueOf())) return false;
  }
  if (one instanceof Set) {
    if (!(other instanceof Set) || one.size !== other.size) return false;
    const rest = [...other];
    return [...one].every((value) => {
      const at = rest.findIndex((candidate) => same(value, candidate));
      if (at >= 0) rest.splice(at, 1);
      return at >= 0;
    });
  }
  if (one instanceof Map) {
    if (!(other instanceof Map) || one.size !== other.size) return false;
    const rest = [...other];
    return [...one].every(([key, value]) => {
      const at = rest.findIndex(([candidate, held]) => same(key, candidate) && same(value, held));
      if (at >= 0) rest.splice(at, 1);
      return at >= 0;
    });
  }
  const keys = (value) => [...Object.keys(value), ...(isStrict ? Object.getOwnPropertySymbols(value).filter((key) => Object.prototype.propertyIsEnumerable.call(value, key)) : [])];
  const [first, second] = [keys(one), keys(other)];
  return first.length === second.length && first.every((key) => Object.hasOwn(other, key) && same(one[key], other[key]));
}
