// Assertions.
define("assert", () => {
  class AssertionError extends Error {
    constructor({ message, actual, expected, operator }) {
      super(message);
      Object.assign(this, { generatedMessage: false, code: "ERR_ASSERTION", actual, expected, operator });
      for (const key of Object.keys(this)) Object.defineProperty(this, key, { enumerable: false });
    }
    get name() { return "AssertionError"; }
  }
  const fail = (message, otherwise, actual, expected, operator) => {
    if (message instanceof Error) throw message;
    const text = message ?? (typeof otherwise === "function" ? otherwise() : otherwise);
    throw new AssertionError({ message: text, actual, expected, operator });
  };
  const both = (head, actual, expected) => () => {
    const [one, other] = [inspect(actual), inspect(expected)];
    return one.includes("\n") || other.includes("\n") || one.length + other.length > 50
      ? `${head}\n+ actual - expected\n\n+ ${one.replaceAll("\n", "\n+ ")}\n- ${other.replaceAll("\n", "\n- ")}` : `${head}\n\n${one} !== ${other}\n`;
  };
  const matches = (error, expected, message) => {
    if (expected === undefined) return;
    if (typeof expected === "function") {
      if (expected.prototype !== undefined && error instanceof expected) return;
      if (Error.isPrototypeOf(expected)) throw error;
      if (expected.call({}, error) === true) return;
      fail(message, "The validation function is expected to return \"true\".", error, expected, "throws");
    } else if (expected instanceof RegExp) {
      if (!expected.test(String(error))) fail(message, () => `The input did not match the regular expression ${expected}. Input:\n\n${inspect(String(error))}\n`, error, expected, "throws");
    } else {
      for (const key of Object.keys(expected)) {
        const fine = expected[key] instanceof RegExp && typeof error[key] === "string" ? expected[key].test(error[key]) : deepEqual(error[key], expected[key], true);
        if (!fine) fail(message, () => `Expected values to be strictly deep-equal: ${key}: ${inspect(error[key])} !== ${inspect(expected[key])}`, error, expected, "throws");
      }
    }
  };
  const split = (expected, message) => (typeof expected === "string" ? [undefined, expected] : [expected, message]);
  const assert = (...all) => assert.ok(...all);
  Object.assign(assert, {
    AssertionError,
    ok(value, message) {
      if (!value) fail(message, value === undefined && message === undefined ? "The expression evaluated to a falsy value" : () => `The expression evaluated to a falsy value: ${inspect(value)}`, value, true, "==");
    },
    equal: (one, other, message) => void (one == other || (one !== one && other !== other) || fail(message, () => `${inspect(one)} == ${inspect(other)}`, one, other, "==")),
    notEqual: (one, other, message) => void (one != other || fail(message, () => `${inspect(one)} != ${inspect(other)}`, one, other, "!=")),
    strictEqual: (one, other, message) => void (Object.is(one, other) || fail(message, both("Expected values to be strictly equal:", one, other), one, other, "strictEqual")),
    notStrictEqual: (one, other, message) => void (!Object.is(one, other) || fail(message, () => `Expected "actual" to be strictly unequal to: ${inspect(other)}`, one, other, "notStrictEqual")),
    deepEqual: (one, other, message) => void (deepEqual(one, other, false) || fail(message, both("Expected values to be loosely deep-equal:", one, other), one, other, "deepEqual")),
    deepStrictEqual: (one, other, message) => void (deepEqual(one, other, true) || fail(message, both("Expected values to be strictly deep-equal:", one, other), one, other, "deepStrictEqual")),
    notDeepEqual: (one, other, message) => void (!deepEqual(one, other, false) || fail(message, () => `Expected "actual" not to be loosely deep-equal to: ${inspect(other)}`, one, other, "notDeepEqual")),
    notDeepStrictEqual: (one, other, message) => void (!deepEqual(one, other, true) || fail(message, () => `Expected "actual" not to be strictly deep-equal to: ${inspect(other)}`, one, other, "notDeepStrictEqual")),
    match: (text, pattern, message) => void (pattern.test(text) || fail(message, () => `The input did not match the regular expression ${pattern}. Input:\n\n${inspect(text)}\n`, text, pattern, "match")),
    doesNotMatch: (text, pattern, message) => void (!pattern.test(text) || fail(message, () => `The input was expected to not match the regular expression ${pattern}. Input:\n\n${inspect(text)}\n`, text, pattern, "doesNotMatch")),
    throws(work, wanted, said) {
      const [expected, message] = split(wanted, said);
      let error;
      try {
        work();
      } catch (caught) {
        error = { caught };
      }
      if (error === undefined) fail(message, `Missing expected exception${expected?.name ? ` (${expected.name}).` : "."}`, undefined, expected, "throws");
      matches(error.caught, expected, message);
    },
    doesNotThrow(work, wanted, said) {
      try {
        work();
      } catch (error) {
        fail(split(wanted, said)[1], `Got unwanted exception.\nActual message: "${error?.message}"`, error, undefined, "doesNotThrow");
      }
    },
    rejects(work, wanted, said) {
      const [expected, message] = split(wanted, said);
      return Promise.try(() => (typeof work === "function" ? work() : work)).then(
        () => fail(message, `Missing expected rejection${expected?.name ? ` (${expected.name}).` : "."}`, undefined, expected, "rejects"),
        (error) => matches(error, expected, message),
      );
    },
    doesNotReject: (work, wanted, said) => Promise.try(() => (typeof work === "function" ? work() : work)).then(
      () => undefined, (error) => fail(split(wanted, said)[1], `Got unwanted rejection.\nActual message: "${error?.message}"`, error, undefined, "doesNotReject"),
    ),
    ifError(value) { if (value != null) throw value instanceof Error ? value : new AssertionError({ message: `ifError got unwanted exception: ${inspect(value)}`, actual: value, operator: "ifError" }); },
    fail: (message) => fail(message, "Failed", undefined, undefined, "fail"),
  });
  const strict = Object.assign((...all) => assert.ok(...all), assert, { equal: assert.strictEqual, notEqual: assert.notStrictEqual, deepEqual: assert.deepStrictEqual, notDeepEqual: assert.notDeepStrictEqual });
  strict.strict = assert.strict = strict;
  return assert;
});
define("assert/strict", () => builtin("assert").strict);
