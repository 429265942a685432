import { expect, test } from "vitest";
import { BlockPool } from "./block-pool.ts";
import { PrefixKeys } from "./prefix-keys.ts";

const name = new PrefixKeys();
name.push(Int32Array.of(1, 2, 3, 4), 0, 4, 0);

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
  pool.publish(block, name, 0);
  pool.release(block);
  expect(pool.find(name, 0)).toBe(block);
  pool.take();
  expect(pool.find(name, 0)).toBe(block);
  pool.take();
  expect(pool.find(name, 0)).toBeUndefined();
});

test("sharing a found block takes it out of reach of others", () => {
  const pool = new BlockPool(1, 4);
  const block = pool.take()!;
  pool.publish(block, name, 0);
  pool.release(block);
  pool.share(block);
  expect(pool.take()).toBeUndefined();
  expect(pool.find(name, 0)).toBe(block);
});

test("the first of two blocks with the same content stays the known one", () => {
  const pool = new BlockPool(2, 4);
  const [first, second] = [pool.take()!, pool.take()!];
  pool.publish(first, name, 0);
  pool.publish(second, name, 0);
  expect(pool.find(name, 0)).toBe(first);
  pool.release(second);
  expect(pool.take()).toBe(second);
  expect(pool.find(name, 0)).toBe(first);
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
  pool.publish(block, name, 0);
  pool.forgetPrefixes();
  expect(pool.find(name, 0)).toBeUndefined();
  expect(pool.numAvailable).toBe(1);
});

test("releasing a block once too often is our bug", () => {
  const pool = new BlockPool(1, 4);
  expect(() => pool.release(0)).toThrow("internal: block 0 is released more often than it was taken");
});
