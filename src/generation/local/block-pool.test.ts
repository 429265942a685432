import { expect, test } from "vitest";
import { BlockPool, prefixKey } from "./block-pool.ts";

test("a block that nobody holds can be taken again, and not before", () => {
  const pool = new BlockPool(2, 4);
  const [first, second] = [pool.take()!, pool.take()!];
  expect(pool.take()).toBeUndefined();
  pool.share(first);
  pool.release(first);
  expect(pool.numAvailable).toBe(0);
  pool.release(first);
  pool.release(second);
  expect(pool.numAvailable).toBe(2);
});

test("a released block is found by its content until its memory is needed", () => {
  const pool = new BlockPool(2, 4);
  const block = pool.take()!;
  pool.publish(block, "a");
  pool.release(block);
  expect(pool.find("a")).toBe(block);
  pool.take();
  expect(pool.find("a")).toBe(block);
  pool.take();
  expect(pool.find("a")).toBeUndefined();
});

test("sharing a found block takes it out of reach of others", () => {
  const pool = new BlockPool(1, 4);
  const block = pool.take()!;
  pool.publish(block, "a");
  pool.release(block);
  pool.share(block);
  expect(pool.take()).toBeUndefined();
  expect(pool.find("a")).toBe(block);
});

test("the first of two blocks with the same content stays the known one", () => {
  const pool = new BlockPool(2, 4);
  const [first, second] = [pool.take()!, pool.take()!];
  pool.publish(first, "a");
  pool.publish(second, "a");
  expect(pool.find("a")).toBe(first);
  pool.release(second);
  expect(pool.take()).toBe(second);
  expect(pool.find("a")).toBe(first);
});

test("of a released sequence the last block is used again first, since the others are of use without it", () => {
  const pool = new BlockPool(3, 4);
  const blocks = [pool.take()!, pool.take()!, pool.take()!];
  pool.releaseAll(blocks);
  expect([pool.take(), pool.take(), pool.take()]).toEqual(blocks.toReversed());
});

test("forgotten prefixes are not found, and their blocks stay with their holders", () => {
  const pool = new BlockPool(2, 4);
  const block = pool.take()!;
  pool.publish(block, "a");
  pool.forgetPrefixes();
  expect(pool.find("a")).toBeUndefined();
  expect(pool.numAvailable).toBe(1);
});

test("releasing a block once too often is our bug", () => {
  const pool = new BlockPool(1, 4);
  expect(() => pool.release(0)).toThrow("internal: block 0 is released more often than it was taken");
});

test("the name of a block depends on its tokens and on all before it", () => {
  const tokens = Int32Array.of(1, 2);
  expect(prefixKey("a", tokens)).toBe(prefixKey("a", Int32Array.of(0, 1, 2).subarray(1)));
  expect(prefixKey("a", tokens)).not.toBe(prefixKey("b", tokens));
  expect(prefixKey("a", tokens)).not.toBe(prefixKey("a", Int32Array.of(2, 1)));
});
