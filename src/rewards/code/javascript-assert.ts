/**
 * The part of Node's `assert` that tests use, for the realm of the tests: a name that tests need is never left to the solution.
 */

/** An expression: the function `assert` with its methods. Loose and strict comparisons are both strict. */
export const javascriptAssertSource = `(() => {
  const show = (value) => { try { return JSON.stringify(value) ?? String(value); } catch { return typeof value; } };
  const need = (isTrue, message) => {
    if (!isTrue) throw message instanceof Error ? message : Object.assign(new Error(String(message)), { name: "AssertionError" });
  };
  const isDeepEqual = (left, right) => {
    if (Object.is(left, right) || left === right) return true;
    if (typeof left !== "object" || typeof right !== "object" || left === null || right === null) return false;
    if (Object.prototype.toString.call(left) !== Object.prototype.toString.call(right)) return false;
    if (left instanceof Date) return left.getTime() === right.getTime();
    if (left instanceof Set || left instanceof Map) {
      return left.size === right.size && isDeepEqual([...left], [...right]);
    }
    const keys = Object.keys(left);
    return keys.length === Object.keys(right).length
      && keys.every((key) => Object.hasOwn(right, key) && isDeepEqual(left[key], right[key]));
  };
  const compare = (test, word) => (left, right, message = show(left) + " is not " + word + show(right)) => need(test(left, right), message);
  const assert = (value, message = "assertion failed") => need(value, message);
  const isSame = (left, right) => left === right || Object.is(left, right);
  assert.ok = assert;
  assert.fail = (message = "failed") => need(false, message);
  assert.equal = assert.strictEqual = compare(isSame, "");
  assert.notEqual = assert.notStrictEqual = compare((left, right) => !isSame(left, right), "other than ");
  assert.deepEqual = assert.deepStrictEqual = compare(isDeepEqual, "");
  assert.notDeepEqual = assert.notDeepStrictEqual = compare((left, right) => !isDeepEqual(left, right), "other than ");
  assert.throws = (act, expected) => {
    let error;
    try { act(); } catch (thrown) { error = { thrown }; }
    need(error !== undefined, "nothing was thrown");
    if (expected instanceof RegExp) need(expected.test(String(error.thrown)), "threw " + error.thrown);
    if (typeof expected === "function") need(error.thrown instanceof expected, "threw " + error.thrown);
  };
  assert.strict = assert;
  return assert;
})()`;
