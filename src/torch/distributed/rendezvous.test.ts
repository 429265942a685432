import { expect, test } from "vitest";
import { openStore, type StoreOptions } from "./rendezvous.ts";

test("a store of an unknown type is refused by name", async () => {
  const options = JSON.parse('{ "type": "etcd", "host": "127.0.0.1", "port": 1 }') as StoreOptions;
  await expect(openStore(options)).rejects.toMatchObject({
    code: "INVALID_ARGUMENT",
    message: 'openStore has the types "tcp", "file" and "local": got "etcd".',
  });
});
