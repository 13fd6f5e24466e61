// Formatting of values as in Node.
const CUSTOM = Symbol.for("nodejs.util.inspect.custom");

function quoted(text) {
  const mark = !text.includes("'") ? "'" : !text.includes('"') ? '"' : !text.includes("`") ? "`" : "'";
  const plain = text.replace(/[\\\x00-\x1f\x7f-\x9f]/g, (letter) => {
    const short = { "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f", "\v": "\\v" }[letter];
    return short ?? `\\x${letter.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`;
  });
  return mark + (mark === "'" ? plain.replaceAll("'", "\\'") : plain) + mark;
}

const keyed = (key) => (typeof key === "symbol" ? `[${String(key)}]` : /^[A-Za-z_$][\w$]*$/.test(key) ? key : quoted(key));

function named(value) {
  for (let at = value; at !== null; at = Object.getPrototypeOf(at)) {
    const own = Object.getOwnPropertyDescriptor(at, "constructor")?.value;
    if (typeof own === "function" && own.name !== "") return own.name;
  }
  return null;
}

function functionShown(value) {
  const text = Function.prototype.toString.call(value);
  if (/^class\b/.test(text)) {
    const above = Object.getPrototypeOf(value)?.name;
    return `[class ${value.name || "(anonymous)"}${above ? ` extends ${above}` : ""}]`;
  }
  const kind = /^(?:async\s*)?function\s*\*/.test(text) ? "GeneratorFunction" : "Function";
  return value.name ? `[${kind}: ${value.name}]` : `[${kind} (anonymous)]`;
}

// The message of an error, and its stack.
function errorShown(error) {
  const stack = error.stack;
  if (typeof stack === "string" && stack !== "") return stack.trimEnd();
  return `[${Error.prototype.toString.call(error)}]`;
}

function primitiveShown(value, isTop) {
  if (typeof value === "string") return isTop ? value : quoted(value);
  if (typeof value === "bigint") return `${value}n`;
  return Object.is(value, -0) ? "-0" : String(value);
}

function inspect(value, options = {}) {
  const how = {
    depth: 2, compact: 3, breakLength: 80, maxArrayLength: 100, maxStringLength: 10_000, sorted: false, showHidden: false, getters: false,
    ...(typeof options === "object" ? options : { showHidden: options }),
  };
  if (how.depth === null) how.depth = Infinity;
  const circular = new Map();
  const show = (one, level, seen) => {
    if (one === null || (typeof one !== "object" && typeof one !== "function")) {
      if (typeof one === "string" && one.length > how.maxStringLength) {
        const more = one.length - how.maxStringLength;
        return `${quoted(one.slice(0, how.maxStringLength))}... ${more} more character${more > 1 ? "s" : ""}`;
      }
      return primitiveShown(one, false);
    }
    const custom = one[CUSTOM];
    if (typeof custom === "function" && custom !== inspect) {
      const told = custom.call(one, how.depth - level, { ...how, stylize: String }, inspect);
      if (typeof told !== "object" || told === null) return String(told).replaceAll("\n", `\n${"  ".repeat(level)}`);
      if (told !== one) return show(told, level, seen);
    }
    if (seen.includes(one)) {
      if (!circular.has(one)) circular.set(one, circular.size + 1);
      return `[Circular *${circular.get(one)}]`;
    }
    const shown = objectShown(one, level, [...seen, one], how, show);
    return circular.has(one) ? `<ref *${circular.get(one)}> ${shown}` : shown;
  };
  return show(value, 0, []);
}
Object.assign(inspect, { custom: CUSTOM, defaultOptions: {} });

function objectShown(value, level, seen, how, show) {
  const inner = (one) => show(one, level + 1, seen);


  let name = null;
  let keys;
  try {
    name = named(value);
    keys = Object.keys(value);
  } catch (error) {
    return `[object that cannot be shown: ${error.message}]`;
  }
  const symbols = value instanceof Promise ? [] : Object.getOwnPropertySymbols(value).filter((key) => Object.getOwnPropertyDescriptor(value, key)?.enumerable);
  const isArray = Array.isArray(value);
  const isTyped = ArrayBuffer.isView(value) && !(value instanceof DataView);
  let [prefix, open, close] = ["", "{", "}"];
  let base = "";
  let entries = [];
  const tag = value[Symbol.toStringTag];
  const tagged = typeof tag === "string" && tag !== "" && tag !== name ? `[${tag}] ` : "";
  if (isArray || isTyped) {
    [open, close] = ["[", "]"];
    if (name !== "Array") prefix = `${name ?? "[Array: null prototype]"}(${value.length}) `;
    keys = keys.filter((key) => !/^\d+$/.test(key));
  } else if (value instanceof Map || value instanceof Set) {
    prefix = `${name}(${value.size}) `;
  } else if (typeof value === "function") {
    base = functionShown(value);
  } else if (value instanceof Error) {
    base = errorShown(value).replaceAll("\n", `\n${"  ".repeat(level)}`);
    if (level > 0 && !base.includes("\n")) base = base.startsWith("[") ? base : `[${base}]`;
    keys = keys.filter((key) => key !== "stack" && key !== "message");
    if (Object.hasOwn(value, "cause") && !keys.includes("cause")) entries.push(`[cause]: ${inner(value.cause)}`);
    if (value instanceof AggregateError && !keys.includes("errors")) entries.push(`[errors]: ${inner(value.errors)}`);
  } else if (value instanceof Date) {
    base = Number.isNaN(+value) ? "Invalid Date" : value.toISOString();
  } else if (value instanceof RegExp) {
    base = String(value);
  } else if (value instanceof Promise) {
    prefix = "Promise ";
    const state = value[STATE];
    entries.push(state === PENDING ? "<pending>" : state === FULFILLED ? inner(value[VALUE]) : `<rejected> ${inner(value[VALUE])}`);
  } else if (value instanceof WeakMap || value instanceof WeakSet) {
    return `${name} { <items unknown> }`;
  } else if (value instanceof ArrayBuffer) {
    const bytes = Array.from(new Uint8Array(value).slice(0, 50), (byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const more = value.byteLength > 50 ? ` ... ${value.byteLength - 50} more bytes` : "";
    return `ArrayBuffer { [Uint8Contents]: <${bytes}${more}>, byteLength: ${value.byteLength} }`;
  } else if (value instanceof Number || value instanceof String || value instanceof Boolean) {
    base = `[${name}: ${primitiveShown(value.valueOf(), false)}]`;
    if (value instanceof String) keys = keys.filter((key) => !/^\d+$/.test(key));
  } else if (name === null) {
    prefix = `[Object: null prototype] ${tagged}`;
  } else if (name !== "Object" || tagged !== "") {
    prefix = `${name === "Object" && tag ? `Object ${tagged}` : tagged === "" ? `${name} ` : `${name} ${tagged}`}`;
    if (/ Iterator$/.test(tag ?? "") || tag === "Generator") prefix = `Object [${tag}] `;
  }
  const isEmpty = keys.length + symbols.length + entries.length === 0 && !((isArray || isTyped) && value.length > 0) && !((value instanceof Map || value instanceof Set) && value.size > 0);
  if (level > how.depth && !isEmpty) {
    if (isArray) return "[Array]";
    if (base === "") return `[${name === null ? "Object: null prototype" : isTyped || value instanceof Map || value instanceof Set ? name : `${name}${tagged && ` ${tagged.trim()}`}`}]`;
  }
  // The level that was shown last, as Node counts it.
  if (!isEmpty) how.current = level;
  if (isArray) {
    let holes = 0;
    const told = () => {
      if (holes > 0) entries.push(`<${holes} empty item${holes > 1 ? "s" : ""}>`);
      holes = 0;
    };
    const most = Math.min(value.length, how.maxArrayLength ?? Infinity);
    let at = 0;
    for (; at < value.length && entries.length < most; at++) {
      if (!(at in value)) {
        holes++;
        continue;
      }
      told();
      entries.push(inner(value[at]));
    }
    told();
    if (at < value.length) entries.push(`... ${value.length - at} more item${value.length - at > 1 ? "s" : ""}`);
  } else if (isTyped) {
    entries = Array.from(value.subarray(0, how.maxArrayLength ?? Infinity), (one) => primitiveShown(one, false));
    const more = value.length - entries.length;
    if (more > 0) entries.push(`... ${more} more item${more > 1 ? "s" : ""}`);
  } else if (value instanceof Map) {
    entries = [...value].map(([key, one]) => `${inner(key)} => ${inner(one)}`);
  } else if (value instanceof Set) {
    entries = [...value].map(inner);
  }
  if (how.sorted) keys.sort();
  for (const key of [...keys, ...symbols]) {
    const own = Object.getOwnPropertyDescriptor(value, key);
    const told = own?.get ? (own.set ? "[Getter/Setter]" : "[Getter]") : own?.set ? "[Setter]" : inner(own ? own.value : value[key]);
    entries.push(`${keyed(key)}: ${told}`);
  }
  if (base !== "") {
    if (entries.length === 0) return base;
    prefix = "";
  }
  if (entries.length === 0) return `${prefix}${open}${close}`;
  return layout(value, entries, { prefix, open, close, base, level, isList: isArray || isTyped }, how);
}

// Node's layout of a value's parts: on one line if it is short and not deep, and lists in columns.
function layout(value, entries, { prefix, open, close, base, level, isList }, how) {
  const margin = "  ".repeat(level);
  const compact = how.compact === false ? 0 : how.compact === true ? 3 : how.compact;
  const begin = `${base === "" ? "" : `${base} `}${prefix}${open}`;
  const rows = isList && entries.length > 6 && compact > 0 ? grouped(entries, value, level, how) : entries;
  if (compact > 0 && how.current - level < compact && rows === entries) {
    const start = rows.length + level * 2 + prefix.length + open.length + base.length + 10;
    const total = rows.reduce((sum, one) => sum + one.length, rows.length + start);
    const line = rows.join(", ");
    if (total <= how.breakLength && !base.includes("\n") && !line.includes("\n")) return `${begin} ${line} ${close}`;
  }
  return `${begin}\n${rows.map((one) => `${margin}  ${one}`).join(",\n")}\n${margin}${close}`;
}

function grouped(entries, value, level, how) {
  const hasMore = how.maxArrayLength < entries.length;
  const counted = hasMore ? entries.length - 1 : entries.length;
  const lengths = entries.slice(0, counted).map((one) => one.length);
  const total = lengths.reduce((sum, length) => sum + length + 2, 0);
  const longest = Math.max(...lengths);
  const widest = longest + 2;
  if (widest * 3 + level * 2 >= how.breakLength || !(total / widest > 5 || longest <= 6)) return entries;
  const biased = Math.max(widest - 3 - Math.sqrt(widest - total / entries.length), 1);
  const columns = Math.min(
    Math.round(Math.sqrt(2.5 * biased * counted) / biased),
    Math.floor((how.breakLength - level * 2) / widest),
    how.compact * 4,
    15,
  );
  if (columns <= 1) return entries;
  const widths = [];
  for (let column = 0; column < columns; column++) {
    let width = 0;
    for (let at = column; at < counted; at += columns) width = Math.max(width, lengths[at]);
    widths.push(width + 2);
  }
  let isRight = true;
  for (let at = 0; at < entries.length; at++) isRight &&= typeof value[at] === "number" || typeof value[at] === "bigint";
  const rows = [];
  for (let at = 0; at < counted; at += columns) {
    const end = Math.min(at + columns, counted);
    let row = "";
    let column = at;
    for (; column < end - 1; column++) {
      const cell = `${entries[column]}, `;
      row += isRight ? cell.padStart(widths[column - at]) : cell.padEnd(widths[column - at]);
    }
    rows.push(row + (isRight ? entries[column].padStart(widths[column - at] - 2) : entries[column]));
  }
  if (hasMore) rows.push(entries[counted]);
  return rows;
}

// Formats the arguments of `console.log` and `util.format`.
function format(...values) {
  const told = (one) => (typeof one === "string" ? one : inspect(one));
  if (typeof values[0] !== "string" || values.length === 1) return values.map(told).join(" ");
  let at = 1;
  const text = values[0].replace(/%[sdifjoOc%]/g, (mark) => {
    if (mark === "%%") return "%";
    if (at >= values.length) return mark;
    const value = values[at++];
    const number = (make) => (typeof value === "bigint" ? `${value}n` : typeof value === "symbol" ? "NaN" : primitiveShown(make(value), true));
    switch (mark) {
      case "%s": {
        if (typeof value === "string") return value;
        if (value === null || typeof value !== "object") return typeof value === "function" && !Object.hasOwn(value, "toString") ? String(value) : primitiveShown(value, true);
        const own = value.toString !== Object.prototype.toString && value.toString !== Array.prototype.toString && value.toString !== Error.prototype.toString;
        return own && !(value instanceof Date) ? String(value) : inspect(value, { depth: 0 });
      }
      case "%d": return number((one) => (typeof one === "object" ? NaN : Number(one)));
      case "%i": return number((one) => (typeof one === "object" ? NaN : Math.trunc(parseInt(one, 10))));
      case "%f": return number((one) => parseFloat(one));
      case "%j": try { return String(stringify(value)); } catch { return "[Circular]"; }
      case "%c": return "";
      case "%o": return inspect(value, { depth: 4, showHidden: true });
      default: return inspect(value);
    }
  });
  return [text, ...values.slice(at).map(told)].join(" ");
}
