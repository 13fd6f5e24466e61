// Formatting of numbers and dates and collation, for en-US and UTC. Anything else is refused instead of guessed.
const UTC = /^(?:utc|gmt|etc\/(?:utc|gmt|uct|zulu)|zulu|\+00:?00)$/i;
const MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const SIGNS = { USD: "$", EUR: "€", GBP: "£", JPY: "¥", INR: "₹", CNY: "CN¥", KRW: "₩", BRL: "R$", CAD: "CA$", AUD: "A$", MXN: "MX$", NZD: "NZ$", HKD: "HK$", ILS: "₪", VND: "₫", TWD: "NT$", PHP: "₱" };
const WHOLE = new Set(["JPY", "KRW", "VND", "CLP", "ISK", "XAF", "XOF"]);
const ENGLISH = /^en(?:-us)?(?:-u-.*)?$/i;

function locale(wanted) {
  const all = wanted === undefined ? [] : Array.isArray(wanted) ? wanted : [wanted];
  for (const one of all) {
    if (typeof one !== "string" && (one === null || typeof one !== "object")) throw new TypeError("Incorrect locale information provided");
    if (typeof one === "string" && !/^[a-z]{2,8}(?:-[a-z0-9]{1,8})*$/i.test(one)) throw new RangeError(`Incorrect locale information provided: ${one}`);
  }
  if (all.length > 0 && !all.some((one) => ENGLISH.test(String(one)))) {
    throw new RangeError(`the locale ${all[0]} is not supported: only en-US is; format the text yourself`);
  }
  return "en-US";
}

function choice(options, name, known, otherwise) {
  const value = options[name];
  if (value === undefined) return otherwise;
  if (!known.includes(String(value))) throw new RangeError(`Value ${value} out of range for Intl options property ${name}, which is one of ${known.join(", ")} here`);
  return String(value);
}

function bound(options, name, least, most, otherwise) {
  const value = options[name];
  if (value === undefined) return otherwise;
  if (!(Number(value) >= least && Number(value) <= most)) throw new RangeError(`${name} value is out of range.`);
  return Math.floor(Number(value));
}

// Returns the shortest digits before and after the decimal point that identify the number.
function digitsOf(value) {
  const [, whole, part = "", power = "0"] = /^-?(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(String(value));
  const at = whole.length + Number(power);
  const all = whole + part;
  if (at <= 0) return ["0", "0".repeat(-at) + all];
  return [all.slice(0, at).padEnd(at, "0").replace(/^0+(?=\d)/, ""), all.slice(at)];
}

function rounded([whole, part], most) {
  if (part.length <= most) return [whole, part];
  const up = part[most] >= "5" ? 1n : 0n;
  const all = String(BigInt(whole + part.slice(0, most)) + up).padStart(most + 1, "0");
  return [all.slice(0, all.length - most), all.slice(all.length - most)];
}

function significant([whole, part], least, most) {
  const first = whole === "0" ? -/^0*/.exec(part)[0].length : whole.length;
  let done;
  if (most >= first) done = rounded([whole, part], most - first);
  else {
    const drop = first - most;
    const unit = 10n ** BigInt(drop);
    done = [String(((BigInt(whole) + unit / 2n) / unit) * unit), ""];
  }
  const shown = done[0] === "0" ? 0 : done[0].length;
  const lead = done[0] === "0" ? /^0*/.exec(done[1])[0].length : 0;
  const kept = done[1].replace(/0+$/, "");
  return [done[0], kept.padEnd(Math.max(0, least - shown + lead), "0")];
}

class NumberFormat {
  #how;
  constructor(locales, options = {}) {
    locale(locales);
    const style = choice(options, "style", ["decimal", "percent", "currency"], "decimal");
    const notation = choice(options, "notation", ["standard", "compact"], "standard");
    const currency = options.currency === undefined ? undefined : String(options.currency).toUpperCase();
    if (style === "currency" && currency === undefined) throw new TypeError("Currency code is required with currency style.");
    if (currency !== undefined && !/^[A-Z]{3}$/.test(currency)) throw new RangeError(`Invalid currency code : ${options.currency}`);
    const [low, high] = style === "currency" ? (WHOLE.has(currency) ? [0, 0] : [2, 2]) : style === "percent" ? [0, 0] : [0, 3];
    let least = bound(options, "minimumFractionDigits", 0, 100, undefined);
    let most = bound(options, "maximumFractionDigits", 0, 100, undefined);
    const isFree = least === undefined && most === undefined;
    if (least === undefined) least = most === undefined ? low : Math.min(low, most);
    if (most === undefined) most = Math.max(high, least);
    if (least > most) throw new RangeError("maximumFractionDigits value is out of range.");
    const firsts = bound(options, "minimumSignificantDigits", 1, 21, undefined);
    const lasts = bound(options, "maximumSignificantDigits", firsts ?? 1, 21, undefined);
    this.#how = {
      style, notation, currency, least, most, isFree, firsts: firsts ?? 1, lasts: lasts ?? (firsts === undefined ? undefined : 21),
      integers: bound(options, "minimumIntegerDigits", 1, 21, 1), grouping: options.useGrouping ?? true,
      sign: choice(options, "signDisplay", ["auto", "always", "never", "exceptZero", "negative"], "auto"),
      display: choice(options, "currencyDisplay", ["symbol", "code", "narrowSymbol", "name"], "symbol"),
      accounting: choice(options, "currencySign", ["standard", "accounting"], "standard") === "accounting",
      long: choice(options, "compactDisplay", ["short", "long"], "short") === "long",
    };
    if (this.#how.display === "name") throw new RangeError("currencyDisplay `name` is not supported: use symbol or code");
    this.format = (value) => this.formatToParts(value).map((part) => part.value).join("");
  }
  formatToParts(value) {
    const how = this.#how;
    const number = typeof value === "bigint" ? value : Number(value);
    const isNegative = typeof number === "bigint" ? number < 0n : number < 0 || Object.is(number, -0);
    let parts;
    let isZero = number == 0;
    if (Number.isNaN(number)) parts = [{ type: "nan", value: "NaN" }];
    else if (number === Infinity || number === -Infinity) parts = [{ type: "infinity", value: "∞" }];
    else {
      let digits = digitsOf(number);
      if (how.style === "percent") digits = digitsOf(`${digits[0]}${digits[1].slice(0, 2).padEnd(2, "0")}`.replace(/^0+(?=\d)/, "") + (digits[1].length > 2 ? `.${digits[1].slice(2)}` : ""));
      let unit = "";
      if (how.notation === "compact") {
        const shown = (by) => {
          const moved = by === 0 ? digits : [digits[0].slice(0, -by) || "0", digits[0].slice(-by).padStart(by, "0") + digits[1]];
          if (how.lasts !== undefined) return significant(moved, how.firsts, how.lasts);
          if (!how.isFree) return rounded(moved, how.most);
          return moved[0].length > 1 ? rounded(moved, 0) : significant(moved, 1, 2);
        };
        let by = Math.min(12, Math.floor((digits[0].length - 1) / 3) * 3);
        let done = shown(by);
        if (done[0].length > 3 && by < 12) done = shown(by += 3);
        unit = (how.long ? ["", " thousand", " million", " billion", " trillion"] : ["", "K", "M", "B", "T"])[by / 3];
        digits = done;
      } else if (how.lasts !== undefined) digits = significant(digits, how.firsts, how.lasts);
      else digits = rounded(digits, how.most);
      let [whole, part] = digits;
      if (how.lasts === undefined && !(how.notation === "compact" && how.isFree)) {
        part = part.replace(/0+$/, "").padEnd(how.least, "0");
      }
      isZero = /^0*$/.test(whole + part);
      whole = whole.padStart(how.integers, "0");
      const isGrouped = how.grouping !== false && how.grouping !== "false" && (how.notation !== "compact" || whole.length > 4);
      const groups = isGrouped ? whole.replace(/\B(?=(?:\d{3})+$)/g, ",").split(",") : [whole];
      parts = groups.flatMap((group, at) => (at === 0 ? [{ type: "integer", value: group }] : [{ type: "group", value: "," }, { type: "integer", value: group }]));
      if (part !== "") parts.push({ type: "decimal", value: "." }, { type: "fraction", value: part });
      if (unit !== "") parts.push({ type: "compact", value: unit });
    }
    if (how.style === "percent") parts.push({ type: "percentSign", value: "%" });
    if (how.style === "currency") {
      const sign = how.display === "code" ? how.currency : how.display === "narrowSymbol" ? (SIGNS[how.currency] ?? how.currency).replace(/^[A-Z]+(?=[^A-Z])/, "") : SIGNS[how.currency] ?? how.currency;
      parts.unshift({ type: "currency", value: sign }, ...(/[A-Z]$/.test(sign) ? [{ type: "literal", value: "\u00a0" }] : []));
    }
    const minus = isNegative && how.sign !== "never" && !(isZero && (how.sign === "exceptZero" || how.sign === "negative"));
    if (minus && how.accounting && how.style === "currency") return [{ type: "literal", value: "(" }, ...parts, { type: "literal", value: ")" }];
    if (minus) parts.unshift({ type: "minusSign", value: "-" });
    else if (!isNegative && !Number.isNaN(number) && (how.sign === "always" || (how.sign === "exceptZero" && !isZero))) parts.unshift({ type: "plusSign", value: "+" });
    return parts;
  }
  resolvedOptions() {
    const { style, notation, currency, least, most, integers, sign } = this.#how;
    return { locale: "en-US", numberingSystem: "latn", style, ...(currency && { currency }), minimumIntegerDigits: integers, minimumFractionDigits: least, maximumFractionDigits: most, notation, signDisplay: sign, roundingMode: "halfExpand" };
  }
  static supportedLocalesOf(all) { return [all].flat().filter((one) => ENGLISH.test(one)); }
}

const NUMERIC = ["numeric", "2-digit"];
const TEXTS = ["long", "short", "narrow"];

class DateTimeFormat {
  #how;
  constructor(locales, options = {}, needed = "any", defaults = "date") {
    locale(locales);
    const zone = options.timeZone;
    if (zone !== undefined && !UTC.test(String(zone))) throw new RangeError(`the time zone ${zone} is not supported: only UTC is; Python's zoneinfo supports the others`);
    const how = {
      weekday: choice(options, "weekday", TEXTS), year: choice(options, "year", NUMERIC), month: choice(options, "month", [...NUMERIC, ...TEXTS]), day: choice(options, "day", NUMERIC),
      hour: choice(options, "hour", NUMERIC), minute: choice(options, "minute", NUMERIC), second: choice(options, "second", NUMERIC), fraction: bound(options, "fractionalSecondDigits", 1, 3, undefined),
      dateStyle: choice(options, "dateStyle", ["full", "long", "medium", "short"]), timeStyle: choice(options, "timeStyle", ["full", "long", "medium", "short"]),
      zone: choice(options, "timeZoneName", ["short", "long", "shortOffset", "longOffset", "shortGeneric", "longGeneric"]),
      cycle: options.hour12 !== undefined ? (options.hour12 ? "h12" : "h24") : choice(options, "hourCycle", ["h11", "h12", "h23", "h24"], "h12"),
    };
    for (const name of ["era", "dayPeriod"]) if (options[name] !== undefined) throw new RangeError(`the option ${name} is not supported`);
    const styled = how.dateStyle !== undefined || how.timeStyle !== undefined;
    const has = (...names) => names.some((name) => how[name] !== undefined);
    if (styled && has("weekday", "year", "month", "day", "hour", "minute", "second", "fraction", "zone")) throw new TypeError("Can't set option with dateStyle or timeStyle");
    const isEmpty = !styled && !(needed !== "time" && has("weekday", "year", "month", "day")) && !(needed !== "date" && has("hour", "minute", "second", "fraction"));
    if (isEmpty && defaults !== "time") how.year = how.month = how.day = "numeric";
    if (isEmpty && defaults !== "date") how.hour = how.minute = how.second = "numeric";
    const { dateStyle, timeStyle } = how;
    how.joint = ", ";
    if (dateStyle !== undefined) {
      Object.assign(how, { day: "numeric", year: dateStyle === "short" ? "2-digit" : "numeric", month: { full: "long", long: "long", medium: "short", short: "numeric" }[dateStyle] });
      if (dateStyle === "full") how.weekday = "long";
    }
    if (timeStyle !== undefined) {
      Object.assign(how, { hour: "numeric", minute: "2-digit" });
      if (timeStyle !== "short") how.second = "2-digit";
      if (timeStyle === "long") how.zone = "short";
      if (timeStyle === "full") how.zone = "long";
    }
    if (how.month === "long" && how.day !== undefined) how.joint = " at ";
    if (how.year !== undefined && how.day !== undefined && how.month === undefined) throw new RangeError("a year and a day without a month are not supported");
    this.#how = how;
    this.format = (value) => this.formatToParts(value).map((part) => part.value).join("");
  }
  formatToParts(value) {
    const date = new Date(value === undefined ? Date.now() : value instanceof Date ? value.getTime() : Number(value));
    if (Number.isNaN(date.getTime())) throw new RangeError("Invalid time value");
    const how = this.#how;
    const two = (number, style) => (style === "2-digit" ? String(number % 100).padStart(2, "0") : String(number));
    const name = (all, at, style) => (style === "long" ? all[at] : style === "short" ? all[at].slice(0, 3) : all[at][0]);
    const parts = [];
    const add = (type, value, before = "") => {
      if (before !== "" && parts.length > 0) parts.push({ type: "literal", value: before });
      parts.push({ type, value });
    };
    const isText = how.month !== undefined && !NUMERIC.includes(how.month);
    if (how.weekday) add("weekday", name(DAYS, date.getUTCDay(), how.weekday));
    if (how.month) add("month", isText ? name(MONTHS, date.getUTCMonth(), how.month) : two(date.getUTCMonth() + 1, how.month), ", ");
    if (how.day) add("day", two(date.getUTCDate(), how.day), how.month === undefined ? " " : isText ? " " : "/");
    if (how.year) add("year", two(date.getUTCFullYear(), how.year), how.month === undefined ? " " : !isText ? "/" : how.day ? ", " : " ");
    const isFirst = parts.length === 0;
    const hours = date.getUTCHours();
    const is12 = how.cycle === "h12" || how.cycle === "h11";
    if (how.hour) {
      const shown = { h11: hours % 12, h12: hours % 12 || 12, h23: hours, h24: hours || 24 }[how.cycle];
      add("hour", two(shown, is12 ? how.hour : "2-digit"), isFirst ? "" : how.joint);
    }
    const joint = how.hour ? ":" : isFirst ? "" : how.joint;
    if (how.minute) add("minute", two(date.getUTCMinutes(), how.hour || how.second ? "2-digit" : "numeric"), joint);
    if (how.second) add("second", two(date.getUTCSeconds(), how.minute ? "2-digit" : "numeric"), how.minute ? ":" : joint);
    if (how.fraction) add("fractionalSecond", String(date.getUTCMilliseconds()).padStart(3, "0").slice(0, how.fraction), how.second ? "." : joint);
    if (how.hour && is12) add("dayPeriod", hours < 12 ? "AM" : "PM", "\u202f");
    if (how.zone) add("timeZoneName", how.zone.startsWith("long") && how.zone !== "longOffset" ? "Coordinated Universal Time" : /Offset/.test(how.zone) ? "GMT" : "UTC", how.hour || how.minute || how.second ? " " : ", ");
    return parts;
  }
  formatRange() { throw new RangeError("formatRange is not supported: format both dates"); }
  resolvedOptions() {
    const { joint, zone, fraction, cycle, ...how } = this.#how;
    const told = Object.fromEntries(Object.entries(how).filter(([, value]) => value !== undefined));
    return { locale: "en-US", calendar: "gregory", numberingSystem: "latn", timeZone: "UTC", ...told };
  }
  static supportedLocalesOf(all) { return NumberFormat.supportedLocalesOf(all); }
}

// The order of characters that are neither digits nor letters, from Unicode's root collation.
const MARKS = "\t\n\v\f\r \u00a0_-‐–—,;:!?¿.…·'‘’\"“”«»()[]{}§¶@*/\\&#%†‡•`´^¨°©®+±÷×<=>|~¤¢$£¥€";
const SPLIT = { ß: "ss", æ: "ae", œ: "oe", ø: "o", ł: "l", đ: "d", þ: "th", ð: "d" };

// Returns a letter as three weights: the base letter, its accents, and its case.
function weights(text, isNumeric) {
  const all = [];
  const plain = text.normalize("NFD");
  for (let at = 0; at < plain.length;) {
    const letter = String.fromCodePoint(plain.codePointAt(at));
    at += letter.length;
    if (/\p{M}/u.test(letter)) {
      if (all.length > 0) all.at(-1)[1] += letter;
      continue;
    }
    if (/[\0-\x08\x0e-\x1f\x7f\u00ad\u200b-\u200f\ufeff]/.test(letter)) continue;
    if (isNumeric && /\d/.test(letter)) {
      const [digits] = /^\d+/.exec(plain.slice(at - 1));
      at += digits.length - 1;
      const value = digits.replace(/^0+(?=\d)/, "");
      all.push([2e6 + value.length + 0.5, "", 0, value]);
      continue;
    }
    const low = letter.toLowerCase();
    for (const one of SPLIT[low] ?? low) {
      const mark = MARKS.indexOf(one);
      const code = one.codePointAt(0);
      const first = mark >= 0 ? mark : /\d/.test(one) ? 2e6 + 1 + code / 1e3 : /\p{L}/u.test(one) ? 3e6 + code : 1e6 + code;
      all.push([first, SPLIT[low] === undefined ? "" : low, letter === low ? 0 : 1, ""]);
    }
  }
  return all;
}

function collated(one, other, { numeric = false, sensitivity = "variant", caseFirst = "false", ignorePunctuation = false } = {}) {
  if (one === other) return 0;
  let [first, second] = [weights(one, numeric), weights(other, numeric)];
  if (ignorePunctuation) [first, second] = [first, second].map((all) => all.filter(([weight]) => weight >= 2e6 || weight < 0));
  const most = Math.min(first.length, second.length);
  for (let at = 0; at < most; at++) {
    if (first[at][0] !== second[at][0]) return first[at][0] < second[at][0] ? -1 : 1;
    if (first[at][3] !== second[at][3]) return first[at][3] < second[at][3] ? -1 : 1;
  }
  if (first.length !== second.length) return first.length < second.length ? -1 : 1;
  const levels = { base: [], accent: [1], case: [2], variant: [1, 2] }[sensitivity];
  for (const level of levels) {
    for (let at = 0; at < most; at++) {
      if (first[at][level] === second[at][level]) continue;
      const order = first[at][level] < second[at][level] ? -1 : 1;
      return level === 2 && caseFirst === "upper" ? -order : order;
    }
  }
  return 0;
}

class Collator {
  #how;
  constructor(locales, options = {}) {
    locale(locales);
    this.#how = {
      numeric: options.numeric === undefined ? /-u-.*kn/.test(String(locales)) : Boolean(options.numeric), ignorePunctuation: Boolean(options.ignorePunctuation),
      sensitivity: choice(options, "sensitivity", ["base", "accent", "case", "variant"], "variant"), caseFirst: choice(options, "caseFirst", ["upper", "lower", "false"], "false"),
    };
    this.compare = (one, other) => collated(String(one), String(other), this.#how);
  }
  resolvedOptions() { return { locale: "en-US", usage: "sort", collation: "default", ...this.#how }; }
  static supportedLocalesOf(all) { return NumberFormat.supportedLocalesOf(all); }
}

class PluralRules {
  #isOrdinal;
  constructor(locales, options = {}) {
    locale(locales);
    this.#isOrdinal = choice(options, "type", ["cardinal", "ordinal"], "cardinal") === "ordinal";
  }
  select(number) {
    if (!this.#isOrdinal) return number === 1 ? "one" : "other";
    const [one, two] = [number % 10, number % 100];
    return one === 1 && two !== 11 ? "one" : one === 2 && two !== 12 ? "two" : one === 3 && two !== 13 ? "few" : "other";
  }
  resolvedOptions() { return { locale: "en-US", type: this.#isOrdinal ? "ordinal" : "cardinal" }; }
}

class ListFormat {
  #how;
  constructor(locales, options = {}) {
    locale(locales);
    this.#how = { type: choice(options, "type", ["conjunction", "disjunction", "unit"], "conjunction"), style: choice(options, "style", ["long", "short", "narrow"], "long") };
  }
  format(list) {
    const all = [...list];
    const { type, style } = this.#how;
    if (type === "unit") return all.join(style === "narrow" ? " " : ", ");
    const word = type === "disjunction" ? "or" : style === "long" ? "and" : style === "short" ? "&" : "";
    if (all.length < 2) return all.join("");
    const joint = word === "" ? ", " : all.length === 2 ? ` ${word} ` : `, ${word} `;
    return all.slice(0, -1).join(", ") + joint + all.at(-1);
  }
}

const Intl = {
  NumberFormat: called(NumberFormat), DateTimeFormat: called(DateTimeFormat), Collator: called(Collator), PluralRules, ListFormat,
  getCanonicalLocales: (all) => (all === undefined ? [] : [all].flat().map(String)),
  supportedValuesOf: (key) => ({ timeZone: ["UTC"], currency: Object.keys(SIGNS).sort() })[key] ?? [],
};
for (const name of ["RelativeTimeFormat", "DisplayNames", "Segmenter", "Locale", "DurationFormat"]) {
  Intl[name] = class { constructor() { throw new RangeError(`Intl.${name} is not supported: NumberFormat, DateTimeFormat, Collator, PluralRules and ListFormat are, for en-US and UTC`); } };
}
Object.defineProperty(Intl, Symbol.toStringTag, { value: "Intl" });

// Makes a class callable without `new`.
function called(Format) {
  return new Proxy(Format, { apply: (_, self, args) => new Format(...args) });
}

const shownAs = (Kind, name, show) => Object.defineProperty(Kind.prototype, name, { value: show, writable: true, configurable: true });
const plainNumber = new NumberFormat();
shownAs(Number, "toLocaleString", function toLocaleString(locales, options) {
  return (locales === undefined && options === undefined ? plainNumber : new NumberFormat(locales, options)).format(Number(this));
});
shownAs(BigInt, "toLocaleString", function toLocaleString(locales, options) { return new NumberFormat(locales, options).format(BigInt(this)); });
const dated = (needed, defaults) => function toLocaleString(locales, options) {
  if (Number.isNaN(this.getTime())) return "Invalid Date";
  return new DateTimeFormat(locales, options ?? {}, needed, defaults).format(this);
};
shownAs(Date, "toLocaleString", dated("any", "all"));
shownAs(Date, "toLocaleDateString", dated("date", "date"));
shownAs(Date, "toLocaleTimeString", dated("time", "time"));
shownAs(String, "localeCompare", function localeCompare(other, locales, options) {
  if (locales === undefined && options === undefined) return collated(String(this), String(other));
  return new Collator(locales, options).compare(this, other);
});
globalThis.Intl = Intl;
