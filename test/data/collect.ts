/** All values of an async iterable as a list. Node 20 has no `Array.fromAsync`. */
export async function collect<Value>(values: AsyncIterable<Value>): Promise<Value[]> {
  const list: Value[] = [];
  for await (const value of values) list.push(value);
  return list;
}
